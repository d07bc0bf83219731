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
  PageCount changed;  // of what the kernel took
  struct Refusal {
    VpnRange range;
    int system_error = 0;
  };
  std::vector<Refusal> refused;  // ascending; some of a range may be locked all the same
  // RLIMIT_MEMLOCK of the process, in bytes, where that was raised.
  std::optional<std::uint64_t> raised_limit;
  std::optional<Error> cut_short;  // what kept it from the rest; unset: nothing did
};

// `ranges` ascending, disjoint, and not locked yet where they are to be. The process that has the
// number may be another than the one that is meant: `start_time_ticks`, field 22 of /proc/PID/stat,
// tells. Where the process may lock less than this takes, its limit is raised first. Fails where it
// may not be, where the process cannot be stopped (StoppedThread), or ends, and nothing was
// changed.
//
// Signals to the caller's process wait while a thread is held, some ms or as long as the process
// takes for a call; its other threads, if any, should block them.
Result<LockOutcome> ChangeLocks(Pid pid, std::uint64_t start_time_ticks,
                                std::span<const VpnRange> ranges, LockChange change);

// What it has locked now, by itself or not: ascending, touching ranges are one. Fails where that
// may not be read, or the process has ended.
Result<std::vector<VpnRange>> LockedRanges(Pid pid);

}  // namespace tmprof
