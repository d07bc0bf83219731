// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tmprof::abit {
namespace calibration_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kPages = 10'000;

// Passes of a child that needs 2 ms for the buffer, 400 ns more for each bit to be set again, and
// 5 us more for each of 100 looks.
Passes Quiet() {
  return {.quiet_ns = 2e6,
          .cleared_ns = 2e6 + 400 * kPages,
          .looked_at_ns = 6e6 + 5'000 * 100,
          .looks = 100};
}

std::vector<Passes> Times(std::size_t times, const Passes& passes) {
  return std::vector<Passes>(times, passes);
}

// A pass that something else has held up.
Passes HeldUp(double quiet_ns, double cleared_ns, double looked_at_ns) {
  Passes passes = Quiet();
  passes.quiet_ns += quiet_ns;
  passes.cleared_ns += cleared_ns;
  passes.looked_at_ns += looked_at_ns;
  return passes;
}

TEST(Calibration, TakesMediansWhereTheFiguresAgree) {
  std::vector<Passes> passes = Times(20, Quiet());
  passes.push_back(HeldUp(0, 1e6, 0));
  passes.push_back(HeldUp(1e6, 0, 9e8));
  const MeasuredCost cost = CostOf(passes, kPages);
  EXPECT_DOUBLE_EQ(cost.ns_per_set, 400);
  EXPECT_DOUBLE_EQ(cost.ns_per_look.value(), 5'000);
  EXPECT_EQ(cost.doubt, "");
}

TEST(Calibration, TakesTheLeastTimesOfABusyMachine) {
  // Each time is right once, and the medians of the differences are 60 400 and 1 005 000 ns.
  std::vector<Passes> passes;
  for (int i = 0; i < 10; ++i) passes.push_back(HeldUp(i * 1e8, (i + 6) * 1e8, (i + 7) * 1e8));
  passes.push_back(HeldUp(5e8, 0, 3e8));
  passes.push_back(HeldUp(7e8, 9e8, 0));
  const MeasuredCost cost = CostOf(passes, kPages);
  EXPECT_DOUBLE_EQ(cost.ns_per_set, 400);
  EXPECT_DOUBLE_EQ(cost.ns_per_look.value(), 5'000);
  EXPECT_EQ(cost.doubt, "");
}

TEST(Calibration, DoesNotBelieveABusyMachineThatALookCostsNextToNothing) {
  std::vector<Passes> passes;
  for (int i = 0; i < 10; ++i) passes.push_back(HeldUp(0, 0, i * 1e8 - 4e5));
  EXPECT_DOUBLE_EQ(CostOf(passes, kPages).ns_per_look.value(), 3'000);
}

TEST(Calibration, ChargesNoMoreForALookThanATableCanCost) {
  std::vector<Passes> passes;
  for (int i = 0; i < 20; ++i) passes.push_back(HeldUp(0, 0, (i + 1) * 97e6));
  const MeasuredCost cost = CostOf(passes, kPages);
  EXPECT_FALSE(cost.ns_per_look.has_value());
  EXPECT_THAT(cost.doubt,
              AllOf(HasSubstr("a look at a table"), HasSubstr("975000 ns were measured"),
                    HasSubstr("6000 ns are charged")));
}

TEST(Calibration, RefusesALookThatIsTooDearThoughAllFiguresAgree) {
  const MeasuredCost cost = CostOf(Times(20, HeldUp(0, 0, 97e6)), kPages);
  EXPECT_FALSE(cost.ns_per_look.has_value());
  EXPECT_NE(cost.doubt, "");
}

TEST(Calibration, ChargesNoMoreForABitThanAWalkCanCost) {
  const MeasuredCost cost = CostOf(Times(20, HeldUp(0, 1e9, 1e9)), kPages);
  EXPECT_DOUBLE_EQ(cost.ns_per_set, kMostNsPerSet);
  EXPECT_THAT(cost.doubt, HasSubstr("an accessed bit"));
}

TEST(Calibration, ChargesSomethingForWhatSeemedToCostLessThanNothing) {
  const MeasuredCost cost = CostOf(Times(20, HeldUp(9e6, 0, -1e6)), kPages);
  EXPECT_DOUBLE_EQ(cost.ns_per_set, 1);
  EXPECT_DOUBLE_EQ(cost.ns_per_look.value(), 1'000);
}

TEST(Calibration, LeavesUnsettledWhatDidNotAgreeWasTooDearOrWasNotMeasured) {
  EXPECT_EQ(CostOf(Times(20, Quiet()), kPages).unsettled, CostFigures());
  EXPECT_EQ(CostOf(Times(20, HeldUp(0, 0, 97e6)), kPages).unsettled, CostFigures{.look = true});
  EXPECT_EQ(CostOf(Times(20, HeldUp(0, 1e9, 1e9)), kPages).unsettled, CostFigures{.set = true});
  Passes few = Quiet();
  few.looks = 9;
  EXPECT_EQ(CostOf(Times(20, few), kPages).unsettled, CostFigures{.look = true});
  std::vector<Passes> busy;
  for (int i = 0; i < 20; ++i) busy.push_back(HeldUp(0, i * 1e8, (2 * i + 1) * 1e8));
  const CostFigures both{.set = true, .look = true};
  EXPECT_EQ(CostOf(busy, kPages).unsettled, both);
}

constexpr CostFigures kAllFigures{.set = true, .look = true, .point = true, .loss = true};

TEST(Recalibration, TakesSettledFiguresHoweverTheyCompare) {
  const MeasuredCost before{.ns_per_set = 150,
                            .ns_per_look = 3'000,
                            .ns_per_point = std::nullopt,
                            .doubt = "too busy",
                            .unsettled = kAllFigures};
  const MeasuredCost again{.ns_per_set = 400,
                           .ns_per_look = 5'000,
                           .ns_per_point = 3'500,
                           .clear_loss = {.is_measured = true}};
  const MeasuredCost better = BetterOf(before, again);
  EXPECT_EQ(better.ns_per_set, 400);
  EXPECT_EQ(better.ns_per_look, 5'000);
  EXPECT_EQ(better.ns_per_point, 3'500);
  EXPECT_TRUE(better.clear_loss.is_measured);
  EXPECT_EQ(better.clear_loss.others, std::chrono::nanoseconds(3'500));
  EXPECT_EQ(better.unsettled, CostFigures());
  EXPECT_EQ(better.doubt, "");
}

TEST(Recalibration, TakesTheLeastOfFiguresThatAreNotSettled) {
  MeasuredCost dear{.ns_per_set = 900, .ns_per_look = 9'000, .unsettled = kAllFigures};
  MeasuredCost cheap{.ns_per_set = 500, .ns_per_look = 4'000, .unsettled = kAllFigures};
  for (const MeasuredCost& better : {BetterOf(dear, cheap), BetterOf(cheap, dear)}) {
    EXPECT_EQ(better.ns_per_set, 500);
    EXPECT_EQ(better.ns_per_look, 4'000);
    EXPECT_EQ(better.unsettled, kAllFigures);
  }
  cheap.ns_per_look.reset();
  EXPECT_EQ(BetterOf(dear, cheap).ns_per_look, 9'000) << "a figure that was not measured is none";
  EXPECT_EQ(BetterOf(cheap, dear).ns_per_look, 9'000);
}

TEST(Recalibration, KeepsWhatWasSettledBefore) {
  const MeasuredCost before{
      .ns_per_set = 400, .ns_per_look = 5'000, .ns_per_point = 3'500, .unsettled = {.loss = true}};
  const MeasuredCost again{
      .ns_per_set = 200, .ns_per_look = 1'000, .ns_per_point = 900, .unsettled = {.loss = true}};
  const MeasuredCost better = BetterOf(before, again);
  EXPECT_EQ(better.ns_per_set, 400);
  EXPECT_EQ(better.ns_per_look, 5'000);
  EXPECT_EQ(better.ns_per_point, 3'500);
  EXPECT_FALSE(better.clear_loss.is_measured);
  EXPECT_TRUE(better.unsettled.loss);
}

TEST(Calibration, KnowsNoPriceOfLooksThatWereTooFew) {
  Passes few = Quiet();
  few.looks = 9;
  EXPECT_FALSE(CostOf(Times(20, few), kPages).ns_per_look.has_value());
  EXPECT_FALSE(CostOf(Times(4, Quiet()), kPages).ns_per_look.has_value());
  EXPECT_EQ(CostOf(Times(20, few), kPages).doubt, "");
}

// Tries that last 8 us each, of a child that accesses each page every 32 us.
KnownTries Batch(double lost_ns) {
  return {.accesses_per_ns = 1.0 / 32'000,
          .tries = 3'200,
          .found = static_cast<std::uint64_t>(3'200 * (8'000 - lost_ns) / 32'000),
          .exposure_ns = 3'200 * 8'000};
}

TEST(ClearLoss, IsToldByTheShareOfTriesThatFoundThePage) {
  for (const int lost_ns : {-1'000, 0, 3'000}) {
    const auto loss = LossOf(std::vector<KnownTries>(9, Batch(lost_ns)));
    ASSERT_TRUE(loss.has_value());
    EXPECT_NEAR(static_cast<double>(loss->count()), lost_ns, 10);
  }
}

TEST(ClearLoss, IsTheMedianOfBatchesOfWhichSomeWereDisturbed) {
  std::vector<KnownTries> batches(12, Batch(2'000));
  for (int i = 0; i < 3; ++i) batches.push_back(Batch(-20'000));
  const auto loss = LossOf(batches);
  ASSERT_TRUE(loss.has_value());
  EXPECT_NEAR(static_cast<double>(loss->count()), 2'000, 10);
}

// On such a machine it cannot be measured, however quiet the machine is.
TEST(ClearLoss, IsKnownToBeUntoldIfEvenTheShortestClearIsTooSlow) {
  constexpr std::size_t kLast = kFastRungs.size() - 1;
  std::vector<KnownTries> batches(3);
  for (KnownTries& batch : batches) batch.least_clear = std::chrono::microseconds(25);
  EXPECT_TRUE(ClearsAreTooSlow(batches, kLast));
  EXPECT_FALSE(ClearsAreTooSlow(std::span(batches).first(2), kLast));
  EXPECT_FALSE(ClearsAreTooSlow(batches, kLast - 1));
  batches.back().least_clear = std::chrono::microseconds(7);
  EXPECT_FALSE(ClearsAreTooSlow(batches, kLast)) << "the machine was busy";
}

TEST(ClearLoss, IsNotMeasuredByFewBatchesOrByThoseThatDoNotAgree) {
  EXPECT_FALSE(LossOf(std::vector<KnownTries>(8, Batch(2'000))).has_value());
  std::vector<KnownTries> batches;
  for (int i = 0; i < 10; ++i) batches.push_back(Batch(800.0 * i));
  EXPECT_FALSE(LossOf(batches).has_value());
  std::vector<KnownTries> idle(9, Batch(2'000));
  for (KnownTries& batch : idle) batch.tries = batch.found = 10;
  EXPECT_FALSE(LossOf(idle).has_value());
}

}  // namespace calibration_test
}  // namespace tmprof::abit
