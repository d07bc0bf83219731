// SPDX-License-Identifier: Apache-2.0
// Budgets of CPU time: what a scan may cost a target, and the scanner's own thread.

#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

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
// Less than the longest debt, and paid back.
inline constexpr std::chrono::nanoseconds kTargetLoan = std::chrono::seconds(5);

// What the first visit to all of a target's pages may take beyond a share: before it is over
// nothing can be said of most pages, and the same visits later say less.
class FirstVisitLoan {
 public:
  // `longest`: what it amounts to at most, as the time that earns it.
  FirstVisitLoan(const tmprof_budget& budget, std::chrono::nanoseconds longest)
      : share_(static_cast<double>(budget.share_ppm) / TMPROF_PPM),
        left_ns_(std::llround(share_ * static_cast<double>(longest.count()))) {}

  // For so much time, and no more than `most_ns`: with the share it is kMostShare of that time.
  std::int64_t Take(std::chrono::nanoseconds time, std::int64_t most_ns) {
    if (is_over_) return 0;
    const double more_share = std::max(kMostShare - share_, 0.0);
    const std::int64_t more = std::llround(more_share * static_cast<double>(time.count()));
    const std::int64_t taken = std::max<std::int64_t>(std::min({more, most_ns, left_ns_}), 0);
    left_ns_ -= taken;
    owed_ns_ += taken;
    return taken;
  }
  // After the visit, and from then on. Half of what the time earns: the other half pays for further
  // visits meanwhile. What of the loan is not in `debt_ns`, which is charged for, when this is
  // first called was not needed.
  void PayBack(std::chrono::nanoseconds time, std::int64_t debt_ns) {
    if (!std::exchange(is_over_, true)) {
      owed_ns_ = std::clamp<std::int64_t>(debt_ns, 0, owed_ns_);
    }
    const std::int64_t half = std::llround(share_ / 2 * static_cast<double>(time.count()));
    owed_ns_ -= std::min(half, owed_ns_);
  }
  std::int64_t owed_ns() const { return owed_ns_; }

 private:
  // Of the target's CPU time, or of a CPU: where the share is 1 %, for half a second.
  static constexpr double kMostShare = 0.1;

  double share_;
  std::int64_t left_ns_;
  std::int64_t owed_ns_ = 0;
  bool is_over_ = false;
};

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
      : budget_(MakeBudget(share, std::chrono::seconds(1))), loan_(budget_, kLoan), wall_(now) {
    budget_.balance_ns = budget_.limit_ns;  // for what is found at the start
  }

  // When more can be afforded; `now` or earlier: at once. `own_cpu`: of the thread that steps;
  // `first_visit`: some target has not been visited wholly, for which there is a loan. It need not
  // be paid back.
  MonotonicTime WhenAffordable(MonotonicTime now, std::chrono::nanoseconds own_cpu,
                               bool first_visit = false) {
    const std::chrono::nanoseconds spent = own_cpu - cpu_.value_or(own_cpu);
    tmprof_budget_earn(&budget_, static_cast<std::uint64_t>((now - wall_).count()));
    if (first_visit) {
      budget_.balance_ns += loan_.Take(now - wall_, budget_.limit_ns - budget_.balance_ns);
    }
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
  static constexpr std::chrono::nanoseconds kLoan = std::chrono::seconds(10);

  tmprof_budget budget_;
  FirstVisitLoan loan_;
  MonotonicTime wall_;
  std::optional<std::chrono::nanoseconds> cpu_;  // unset: not asked yet
};

}  // namespace tmprof::abit
