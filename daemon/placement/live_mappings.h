// SPDX-License-Identifier: Apache-2.0
// Files that addresses of a process map now.

#pragma once

#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/epoch_profile.h"
#include "base/result.h"
#include "base/units.h"

namespace tmprof {

// Remembers the last reading for a hundred times as long as it took, or 1 ms, so that at most a
// hundredth of the time goes into it. For one thread.
class LiveMappings {
 public:
  using Read = std::function<Result<std::vector<Mapping>>(Pid)>;

  // `clock` must outlive it.
  LiveMappings(Read read, const Clock& clock) : read_(std::move(read)), clock_(&clock) {}

  // The places in shared files, parallel to the pages, which ascend. Empty if the mappings cannot
  // be read. Precondition: the process number has been one process's since the last call with it.
  std::vector<std::optional<FilePlace>> FilesAt(Pid pid, std::span<const Vpn> pages);

 private:
  Read read_;
  const Clock* clock_;
  std::optional<Pid> pid_;  // that the last reading is of
  std::vector<Mapping> mappings_;
  MonotonicTime good_;  // until then
};

}  // namespace tmprof
