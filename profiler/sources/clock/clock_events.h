// SPDX-License-Identifier: Apache-2.0
// Which kernel event makes clock samples, and what one of them costs.

#pragma once

#include <chrono>

#include "base/result.h"
#include "profiler/sources/perf/perf_api.h"
#include "profiler/sources/perf/task_events.h"

namespace tmprof {

struct ClockSetup {
  bool kernel_seen = true;  // false: only user-mode samples are permitted
};

// Tries what this process may open, on itself. Fails where no clock samples can be had.
Result<ClockSetup> FindClockSetup(PerfApi& api);

// Samples with the user registers, one each `period` of a thread's CPU time.
TaskEvents::Event MakeClockEvent(const ClockSetup& setup, std::chrono::nanoseconds period);

// The smallest prime number of nanoseconds that is not below `wanted`: no multiple of it meets the
// period of a loop, a frame or a timer in round units. Preferred to a random period, which costs
// one system call and interrupt per descriptor each time it changes.
std::chrono::nanoseconds PrimePeriod(std::chrono::nanoseconds wanted);

// CPU time that one sample costs the thread it hits, in nanoseconds: what it adds to a stretch of
// random updates, median of some 200 samples. Takes about 200 ms of CPU time on a thread of its
// own.
Result<double> MeasureSampleCost(PerfApi& api, const ClockSetup& setup);

}  // namespace tmprof
