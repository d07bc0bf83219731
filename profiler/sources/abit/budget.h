// SPDX-License-Identifier: Apache-2.0
// Budgets of CPU time: what a scan may cost a target, and the scanner's own thread.

#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>

#include "base/units.h"
#include "driver/core/ladder.h"
#include "profiler/source.h"

namespace tmprof::abit {

// Of CPU time whose share may be saved up.
inline constexpr std::chrono::nanoseconds kBudgetWindow = std::chrono::milliseconds(100);
inline constexpr std::chrono::nanoseconds kShortestBudgetWait = std::chrono::milliseconds(5);

// `longest_debt`: what is owed at most, as the CPU time that earns it.
inline tmprof_budget MakeBudget(OverheadShare share, std::chrono::nanoseconds longest_debt) {
  const auto share_of = [&](std::chrono::nanoseconds time) {
    return static_cast<std::int64_t>(static_cast<double>(time.count()) * share);
  };
  tmprof_budget budget{};
  budget.share_ppm = static_cast<std::uint64_t>(std::llround(share * double{TMPROF_PPM}));
  budget.limit_ns = share_of(kBudgetWindow);
  budget.floor_ns = -share_of(longest_debt);
  return budget;
}

// A target's share is a promise, so that its debt is forgiven only where something must be wrong.
inline tmprof_budget TargetBudget(OverheadShare share) {
  return MakeBudget(share, std::chrono::seconds(10));
}

// While one CPU is in full use; a wake-up costs some 10 us, so not too often.
inline std::chrono::nanoseconds WaitToEarn(const tmprof_budget& budget, std::int64_t cost_ns,
                                           std::chrono::nanoseconds longest) {
  if (budget.share_ppm == 0) return longest;
  const double wait =
      static_cast<double>(cost_ns) * double{TMPROF_PPM} / static_cast<double>(budget.share_ppm);
  return std::clamp(std::chrono::nanoseconds(std::llround(wait)), kShortestBudgetWait, longest);
}

// Of the thread that scans, as a share of one CPU.
class OwnBudget {
 public:
  OwnBudget(OverheadShare share, MonotonicTime now)
      : budget_(MakeBudget(share, std::chrono::seconds(1))), wall_(now) {
    budget_.balance_ns = budget_.limit_ns;  // for what is found at the start
  }

  // When more can be afforded; `now` or earlier: at once. `own_cpu`: of the thread that steps.
  MonotonicTime WhenAffordable(MonotonicTime now, std::chrono::nanoseconds own_cpu) {
    const std::chrono::nanoseconds spent = own_cpu - cpu_.value_or(own_cpu);
    tmprof_budget_earn(&budget_, static_cast<std::uint64_t>((now - wall_).count()));
    tmprof_budget_charge(&budget_, static_cast<std::uint64_t>(spent.count()));
    wall_ = now;
    cpu_ = own_cpu;
    const auto left = tmprof_budget_free(&budget_);
    if (left >= 0) return now;
    // As much again as was spent since the last time: waking up costs, too, and where that is dear,
    // as on an emulated CPU, a wait for the debt alone would end in the same debt for ever.
    return now + WaitToEarn(budget_, spent.count() - left, kBudgetWindow);
  }

 private:
  tmprof_budget budget_;
  MonotonicTime wall_;
  std::optional<std::chrono::nanoseconds> cpu_;  // unset: not asked yet
};

}  // namespace tmprof::abit
