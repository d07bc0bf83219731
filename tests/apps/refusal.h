// SPDX-License-Identifier: Apache-2.0
// System calls that fail, in this process and in all that it executes: what a full descriptor table
// or a sandbox would do, at a call of the test's choice.

#pragma once

#include <sys/types.h>

namespace tmprof::test {

// For a forked child, before it executes the program under test. They exit with 126 where the
// kernel has no seccomp filters.
void RefuseSystemCall(int number, int error);
// perf_event_open(2) on one CPU for `process`, respectively for any but the calling one.
void RefuseSampling(pid_t process, int error);
void RefuseSamplingOfOthers(int error);

}  // namespace tmprof::test
