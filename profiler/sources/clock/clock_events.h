// SPDX-License-Identifier: Apache-2.0
// Which kernel events make clock samples, and what one of them costs.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/result.h"
#include "profiler/sources/perf/perf_api.h"
#include "profiler/sources/perf/task_events.h"

namespace tmprof {

// Two ways to get a record with the user registers:
//
// Ticks: the tracepoint at the entry of the local timer interrupt. It fires in every timer
// interrupt, those that the scheduler's tick causes anyway included, so the tick's samples cost a
// record and no interrupt. A clock event without a ring adds interrupts up to the budget. The
// record says nothing of the interrupted mode: that follows from the registers (see ClockSampler).
//
// Clock: the clock event's own records, where the tracepoint cannot be had.
struct ClockSetup {
  std::optional<std::uint64_t> tick_id;  // of irq_vectors:local_timer_entry
  bool kernel_seen = true;               // false: only user-mode samples are permitted
  std::optional<Error> no_ticks;         // why tick_id is absent
};

// Tries what this process may open, on itself. Fails where no clock samples can be had.
Result<ClockSetup> FindClockSetup(PerfApi& api,
                                  const std::optional<std::filesystem::path>& tracefs);

// The events of `setup`, the ring's writer first. Event names are for messages.
std::vector<TaskEvents::Event> MakeClockEvents(const ClockSetup& setup,
                                               std::chrono::nanoseconds period);

// The smallest prime number of nanoseconds that is not below `wanted`: no multiple of it meets the
// period of a loop, a frame or a timer in round units. Preferred to a random period, which costs
// one system call and interrupt per descriptor each time it changes.
std::chrono::nanoseconds PrimePeriod(std::chrono::nanoseconds wanted);

// CPU time that one sample costs the thread it hits, in nanoseconds: throughput of a loop of random
// updates with and without samples, in alternating windows of CPU time, median of the pairs. Takes
// about 200 ms of CPU time on a thread of its own.
Result<double> MeasureSampleCost(PerfApi& api, const ClockSetup& setup);

}  // namespace tmprof
