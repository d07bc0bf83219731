// SPDX-License-Identifier: Apache-2.0
// A process that is followed, as the sources, the daemon and /proc's readers know it.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"

namespace tmprof {

// A live process that the sources follow. `mappings` is two seconds old at most, but for what
// cannot be read.
struct TrackedProcess {
  TargetId id;
  Pid pid;
  std::uint64_t start_time_ticks = 0;
  std::vector<Mapping> mappings;
  std::optional<std::uint64_t> ipc_namespace{};  // as of Target
};

}  // namespace tmprof
