// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/recalibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "profiler/sources/abit/abit_scanner.h"
#include "profiler/sources/abit/auto_engine.h"
#include "profiler/sources/abit/region_engine.h"
#include "profiler/sources/abit/scan_engine.h"
#include "tests/profiler/abit/simulated_kernel.h"

namespace tmprof::abit {
namespace recalibration_test {

using std::chrono::nanoseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::array<nanoseconds, 3> kShortPauses{nanoseconds(1), nanoseconds(1), nanoseconds(1)};
constexpr std::array<nanoseconds, 1> kLongPause{std::chrono::hours(1)};
constexpr CostFigures kLook{.look = true};

class RecalibrationTest : public testing::Test {
 protected:
  // Repeats give these in turn.
  std::unique_ptr<Recalibration> Repeat(std::vector<Result<MeasuredCost>> figures) {
    figures_ = std::move(figures);
    auto recalibration = std::make_unique<Recalibration>(
        first_,
        [this](const MeasuredCost& before, const std::stop_token&) {
          before_.push_back(before.ns_per_look.value_or(0));
          return figures_.at(before_.size() - 1);
        },
        kShortPauses);
    while (!recalibration->over()) std::this_thread::yield();
    return recalibration;
  }

  MeasuredCost first_{.ns_per_set = 400, .unsettled = kLook};
  std::vector<Result<MeasuredCost>> figures_;
  std::vector<double> before_;  // ns_per_look that each repeat was to better
};

TEST_F(RecalibrationTest, EndsOnceTheFiguresAreSettled) {
  const auto repeats =
      Repeat({MeasuredCost{.ns_per_set = 400, .ns_per_look = 9'000, .unsettled = kLook},
              MeasuredCost{.ns_per_set = 400, .ns_per_look = 5'000}});
  EXPECT_THAT(before_, ElementsAre(0, 9'000));
  const auto cost = repeats->Take();
  ASSERT_TRUE(cost.has_value());
  EXPECT_EQ(cost->ns_per_look, 5'000);
  EXPECT_FALSE(repeats->Take().has_value()) << "it has been told";
}

TEST_F(RecalibrationTest, EndsAfterAFewRepeatsThatSettleNothing) {
  const auto repeats = Repeat({first_, first_, first_});
  EXPECT_EQ(before_.size(), 3u);
  EXPECT_FALSE(repeats->Take().has_value()) << "nothing has changed";
}

TEST_F(RecalibrationTest, GoesOnAfterARepeatThatFailed) {
  const auto repeats = Repeat({Fail(Refused("calibrate", "a child process", ENOMEM)),
                               MeasuredCost{.ns_per_set = 400, .ns_per_look = 5'000}});
  EXPECT_EQ(before_.size(), 2u);
  EXPECT_TRUE(repeats->Take().has_value());
}

TEST_F(RecalibrationTest, DoesNothingWhereAllWasSettledAtTheStart) {
  first_.unsettled = {};
  Repeat({});
  EXPECT_THAT(before_, IsEmpty());
}

TEST_F(RecalibrationTest, DoesNotHoldUpItsOwner) {
  {
    const Recalibration repeats(
        first_,
        [this](const MeasuredCost& before, const std::stop_token&) -> Result<MeasuredCost> {
          before_.push_back(0);
          return before;
        },
        kLongPause);
  }
  EXPECT_THAT(before_, IsEmpty());
}

// An engine that keeps the prices it is told.
class PricedEngine final : public Engine {
 public:
  explicit PricedEngine(CostModel& charged) : charged_(charged) {}
  void SetTargets(const std::vector<TrackedProcess>&) override {}
  void SetActive(bool) override {}
  std::optional<Error> Failure() const override { return std::nullopt; }
  MonotonicTime Step() override { return kNever; }
  void Reprice(const CostModel& cost, const ClearLoss&) override { charged_ = cost; }
  Harvest TakeEpoch() override { return {}; }

 private:
  CostModel& charged_;
};

// An engine that looked at two pages: one entry allows writes, the other does not.
class TwoPagesEngine final : public Engine {
 public:
  void SetTargets(const std::vector<TrackedProcess>&) override {}
  void SetActive(bool) override {}
  std::optional<Error> Failure() const override { return std::nullopt; }
  MonotonicTime Step() override { return kNever; }
  void Reprice(const CostModel&, const ClearLoss&) override {}
  Harvest TakeEpoch() override {
    UnitRecord unit;
    unit.tally.looks = 1;
    unit.frame = 70;
    unit.writable = true;
    BlockEvidence block{.target = TargetId(3), .start = Vpn(8)};
    block.units.push_back(unit);
    unit.frame = 71;
    unit.writable = false;
    block.units.push_back(unit);
    Harvest harvest;
    harvest.evidence.push_back(std::move(block));
    return harvest;
  }
};

TEST(AbitScanner, DeliversTheFrameOfEachPageAndIfItMayBeShared) {
  AbitScanner scanner(std::make_unique<SimulatedKernel>(), {}, kAbitBpfSource,
                      std::make_unique<TwoPagesEngine>());
  const SourceEpoch epoch = scanner.TakeEpoch();
  ASSERT_EQ(epoch.references.size(), 2u);
  ASSERT_TRUE(epoch.references[0].frame && epoch.references[1].frame);
  EXPECT_EQ(epoch.references[0].frame->number, 70u);
  EXPECT_FALSE(epoch.references[0].frame->is_shareable) << "a write would have copied it";
  EXPECT_EQ(epoch.references[1].frame->number, 71u);
  EXPECT_TRUE(epoch.references[1].frame->is_shareable);
}

TEST_F(RecalibrationTest, ScannersChargeByTheNewFiguresAndSayItOnce) {
  CostModel charged;
  AbitScanner scanner(std::make_unique<SimulatedKernel>(), {}, kAbitBpfSource,
                      std::make_unique<PricedEngine>(charged));
  scanner.Follow(Repeat({MeasuredCost{.ns_per_set = 400, .ns_per_look = 5'000}}));
  EXPECT_THAT(scanner.TakeEpoch().status.note,
              AllOf(HasSubstr("measured again"), HasSubstr("a bit is charged with 400 ns"),
                    HasSubstr("a look at a table with 5000 ns")));
  EXPECT_EQ(charged.ns_per_set, 400);
  EXPECT_EQ(charged.ns_per_look, 5'000);
  EXPECT_EQ(charged.ns_per_point, kAssumedNsPerPoint);
  EXPECT_THAT(scanner.TakeEpoch().status.note, Not(HasSubstr("measured again")));
}

// With no price of looks and points, all that is charged is sets.
TEST(Reprice, EnginesChargeTheNewPriceFromThenOn) {
  for (const Looked looked : {Looked::kFull, Looked::kRegions, Looked::kAuto}) {
    SimulatedKernel kernel;
    SimulatedProcess process(
        {.id = TargetId(0), .pid = Pid(100), .start_time_ticks = 7, .mappings = {}},
        Vpn(0x7f0000000), PageCount(1), std::vector<double>(std::size_t{8} * 512, 1'000.0));
    kernel.processes[Pid(100)] = &process;
    AutoEngine by_choice(kernel, {.looked = looked, .cost = {.ns_per_set = 100}});
    ScanEngine full(kernel, {.looked = looked, .cost = {.ns_per_set = 100}});
    RegionEngine regions(kernel, {.looked = looked, .cost = {.ns_per_set = 100}});
    Engine& engine = looked == Looked::kAuto   ? static_cast<Engine&>(by_choice)
                     : looked == Looked::kFull ? static_cast<Engine&>(full)
                                               : static_cast<Engine&>(regions);
    engine.SetTargets({process.identity()});
    const auto ns_per_set = [&] {
      const MonotonicTime end = kernel.now + std::chrono::seconds(1);
      while (kernel.now < end) kernel.now = std::max(kernel.now, std::min(engine.Step(), end));
      const Harvest harvest = engine.TakeEpoch();
      return static_cast<double>(harvest.counts.cost_ns) /
             static_cast<double>(harvest.counts.sets_charged);
    };
    EXPECT_NEAR(ns_per_set(), 100, 1);
    engine.Reprice({.ns_per_set = 900}, {});
    EXPECT_NEAR(ns_per_set(), 900, 1);
  }
}

}  // namespace recalibration_test
}  // namespace tmprof::abit
