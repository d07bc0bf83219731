// SPDX-License-Identifier: Apache-2.0
// Locks memory of another process, for which there is no system call: it is made to call mlock2(2)
// itself.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

enum class LockChange : std::uint8_t {
  kLock,  // what is there now, and the rest as it comes (MLOCK_ONFAULT): nobody waits for it
  kUnlock,
};

struct LockOutcome {
  PageCount changed;  // of the ranges that the kernel took whole
  struct Refusal {
    VpnRange range;
    int system_error = 0;
  };
  std::vector<Refusal> refused;  // ascending; some of a range may be locked all the same
  // RLIMIT_MEMLOCK of the process, in bytes, where that was raised.
  std::optional<std::uint64_t> raised_limit;
};

// `ranges` ascending, disjoint. The process that has the number may be another than the one that is
// meant: `start_time_ticks`, field 22 of /proc/PID/stat, tells. Where the process may lock less
// than this takes, its limit is raised first. Fails where it may not be, where the process cannot
// be stopped (StoppedThread), or ends; what was locked then stays so.
Result<LockOutcome> ChangeLocks(Pid pid, std::uint64_t start_time_ticks,
                                std::span<const VpnRange> ranges, LockChange change);

}  // namespace tmprof
