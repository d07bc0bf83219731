// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/watched_target.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "profiler/sources/abit/budget.h"

namespace tmprof::abit {

WatchedTarget::WatchedTarget(AbitKernel& kernel, OverheadShare share)
    : clock(kernel.Tick()), budget(TargetBudget(share)) {}

std::optional<Error> WatchedTarget::Open(AbitKernel& kernel) {
  auto opened = kernel.Open(process.pid, process.start_time_ticks);
  if (opened) {
    handle = std::move(*opened);
    EarnFromNow();
    return std::nullopt;
  }
  gone = opened.error().system_error == ESRCH;
  return gone ? std::nullopt : std::optional(std::move(opened.error()));
}

std::chrono::nanoseconds WatchedTarget::CpuAt(MonotonicTime time, std::uint32_t running_threads) {
  if (const auto exact = Running(time)) return exact->cpu;
  return clock.Advance(time, handle->CpuTime(), running_threads);
}

std::optional<RunningTime> WatchedTarget::Running(MonotonicTime time) {
  std::optional<RunningTime> exact = handle->Running(time);
  if (!exact) return std::nullopt;
  // The exact clock goes on from what the kernel says now: what was used before it stays counted.
  if (!clock.ahead()) clock.Advance(time, handle->CpuTime(), exact->threads);
  exact->cpu = clock.Follow(time, exact->cpu, exact->threads);
  return exact;
}

std::chrono::nanoseconds WatchedTarget::TakeUsed() {
  const std::chrono::nanoseconds cpu = handle->CpuTime();
  const std::chrono::nanoseconds used = std::max(cpu - earned_at, std::chrono::nanoseconds(0));
  earned_at += used;
  return used;
}

void WatchedTarget::Earn(std::chrono::nanoseconds used) {
  tmprof_budget_earn(&budget, static_cast<std::uint64_t>(used.count()));
}

bool WatchedTarget::RunsAnotherProgram(std::uint64_t its_address_space) {
  if (!handle->Alive()) {
    gone = true;
    return false;
  }
  address_space = its_address_space;
  mappings_stale = true;
  return true;
}

}  // namespace tmprof::abit
