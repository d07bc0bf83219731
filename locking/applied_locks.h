// SPDX-License-Identifier: Apache-2.0
// Locks in the running process the memory that the advice names.

#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "locking/lock_advice.h"
#include "locking/memory_lock.h"

namespace tmprof {

struct AppliedLocks {
  LockAdvice::Applied done;
  std::optional<Error> cut_short;  // the error that stopped the rest; unset: all was done
};

// Locks what of the advice the process has mapped still and has not locked, and keeps beside the
// trace a record of it (TRACE.PID.locks), which is written first. Unlocking is of what the record
// holds, as far as that is mapped, and of nothing else: what the program has locked stays so. Fails
// as ChangeLocks(), where the record cannot be written, and to unlock without one.
Result<AppliedLocks> ApplyLocks(const LockAdvice& advice, const std::string& trace,
                                LockChange change);

}  // namespace tmprof
