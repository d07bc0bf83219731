// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/watched_target.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "profiler/sources/abit/budget.h"

namespace tmprof::abit {
namespace {

// A choice, as is half of the share. A switch costs a target some 130 ns, so that by default the
// clock of one whose threads stay on a CPU for less than some 26 us is dropped.
constexpr std::chrono::nanoseconds kClockJudged = std::chrono::milliseconds(200);
// Stays of threads whose clock was dropped for its cost, twice their mean by default.
constexpr std::chrono::nanoseconds kShortStays = std::chrono::microseconds(50);

// Returns what the exact clock of a target may cost while that much CPU time is used.
std::int64_t ClocksPart(const tmprof_budget& budget, std::chrono::nanoseconds used) {
  return used.count() * static_cast<std::int64_t>(budget.share_ppm) / TMPROF_PPM / 2;
}

}  // namespace

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

void WatchedTarget::EarnFromNow() {
  earned_at = handle->CpuTime();
  handle->TakeClockCost();
}

std::chrono::nanoseconds WatchedTarget::Earn(std::chrono::nanoseconds used) {
  tmprof_budget_earn(&budget, static_cast<std::uint64_t>(used.count()));
  const std::chrono::nanoseconds cost = handle->TakeClockCost();
  tmprof_budget_charge(&budget, static_cast<std::uint64_t>(cost.count()));
  clock_cost += cost;
  clock_used += used;
  if (clock_cost.count() > ClocksPart(budget, std::max(clock_used, kClockJudged))) {
    handle->DropClock();
    switches_often = true;
    clock.ExpectShortStays(kShortStays);
  }
  if (clock_used >= kClockJudged) clock_cost = clock_used = std::chrono::nanoseconds(0);
  return cost;
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
