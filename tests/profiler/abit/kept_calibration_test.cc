// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/kept_calibration.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "tests/profiler/abit/simulated_kernel.h"

namespace tmprof::abit {
namespace kept_calibration_test {

using std::chrono::nanoseconds;

constexpr CostFigures kAll{.set = true, .look = true, .point = true, .loss = true};
constexpr CostFigures kWithoutLoss{.set = true, .look = true, .point = true, .loss = false};
constexpr CostFigures kPricesAlone{.set = true, .look = true, .point = false, .loss = false};

MeasuredCost Settled() {
  return {.ns_per_set = 410.5,
          .ns_per_look = 3100,
          .ns_per_point = 7000,
          .clear_loss = {.own = {nanoseconds(-100), nanoseconds(200)},
                         .others = nanoseconds(3000),
                         .is_measured = true},
          .doubt = {},
          .unsettled = {}};
}

TEST(KeptCalibration, GivesTheFiguresBack) {
  const MeasuredCost cost = Settled();
  const auto figures = FiguresOf(cost, kAll);
  ASSERT_TRUE(figures);
  const auto again = CostFrom(*figures, kAll);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->ns_per_set, cost.ns_per_set);
  EXPECT_EQ(again->ns_per_look, cost.ns_per_look);
  EXPECT_EQ(again->ns_per_point, cost.ns_per_point);
  EXPECT_EQ(again->clear_loss.own, cost.clear_loss.own);
  EXPECT_EQ(again->clear_loss.others, cost.clear_loss.others);
  EXPECT_TRUE(again->clear_loss.is_measured);
  EXPECT_FALSE(again->unsettled.any());
}

TEST(KeptCalibration, ALossThatNoClearIsFastEnoughForStaysUnmeasured) {
  MeasuredCost cost = Settled();
  cost.clear_loss = {.own = {}, .others = nanoseconds(3000), .is_measured = false};
  const auto again = CostFrom(FiguresOf(cost, kAll).value(), kAll);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->clear_loss.is_measured);
  EXPECT_EQ(again->clear_loss.others, nanoseconds(3000));
}

TEST(KeptCalibration, ALossThatNobodyTriedToMeasureIsMeasuredWhereItIsWanted) {
  MeasuredCost cost = Settled();
  cost.clear_loss = {.own = {}, .others = nanoseconds(3000), .is_measured = false};
  const auto figures = FiguresOf(cost, kWithoutLoss).value();
  EXPECT_TRUE(CostFrom(figures, kWithoutLoss));
  EXPECT_FALSE(CostFrom(figures, kAll));
}

TEST(KeptCalibration, OneCpuHasNoPriceOfALook) {
  MeasuredCost cost = Settled();
  cost.ns_per_look.reset();
  const auto again = CostFrom(FiguresOf(cost, kAll).value(), kAll);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->ns_per_look);
}

TEST(KeptCalibration, FiguresThatDidNotSettleAreMarked) {
  for (bool CostFigures::* figure :
       {&CostFigures::set, &CostFigures::look, &CostFigures::point, &CostFigures::loss}) {
    MeasuredCost cost = Settled();
    cost.unsettled.*figure = true;
    const auto figures = FiguresOf(cost, kAll);
    ASSERT_TRUE(figures);
    const auto again = CostFrom(*figures, kAll);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->unsettled, cost.unsettled);
  }
  MeasuredCost without_point = Settled();
  without_point.ns_per_point.reset();
  EXPECT_FALSE(FiguresOf(without_point, kAll));
  without_point.unsettled.point = true;
  const auto again = CostFrom(FiguresOf(without_point, kAll).value(), kAll);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->ns_per_point);
  EXPECT_TRUE(again->unsettled.point);
}

TEST(KeptCalibration, FiguresThatAreTooLargeToBeTrueAreNotKept) {
  MeasuredCost doubted = Settled();
  doubted.doubt = "a bit seems to take 2 ms";
  EXPECT_FALSE(FiguresOf(doubted, kAll));
}

TEST(KeptCalibration, FiguresThatDidNotSettleCountForAShortTime) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "kept_unsettled";
  std::filesystem::remove_all(folder);
  const std::optional<KeptFigures> kept(std::in_place, folder, "boot 1");
  SimulatedKernel kernel;
  MeasuredCost cost = Settled();
  cost.unsettled.look = true;
  Keep(kept, "bits", cost, kAll, kernel);
  kernel.now += kUnsettledAreKeptFor;
  const auto before = KeptCost(kept, "bits", kAll, kernel);
  ASSERT_TRUE(before);
  EXPECT_TRUE(before->cost.unsettled.look);
  EXPECT_EQ(before->age, kUnsettledAreKeptFor);
  kernel.now += nanoseconds(1);
  EXPECT_FALSE(KeptCost(kept, "bits", kAll, kernel));
  Keep(kept, "bits", Settled(), kAll, kernel);
  cost.ns_per_set = 17;
  Keep(kept, "bits", cost, kAll, kernel);
  kernel.now += 2 * kUnsettledAreKeptFor;
  const auto settled = KeptCost(kept, "bits", kAll, kernel);
  ASSERT_TRUE(settled) << "they do not take the place of settled figures";
  EXPECT_EQ(settled->cost.ns_per_set, Settled().ns_per_set);
  std::filesystem::remove_all(folder);
}

TEST(KeptCalibration, RefusesFiguresThatLackAWantedOne) {
  const auto without = FiguresOf(Settled(), kPricesAlone);
  ASSERT_TRUE(without);
  EXPECT_TRUE(CostFrom(*without, kPricesAlone));
  EXPECT_FALSE(CostFrom(*without, kAll)) << "a point has no price";
  const auto with = FiguresOf(Settled(), kAll);
  const auto fewer = CostFrom(with.value(), kPricesAlone);
  ASSERT_TRUE(fewer);
  EXPECT_FALSE(fewer->ns_per_point) << "it was not asked for";
  for (const auto& [name, value] : *with) {
    if (name == "ns-per-look" || name == "loss-ns-at-rung-0") continue;  // may be absent
    KeptFigures::Figures some = *with;
    some.erase(name);
    EXPECT_FALSE(CostFrom(some, kAll)) << name;
  }
}

TEST(KeptCalibration, PricesThatCannotBeAreNotBelieved) {
  const auto figures = FiguresOf(Settled(), kAll).value();
  struct Bounds {
    std::string name;
    double least;
    double most;
  };
  for (const auto& [name, least, most] :
       {Bounds{"ns-per-set", kLeastNsPerSet, kMostNsPerSet},
        Bounds{"ns-per-look", kLeastNsPerLook, kMostNsPerLook},
        Bounds{"ns-per-point", kLeastNsPerPoint, kMostNsPerPoint}}) {
    for (const double wrong : {most * 1.01, least * 0.99, 0.0, -1.0}) {
      KeptFigures::Figures changed = figures;
      changed[name] = wrong;
      EXPECT_FALSE(CostFrom(changed, kAll)) << name << " " << wrong;
    }
  }
  KeptFigures::Figures changed = figures;
  changed["loss-ns-at-rung-1"] = 1e30;
  EXPECT_FALSE(CostFrom(changed, kAll));
}

WholeFlushTrial Passed() {
  return {.tries = 40, .flushes = 40, .complete = 40, .controls = 40, .hidden = 38, .obstacle = {}};
}

TEST(KeptCalibration, ATrialThatPassedIsKept) {
  ASSERT_FALSE(DoubtOf(Passed()));
  const auto figures = FiguresOf(Passed());
  ASSERT_TRUE(figures);
  const auto again = TrialFrom(*figures);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->hidden, 38U);
  EXPECT_FALSE(DoubtOf(*again));
}

TEST(KeptCalibration, ATrialThatFailedIsMadeAgain) {
  WholeFlushTrial failed = Passed();
  --failed.complete;
  EXPECT_FALSE(FiguresOf(failed));
  WholeFlushTrial refused;
  refused.obstacle = "no right to clear";
  EXPECT_FALSE(FiguresOf(refused));
  KeptFigures::Figures figures = FiguresOf(Passed()).value();
  figures["complete"] = 39;
  EXPECT_FALSE(TrialFrom(figures));
  figures["complete"] = 39.5;
  EXPECT_FALSE(TrialFrom(figures));
}

}  // namespace kept_calibration_test
}  // namespace tmprof::abit
