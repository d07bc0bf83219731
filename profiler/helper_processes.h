// SPDX-License-Identifier: Apache-2.0
// Children that the profiler begins to try things on. They are nobody's targets, although a tracker
// follows the other children of this process.

#pragma once

#include <sys/types.h>

#include "base/units.h"

namespace tmprof {

// fork(2). The child is a helper before any other thread can see it.
pid_t ForkHelper();

// The helper has been reaped.
void ForgetHelper(Pid pid);

// Tells of a child of this process if ForkHelper() began it. Any thread may ask.
bool IsHelper(Pid pid);

}  // namespace tmprof
