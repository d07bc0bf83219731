// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace tmprof::abit {
namespace budget_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr std::int64_t kMs = 1'000'000;

// At 1 % of 5 s: 50 ms in all, and 0.9 ms for each 10 ms.
TEST(FirstVisitLoanTest, LendsWhatIsMissingWithinATenthOfTheTimeAndALimit) {
  struct Case {
    const char* what;
    double share;
    nanoseconds time;
    std::int64_t missing_ns;
    bool over;
    std::int64_t lent_ns;
  };
  const std::vector<Case> cases = {
      {"what is missing", 0.01, milliseconds(10), kMs / 2, false, kMs / 2},
      {"a tenth, with the share", 0.01, milliseconds(10), 2 * kMs, false, 9 * kMs / 10},
      {"nothing is missing", 0.01, milliseconds(10), 0, false, 0},
      {"more than enough is there", 0.01, milliseconds(10), -kMs, false, 0},
      {"no time has passed", 0.01, nanoseconds(0), kMs, false, 0},
      {"for 100 ms at most", 0.01, seconds(60), 60 * kMs, false, 9 * kMs},
      {"all there is", 0.0001, milliseconds(100), 60 * kMs, false, kMs / 2},
      {"the visit is over", 0.01, milliseconds(10), kMs, true, 0},
      {"the share is a tenth", 0.1, milliseconds(10), kMs, false, 0},
      {"the share is more", 0.5, milliseconds(10), kMs, false, 0},
  };
  for (const Case& c : cases) {
    FirstVisitLoan loan(c.share, seconds(5));
    FirstVisit visit{.over = c.over};
    EXPECT_EQ(loan.Lend(visit, c.time, c.missing_ns), c.lent_ns) << c.what;
    EXPECT_EQ(loan.owed_ns(), c.lent_ns) << c.what;
    EXPECT_EQ(visit.borrowed_ns, c.lent_ns) << c.what;
  }
}

// Borrows 9 ms.
void Borrow(FirstVisitLoan& loan, FirstVisit& visit) {
  ASSERT_EQ(loan.Lend(visit, milliseconds(100), 9 * kMs), 9 * kMs);
}

TEST(FirstVisitLoanTest, IsPaidBackWithHalfOfWhatIsEarnedUntilNothingIsOwed) {
  FirstVisitLoan loan(0.01, seconds(5));
  FirstVisit visit;
  Borrow(loan, visit);
  EXPECT_EQ(loan.PayBack(visit, seconds(1)), 0) << "the visit is under way";
  visit.over = true;
  EXPECT_EQ(loan.PayBack(visit, seconds(1)), 5 * kMs);
  EXPECT_EQ(loan.owed_ns(), 4 * kMs);
  EXPECT_EQ(loan.PayBack(visit, seconds(1)), 4 * kMs);
  EXPECT_EQ(loan.PayBack(visit, seconds(1)), 0);
}

TEST(FirstVisitLoanTest, IsOverForWhoeverHasBorrowedAllOfIt) {
  FirstVisitLoan loan(0.01, milliseconds(900));
  FirstVisit visit;
  Borrow(loan, visit);
  EXPECT_TRUE(visit.over);
  EXPECT_EQ(loan.PayBack(visit, seconds(1)), 5 * kMs);
  EXPECT_EQ(loan.Lend(visit, milliseconds(100), kMs), 0) << "though there is some again";
}

TEST(FirstVisitLoanTest, TakesBackWhatWasNotUsedAndLendsItAgain) {
  FirstVisitLoan loan(0.01, milliseconds(1'000));  // 10 ms
  FirstVisit visit;
  Borrow(loan, visit);
  EXPECT_EQ(loan.TakeBack(visit, -kMs), 0) << "all is needed";
  EXPECT_EQ(loan.TakeBack(visit, 2 * kMs), 2 * kMs);
  EXPECT_EQ(loan.owed_ns(), 7 * kMs);
  EXPECT_EQ(loan.Lend(visit, milliseconds(100), 9 * kMs), 3 * kMs);
  EXPECT_EQ(loan.TakeBack(visit, 20 * kMs), 10 * kMs) << "and no more than was lent";
}

TEST(FirstVisitLoanTest, IsOneForAll) {
  FirstVisitLoan loan(0.01, milliseconds(1'000));  // 10 ms
  FirstVisit one;
  FirstVisit other;
  Borrow(loan, one);
  EXPECT_EQ(loan.Lend(other, milliseconds(100), 9 * kMs), kMs);
  EXPECT_EQ(loan.Lend(other, milliseconds(100), 9 * kMs), 0);
  EXPECT_FALSE(other.over) << "it had little of it";
  one.over = true;
  EXPECT_EQ(loan.PayBack(one, milliseconds(600)), 3 * kMs);
  EXPECT_EQ(loan.Lend(other, milliseconds(100), 9 * kMs), 3 * kMs);
}

TEST(FirstVisitLoanTest, TakesOverWhatALeavingTargetOwesOrHasLeft) {
  FirstVisitLoan loan(0.01, milliseconds(900));
  FirstVisit gone;
  Borrow(loan, gone);
  loan.TakeOver(-2 * kMs);
  EXPECT_EQ(loan.owed_ns(), 11 * kMs);
  FirstVisit next;
  EXPECT_EQ(loan.Lend(next, milliseconds(100), kMs), 0);
  EXPECT_EQ(loan.PayBack(next, milliseconds(200)), kMs) << "as more is owed than is lent";
  loan.TakeOver(8 * kMs);
  EXPECT_EQ(loan.owed_ns(), 2 * kMs);
  loan.TakeOver(8 * kMs);
  EXPECT_EQ(loan.owed_ns(), 0);
}

// Who pays back may come below the floor. No more is owed for that.
TEST(TargetBudgetTest, ForgivesEachChargeBelowItsFloor) {
  tmprof_budget budget = TargetBudget(0.01);
  budget.balance_ns = budget.floor_ns - kMs;
  tmprof_budget_charge(&budget, 5 * kMs);
  EXPECT_EQ(budget.balance_ns, budget.floor_ns - kMs);
}

TEST(OwnBudgetTest, BorrowsOnlyWhatItIsShortOf) {
  MonotonicTime now{seconds(1)};
  OwnBudget budget(0.02, now);  // with 2 ms saved up
  nanoseconds cpu{0};
  const auto after = [&](nanoseconds time, nanoseconds spent, FirstVisits visits) {
    now += time;
    cpu += spent;
    return budget.WhenAffordable(now, cpu, visits) <= now;
  };
  EXPECT_TRUE(after(nanoseconds(0), nanoseconds(0), FirstVisits::kUnderWay));
  // This is within the share, which is not borrowed: the advance of 200 ms is there afterwards.
  for (int i = 0; i < 600; ++i)
    EXPECT_TRUE(after(milliseconds(100), milliseconds(2), FirstVisits::kUnderWay));
  for (int i = 0; i < 200; ++i)
    EXPECT_TRUE(after(milliseconds(10), milliseconds(1), FirstVisits::kUnderWay)) << i;
  EXPECT_FALSE(after(milliseconds(10), milliseconds(2), FirstVisits::kUnderWay));
  // Borrowed time is missing for as long as it is paid back, and no longer.
  EXPECT_TRUE(after(milliseconds(200), nanoseconds(0), FirstVisits::kNone));
  EXPECT_FALSE(after(milliseconds(100), milliseconds(3), FirstVisits::kNone));
  for (int i = 0; i < 200; ++i) after(milliseconds(100), nanoseconds(0), FirstVisits::kNone);
  EXPECT_TRUE(after(milliseconds(10), milliseconds(2), FirstVisits::kNone));
}

// A wake-up costs, too, and half of what is earned pays back.
TEST(OwnBudgetTest, IsWorthAWakeUpWhileALoanIsPaidBack) {
  constexpr nanoseconds kWakeUp = microseconds(50);
  MonotonicTime now{seconds(1)};
  OwnBudget budget(0.02, now);
  nanoseconds cpu{0};
  for (int i = 0; i < 400; ++i) {  // borrows 200 ms
    now += milliseconds(10);
    cpu += milliseconds(1);
    budget.WhenAffordable(now, cpu, FirstVisits::kUnderWay);
  }
  const MonotonicTime end = now + seconds(10);
  nanoseconds worked{0};
  while (now < end) {
    const MonotonicTime affordable = budget.WhenAffordable(now, cpu, FirstVisits::kNone);
    if (affordable <= now) {
      worked += milliseconds(1);
      cpu += milliseconds(1);
    } else {
      now = affordable;
      cpu += kWakeUp;
    }
  }
  EXPECT_GT(worked, milliseconds(60));  // 100 of them, less some 160 wake-ups
}

}  // namespace budget_test
}  // namespace tmprof::abit
