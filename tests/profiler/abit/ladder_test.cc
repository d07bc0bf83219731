// SPDX-License-Identifier: Apache-2.0

#include "driver/core/ladder.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ladder_test {

std::vector<std::uint64_t> Delays(const tmprof_ladder& ladder) {
  return {ladder.delay_ns, ladder.delay_ns + ladder.rungs};
}

TEST(Ladder, BasePagesAreReadFromAQuarterToAThousandMilliseconds) {
  EXPECT_EQ(Delays(tmprof_ladder_base()),
            (std::vector<std::uint64_t>{250'000, 500'000, 1'000'000, 2'000'000, 4'000'000,
                                        16'000'000, 64'000'000, 256'000'000, 1'024'000'000}));
}

TEST(Ladder, HugePagesAreReadFromSixteenMicroseconds) {
  EXPECT_EQ(Delays(tmprof_ladder_huge()),
            (std::vector<std::uint64_t>{16'000, 64'000, 256'000, 1'024'000, 4'096'000, 16'384'000,
                                        65'536'000, 262'144'000, 1'048'576'000}));
}

TEST(Ladder, APlainScanHasOneRead) {
  EXPECT_EQ(Delays(tmprof_ladder_plain(1'000'000'000)), std::vector<std::uint64_t>{1'000'000'000});
}

TEST(Ladder, MoreRungsThanThereIsRoomForAreCut) {
  EXPECT_EQ(tmprof_ladder_geometric(1, 100).rungs, TMPROF_LADDER_MAX_RUNGS);
}

TEST(Ladder, ARungWhoseTimeHasPassedIsMergedIntoTheReadJustMade) {
  const tmprof_ladder ladder = tmprof_ladder_base();
  EXPECT_EQ(tmprof_ladder_next(&ladder, 0, 0), 0u);
  EXPECT_EQ(tmprof_ladder_next(&ladder, 0, 249'999), 0u);
  EXPECT_EQ(tmprof_ladder_next(&ladder, 0, 250'000), 1u);
  EXPECT_EQ(tmprof_ladder_next(&ladder, 0, 5'000'000), 5u);
  EXPECT_EQ(tmprof_ladder_next(&ladder, 8, 1'024'000'000), 9u);
  EXPECT_EQ(tmprof_ladder_next(&ladder, 4, 0), 4u) << "a rung never comes again";
}

TEST(Ladder, ReadingStopsOnceHalfOfThePagesInViewAreSet) {
  EXPECT_FALSE(tmprof_ladder_stop(255, 512));
  EXPECT_TRUE(tmprof_ladder_stop(256, 512));
  EXPECT_FALSE(tmprof_ladder_stop(1, 3));
  EXPECT_TRUE(tmprof_ladder_stop(2, 3));
  EXPECT_TRUE(tmprof_ladder_stop(0, 0)) << "nothing is left to be seen";
  EXPECT_TRUE(tmprof_ladder_stop(0x80000000u, 0xffffffffu)) << "no overflow";
}

// One page, read after 250, 750 and 3 000 us of target CPU time, by hand.
TEST(Fold, AnUnsetPageIsAtRiskForWholeIntervalsAndAFirstAccessForHalfOfOne) {
  tmprof_tally tally{};
  std::uint8_t unit = TMPROF_UNIT_UNSET;
  EXPECT_EQ(tmprof_ladder_fold(&tally, &unit, 0, 250'000, 250'000, 1), 0u);
  EXPECT_EQ(tmprof_ladder_fold(&tally, &unit, 0, 750'000, 750'000, 0), 0u);
  EXPECT_EQ(tmprof_ladder_fold(&tally, &unit, 1, 3'000'000, 3'000'000, 0), 1u);
  EXPECT_EQ(tally.looks, 3u);
  EXPECT_EQ(tally.references, 1u);
  EXPECT_EQ(tally.first_accesses, 1u);
  EXPECT_EQ(tally.at_risk_ns, 250'000u + 750'000u + 1'500'000u);
  EXPECT_EQ(tally.later_read_ns, 3'000'000u);
  EXPECT_EQ(tally.first_read_finds, 0u);
  EXPECT_EQ(tally.first_read_ns, 0u);
  EXPECT_EQ(unit, TMPROF_UNIT_SET);
}

TEST(Fold, TellsWhatFirstReadsFoundApart) {
  tmprof_tally tally{};
  for (const std::uint64_t exposure : {250'000u, 310'000u}) {
    std::uint8_t unit = TMPROF_UNIT_UNSET;
    EXPECT_EQ(tmprof_ladder_fold(&tally, &unit, 1, exposure, exposure, 1), 1u);
  }
  EXPECT_EQ(tally.first_accesses, 2u);
  EXPECT_EQ(tally.first_read_finds, 2u);
  EXPECT_EQ(tally.first_read_ns, 560'000u);
  EXPECT_EQ(tally.at_risk_ns, 280'000u);
  EXPECT_EQ(tally.later_read_ns, 0u);
}

// An earlier read, after 4 ms, was left out.
TEST(Fold, ReadsThatWereLeftOutAddToTheTimeAtRiskAlone) {
  tmprof_tally tally{};
  std::uint8_t unit = TMPROF_UNIT_UNSET;
  EXPECT_EQ(tmprof_ladder_fold(&tally, &unit, 1, 16'000'000, 12'000'000, 0), 1u);
  EXPECT_EQ(tally.at_risk_ns, 4'000'000u + 6'000'000u);
  EXPECT_EQ(tally.later_read_ns, 12'000'000u);
}

TEST(Fold, APageAlreadySetIsAReferenceAndNothingElse) {
  tmprof_tally tally{};
  std::uint8_t unit = TMPROF_UNIT_SET;
  EXPECT_EQ(tmprof_ladder_fold(&tally, &unit, 1, 4'000'000, 4'000'000, 1), 0u);
  EXPECT_EQ(tally.looks, 1u);
  EXPECT_EQ(tally.references, 1u);
  EXPECT_EQ(tally.first_accesses, 0u);
  EXPECT_EQ(tally.first_read_finds, 0u);
  EXPECT_EQ(tally.at_risk_ns, 0u);
}

TEST(Fold, APageThatSomebodyElseClearedIsNoLongerAtRisk) {
  tmprof_tally tally{};
  std::uint8_t unit = TMPROF_UNIT_SET;
  EXPECT_EQ(tmprof_ladder_fold(&tally, &unit, 0, 4'000'000, 4'000'000, 1), 0u);
  EXPECT_EQ(tally.looks, 1u);
  EXPECT_EQ(tally.references, 0u);
  EXPECT_EQ(tally.at_risk_ns, 0u);
}

TEST(Fold, APageOutOfViewGetsNoEvidence) {
  tmprof_tally tally{};
  std::uint8_t unit = TMPROF_UNIT_OUT;
  EXPECT_EQ(tmprof_ladder_fold(&tally, &unit, 1, 4'000'000, 4'000'000, 1), 0u);
  EXPECT_EQ(tally.looks, 0u);
  EXPECT_EQ(tally.at_risk_ns, 0u);
}

TEST(Cost, IsSetsAndCacheLinesTimesTheirPrice) {
  const tmprof_cost cost{.ps_per_set = 250'000, .ps_per_line = 171'875};  // 11 us per 64 lines
  EXPECT_EQ(tmprof_cost_ns(&cost, 100, 0), 25'000u);
  EXPECT_EQ(tmprof_cost_ns(&cost, 0, 64), 11'000u);
  EXPECT_EQ(tmprof_cost_ns(&cost, 2, 4), 1'187u);  // 500 + 687.5, rounded down
}

TEST(Budget, EarnsItsShareOfTargetCpuTimeAndLosesNothingInSmallSteps) {
  tmprof_budget budget{};
  budget.share_ppm = 6'000;  // 0.6 %
  budget.limit_ns = 1'000'000;
  for (int i = 0; i < 1'000; ++i) tmprof_budget_earn(&budget, 101);
  EXPECT_EQ(budget.balance_ns, 606);  // 101 000 ns x 0.006
}

TEST(Budget, OwesNoMoreThanItsFloorHoweverMuchIsCharged) {
  tmprof_budget budget{};
  budget.share_ppm = 10'000;
  budget.limit_ns = 500'000;
  budget.floor_ns = -2'000'000;
  tmprof_budget_charge(&budget, 1'500'000);
  EXPECT_EQ(budget.balance_ns, -1'500'000);
  tmprof_budget_charge(&budget, 3'600'000'000'000);
  EXPECT_EQ(budget.balance_ns, -2'000'000);
  tmprof_budget_charge(&budget, ~0ULL);
  EXPECT_EQ(budget.balance_ns, -2'000'000) << "no overflow";
  tmprof_budget_earn(&budget, 200'000'000);
  EXPECT_EQ(tmprof_budget_free(&budget), 0);
}

TEST(Budget, HoldsNoMoreThanItsLimitHoweverLongNothingWasSpent) {
  tmprof_budget budget{};
  budget.share_ppm = 10'000;
  budget.limit_ns = 500'000;
  tmprof_budget_earn(&budget, 3'600'000'000'000);
  EXPECT_EQ(budget.balance_ns, 500'000);
}

TEST(Budget, ReservesTimeThatIsNotFreeAndMayOweCharges) {
  tmprof_budget budget{};
  budget.share_ppm = 10'000;
  budget.limit_ns = 500'000;
  budget.floor_ns = -500'000;
  tmprof_budget_earn(&budget, 30'000'000);
  EXPECT_EQ(tmprof_budget_free(&budget), 300'000);
  tmprof_budget_reserve(&budget, 200'000);
  EXPECT_EQ(tmprof_budget_free(&budget), 100'000);
  tmprof_budget_charge(&budget, 350'000);
  tmprof_budget_reserve(&budget, -200'000);
  EXPECT_EQ(tmprof_budget_free(&budget), -50'000);
}

}  // namespace ladder_test
