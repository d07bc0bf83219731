// SPDX-License-Identifier: Apache-2.0
// Locks memory of another process. There is no system call for that, so the process itself is made
// to call mlock2(2).

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

enum class LockChange : std::uint8_t {
  // Present pages now, the rest as they come (MLOCK_ONFAULT), so that no thread waits for them.
  kLock,
  kUnlock,
};

struct LockOutcome {
  PageCount changed;  // pages that the kernel accepted
  struct Refusal {
    VpnRange range;
    int system_error = 0;
  };
  std::vector<Refusal> refused;  // ascending; a part of a refused range may be locked
  // The process's new RLIMIT_MEMLOCK in bytes, if it was raised.
  std::optional<std::uint64_t> raised_limit;
  std::optional<Error> cut_short;  // the reason for an early end; unset: it is complete
};

// Locks or unlocks `ranges`, which are ascending and disjoint. Ranges to be locked are not locked
// yet. `start_time_ticks` is field 22 of /proc/PID/stat and tells the process from a later one with
// its PID. If the process may lock less than this takes, its limit is raised first. Fails if the
// limit may not be raised, if the process cannot be stopped (StoppedThread), or if it ends; then
// nothing was changed.
//
// While a thread is held, signals to the caller's process wait, for some ms or as long as the held
// process takes for a call. Other threads of the caller, if any, should block signals.
Result<LockOutcome> ChangeLocks(Pid pid, std::uint64_t start_time_ticks,
                                std::span<const VpnRange> ranges, LockChange change);

// Returns all memory that the process has locked now, whoever locked it: ascending, with adjoining
// ranges joined. Fails if that may not be read, or if the process has ended.
Result<std::vector<VpnRange>> LockedRanges(Pid pid);

}  // namespace tmprof
