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

// A budget can save up the share of at most this much CPU time.
inline constexpr std::chrono::nanoseconds kBudgetWindow = std::chrono::milliseconds(100);
inline constexpr std::chrono::nanoseconds kShortestBudgetWait = std::chrono::milliseconds(5);

inline std::uint64_t PpmOf(double share) {
  return static_cast<std::uint64_t>(std::llround(share * double{TMPROF_PPM}));
}
inline std::int64_t ShareOf(double share, std::chrono::nanoseconds time) {
  return std::llround(share * static_cast<double>(time.count()));
}

// `longest_debt`: what is owed at most, as the CPU time that earns it.
inline tmprof_budget MakeBudget(OverheadShare share, std::chrono::nanoseconds longest_debt) {
  tmprof_budget budget{};
  budget.share_ppm = PpmOf(share);
  budget.limit_ns = ShareOf(share, kBudgetWindow);
  budget.floor_ns = -ShareOf(share, longest_debt);
  return budget;
}

// A target's share is a promise, so that its debt is forgiven only where something must be wrong.
inline tmprof_budget TargetBudget(OverheadShare share) {
  return MakeBudget(share, std::chrono::seconds(10));
}
// The largest budget advance for first visits, as the time that earns it: of all targets together,
// and of the scanner's own thread. With both advances the daemon hit tier 1 with 0.67 of the
// accesses of xslookup, and with 0.57 without (bench/closed_loop --workloads xslookup --ratios
// 1/4).
inline constexpr std::chrono::nanoseconds kTargetsLoan = std::chrono::seconds(5);
inline constexpr std::chrono::nanoseconds kOwnLoan = std::chrono::seconds(10);

// The first pass over all pages of a target. A target gets another first visit once it has grown to
// more than twice the size.
struct FirstVisit {
  bool over = false;
  std::int64_t borrowed_ns = 0;
};

// A budget advance for first visits: CPU time beyond the share. Before a first visit is over most
// pages have no evidence, and the same visits are worth less later. All who borrow pay back
// together, so that the bound holds however many targets come and go.
class FirstVisitLoan {
 public:
  // The largest part of a target's CPU time, or of a CPU, that may be spent during an advance. It
  // includes the share.
  static constexpr double kMostShare = 0.1;

  // `longest`: what is owed at most, as the time that earns it.
  FirstVisitLoan(OverheadShare share, std::chrono::nanoseconds longest)
      : share_(share), limit_ns_(ShareOf(share, longest)) {}

  // Returns what to add to a balance that falls short by `missing_ns`, after so much time. A visit
  // that has borrowed all there is counts as over.
  std::int64_t Lend(FirstVisit& visit, std::chrono::nanoseconds time, std::int64_t missing_ns) {
    if (visit.over) return 0;
    const std::int64_t more = ShareOf(kMostShare - share_, std::min(time, kBudgetWindow));
    const std::int64_t lent = std::max<std::int64_t>(
        std::min({missing_ns, more, limit_ns_ - owed_ns_, limit_ns_ - visit.borrowed_ns}), 0);
    owed_ns_ += lent;
    visit.borrowed_ns += lent;
    visit.over = visit.borrowed_ns >= limit_ns_;
    return lent;
  }
  // Returns what is taken from a balance of which so much is not needed. A visit that is not over
  // can have it again.
  std::int64_t TakeBack(FirstVisit& visit, std::int64_t unused_ns) {
    const std::int64_t taken =
        std::max<std::int64_t>(std::min({unused_ns, visit.borrowed_ns, owed_ns_}), 0);
    owed_ns_ -= taken;
    visit.borrowed_ns -= taken;
    return taken;
  }
  // Returns the repayment that is taken from a balance: half of what that time earns, because the
  // other half pays for further visits. It is 0 during a first visit, unless more is owed than the
  // limit because of targets that left.
  std::int64_t PayBack(const FirstVisit& visit, std::chrono::nanoseconds time) {
    if (!visit.over && owed_ns_ <= limit_ns_) return 0;
    const std::int64_t paid = std::min(ShareOf(share_ / 2, time), owed_ns_);
    owed_ns_ -= paid;
    return paid;
  }
  // The balance of a target that leaves: the others pay back what it owes.
  void TakeOver(std::int64_t balance_ns) {
    owed_ns_ = std::max<std::int64_t>(owed_ns_ - balance_ns, 0);
  }

  // Which balances grow by at most, of a million.
  std::uint64_t most_ppm(const FirstVisit& visit) const {
    const bool lends = !visit.over && owed_ns_ < limit_ns_;
    return PpmOf(lends ? std::max(kMostShare, share_) : share_);
  }
  // Balances grow by so much of a million after the repayment of the advance.
  std::uint64_t net_ppm(const FirstVisit& visit) const {
    const bool pays_back = owed_ns_ > 0 && (visit.over || owed_ns_ > limit_ns_);
    return pays_back ? PpmOf(share_ / 2) : most_ppm(visit);
  }
  std::int64_t owed_ns() const { return owed_ns_; }

 private:
  double share_;
  std::int64_t limit_ns_;
  std::int64_t owed_ns_ = 0;
};

// While one CPU is in full use; a wake-up costs some 10 us, so not too often.
inline std::chrono::nanoseconds WaitToEarn(std::uint64_t share_ppm, std::int64_t cost_ns,
                                           std::chrono::nanoseconds longest) {
  if (share_ppm == 0) return longest;
  const double wait =
      static_cast<double>(cost_ns) * double{TMPROF_PPM} / static_cast<double>(share_ppm);
  return std::clamp(std::chrono::nanoseconds(std::llround(wait)), kShortestBudgetWait, longest);
}

enum class FirstVisits : std::uint8_t { kNone, kUnderWay };

// The budget of the thread that scans, as a share of one CPU.
class OwnBudget {
 public:
  OwnBudget(OverheadShare share, MonotonicTime now)
      : budget_(MakeBudget(share, std::chrono::seconds(1))), loan_(share, kOwnLoan), wall_(now) {
    budget_.balance_ns = budget_.limit_ns;  // for what is found at the start
  }

  // When more can be afforded; `now` or earlier: at once. `own_cpu`: of the thread that steps.
  MonotonicTime WhenAffordable(MonotonicTime now, std::chrono::nanoseconds own_cpu,
                               FirstVisits visits) {
    const std::chrono::nanoseconds time = now - wall_;
    const std::chrono::nanoseconds spent = own_cpu - cpu_.value_or(own_cpu);
    const bool none = visits == FirstVisits::kNone;
    if (none != none_) visit_ = {.over = none};
    none_ = none;
    budget_.balance_ns -= loan_.PayBack(visit_, time);
    tmprof_budget_earn(&budget_, static_cast<std::uint64_t>(time.count()));
    tmprof_budget_charge(&budget_, static_cast<std::uint64_t>(spent.count()));
    budget_.balance_ns += loan_.Lend(visit_, time, -budget_.balance_ns);
    wall_ = now;
    cpu_ = own_cpu;
    const auto left = tmprof_budget_free(&budget_);
    if (left >= 0) return now;
    // The wait also earns as much again as was spent since the last time, because waking up costs
    // time, too. If a wake-up is expensive, for example on an emulated CPU, a wait for the debt
    // alone would end in the same debt for ever.
    return now + WaitToEarn(loan_.net_ppm(visit_), spent.count() - left, kBudgetWindow);
  }

 private:
  tmprof_budget budget_;
  FirstVisitLoan loan_;
  bool none_ = true;
  FirstVisit visit_{.over = true};  // one for all targets whose first visit is under way
  MonotonicTime wall_;
  std::optional<std::chrono::nanoseconds> cpu_;  // unset: not asked yet
};

}  // namespace tmprof::abit
