// SPDX-License-Identifier: Apache-2.0
// From the advice what to lock to the process that runs.

#pragma once

#include "base/result.h"
#include "locker/memory_lock.h"
#include "report/lock_advice.h"

namespace tmprof {

// What of the advice the process still has mapped. Fails as ChangeLocks().
Result<LockAdvice::Applied> ApplyLocks(const LockAdvice& advice, LockChange change);

}  // namespace tmprof
