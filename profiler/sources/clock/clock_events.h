// SPDX-License-Identifier: Apache-2.0
// Which kernel event makes clock samples, and what one of them costs.

#pragma once

#include <chrono>
#include <functional>

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
// own, and on a busy machine up to three times that (LeastSampleCost).
Result<double> MeasureSampleCost(PerfApi& api, const ClockSetup& setup);

// 22 to 60 us were measured on a busy KVM guest. A reading above the first is repeated, and no more
// than the second is charged: a price that is too high would allow next to no samples.
inline constexpr double kBelievedNsPerSample = 100'000;
inline constexpr double kMostNsPerSample = 300'000;

// The least of up to three readings, in nanoseconds, at most kMostNsPerSample: no more are taken
// after one of kBelievedNsPerSample or less. A reading that fails with an errno ends it with that
// error; if all three fail without, as for want of samples, the last error is returned.
Result<double> LeastSampleCost(const std::function<Result<double>()>& measure);

}  // namespace tmprof
