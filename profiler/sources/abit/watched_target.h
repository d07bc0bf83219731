// SPDX-License-Identifier: Apache-2.0
// The state of a target that all engines of the accessed-bit scanner keep.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "driver/core/ladder.h"
#include "profiler/source.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/cpu_clock.h"

namespace tmprof::abit {

struct WatchedTarget {
  WatchedTarget(AbitKernel& kernel, OverheadShare share);

  // Returns why it could not be opened, unless it is gone.
  std::optional<Error> Open(AbitKernel& kernel);
  bool watched() const { return handle && !gone; }

  // Returns the target's CPU time at a read or a clear that has just been.
  // `running_threads` were seen on a CPU.
  std::chrono::nanoseconds CpuAt(MonotonicTime time, std::uint32_t running_threads);
  // Returns the same clock's time where it is exact at any moment.
  std::optional<RunningTime> Running(MonotonicTime time);
  // `cpu`: by that clock. Precondition: it is exact.
  void WakeAt(std::chrono::nanoseconds cpu) { handle->WakeAt(cpu - clock.ahead().value()); }

  // The CPU time it used since the last time.
  std::chrono::nanoseconds TakeUsed();
  // Its share of that, less what its exact clock has cost it. A clock that takes most of the share
  // is dropped. Returns that cost.
  std::chrono::nanoseconds Earn(std::chrono::nanoseconds used);
  // It earns by what it uses from now on. CPU time that it used unwatched earns nothing, and its
  // clock is not charged for that.
  void EarnFromNow();

  // A read found another address space. False: the process has exited, and its number belongs to
  // another. True: it executes another program, whose mappings are not known yet.
  bool RunsAnotherProgram(std::uint64_t its_address_space);

  TrackedProcess process;
  std::unique_ptr<AbitProcess> handle;  // null: it could not be opened yet
  bool gone = false;
  bool mappings_stale = false;  // they are of a program that the process ran before
  std::optional<std::uint64_t> address_space;
  CpuClock clock;
  std::chrono::nanoseconds earned_at{0};
  tmprof_budget budget{};
  std::chrono::nanoseconds clock_cost{0};  // the exact clock's, in a window ...
  std::chrono::nanoseconds clock_used{0};  // ... of so much CPU time used
  std::uint64_t charged_ns = 0;            // in total
  std::uint32_t tries_idle = 0;            // in a row, to clear while the target was off the CPU
  MonotonicTime refused_until{};           // no clear is made before
  bool read_refused = false;               // at the last try
  bool switches_often = false;             // its exact clock was dropped for that
};

}  // namespace tmprof::abit
