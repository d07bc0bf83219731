// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/auto_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/profiler/abit/simulated_kernel.h"

namespace tmprof::abit {
namespace auto_engine_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr CostModel kCost{.ns_per_set = 250, .ns_per_look = 6'400, .ns_per_point = 10'000};

class AutoEngineTest : public ::testing::Test {
 protected:
  // A visit to 65 536 pages at some 350 ns each takes 23 ms of the budget.
  void Start(double overhead_share, EngineMaker make_regions = {}) {
    kernel_.processes[process_.identity().pid] = &process_;
    engine_ = std::make_unique<AutoEngine>(
        kernel_,
        ScanOptions{.looked = Looked::kAuto, .overhead_share = overhead_share, .cost = kCost},
        std::move(make_regions));
    engine_->SetTargets({process_.identity()});
  }
  Harvest Epoch() {
    const MonotonicTime end = kernel_.now + seconds(1);
    while (kernel_.now < end) kernel_.now = std::max(kernel_.now, std::min(engine_->Step(), end));
    return engine_->TakeEpoch();
  }
  // The first that is of regions, if that is soon.
  Harvest FirstOfRegions() {
    for (int epoch = 0; epoch < 20; ++epoch) {
      Harvest harvest = Epoch();
      if (harvest.by_regions) return harvest;
      of_pages_ = std::move(harvest);
    }
    ADD_FAILURE() << "it looks at every page still";
    return {};
  }

  SimulatedKernel kernel_;
  SimulatedProcess process_{
      {.id = TargetId(0), .pid = Pid(100), .start_time_ticks = 7, .mappings = {}},
      Vpn(0x7f0000000),
      PageCount(1),
      std::vector<double>(std::size_t{128} * 512, 100.0)};
  std::unique_ptr<AutoEngine> engine_;
  Harvest of_pages_;  // the last one
};

TEST_F(AutoEngineTest, LooksAtEveryPageWhileThatIsAffordable) {
  Start(0.01);
  for (int epoch = 0; epoch < 10; ++epoch) {
    const Harvest harvest = Epoch();
    EXPECT_FALSE(harvest.by_regions);
    EXPECT_FALSE(harvest.evidence.empty());
    EXPECT_THAT(harvest.regions, IsEmpty());
  }
}

TEST_F(AutoEngineTest, LooksAtRegionsOfTheSameTargetsWhereItIsNot) {
  Start(0.001);
  const Harvest harvest = FirstOfRegions();
  EXPECT_FALSE(harvest.regions.empty());
  EXPECT_THAT(harvest.evidence, IsEmpty());
  EXPECT_TRUE(Epoch().by_regions) << "and stays with them";
  engine_->SetTargets({});
  engine_->TakeEpoch();
  EXPECT_THAT(Epoch().regions, IsEmpty());
}

// 2048 pages a visit, for which it pays in 7 s, or in 14 while the first visits are paid back.
TEST_F(AutoEngineTest, GoesOverAsSoonWhereTheBudgetPaysForNextToNothing) {
  Start(0.0001);
  int of_pages = 0;
  while (of_pages < 60 && !Epoch().by_regions) ++of_pages;
  EXPECT_LE(of_pages, 6);
}

// An engine such as a driver's: it reports its targets, if it is active, and one region an epoch.
class AnothersEngine final : public Engine {
 public:
  struct Told {
    std::size_t targets = 0;
    bool active = false;
  };
  explicit AnothersEngine(Told& told) : told_(told) {}

  void SetTargets(const std::vector<TrackedProcess>& processes) override {
    told_.targets = processes.size();
  }
  void SetActive(bool active) override { told_.active = active; }
  std::optional<Error> Failure() const override { return std::nullopt; }
  MonotonicTime Step() override { return kNever; }
  Harvest TakeEpoch() override {
    Harvest harvest;
    harvest.by_regions = true;
    harvest.mode = ScanOptions::Mode::kPlain;
    harvest.regions.push_back({.target = TargetId(0), .start = Vpn(1), .span = PageCount(3)});
    return harvest;
  }

 private:
  Told& told_;
};

TEST_F(AutoEngineTest, GoesOverToTheEngineOfTheCallersWithItsTargets) {
  AnothersEngine::Told told;
  double overhead_share = 0;
  Start(0.001,
        [&](AbitKernel& kernel, const ScanOptions& options) -> Result<std::unique_ptr<Engine>> {
          EXPECT_EQ(&kernel, &kernel_);
          overhead_share = options.overhead_share;
          return std::make_unique<AnothersEngine>(told);
        });
  Epoch();
  EXPECT_EQ(overhead_share, 0) << "while every page is looked at";
  const Harvest harvest = FirstOfRegions();
  EXPECT_EQ(overhead_share, 0.001);
  EXPECT_EQ(told.targets, 1u);
  EXPECT_TRUE(told.active);
  ASSERT_EQ(harvest.regions.size(), 1u);
  EXPECT_EQ(harvest.regions[0].span, PageCount(3));
  EXPECT_EQ(harvest.note, "");
}

TEST_F(AutoEngineTest, LooksAtRegionsItselfIfTheCallersEngineIsRefusedAndSaysWhy) {
  Start(0.001, [](AbitKernel&, const ScanOptions&) -> Result<std::unique_ptr<Engine>> {
    return Fail(BadInput("have the driver look", "it", "it is too old"));
  });
  const Harvest harvest = FirstOfRegions();
  EXPECT_GE(harvest.regions.size(), 10u);
  EXPECT_FALSE(harvest.mode.has_value());
  EXPECT_THAT(harvest.note, HasSubstr("from user space"));
  EXPECT_THAT(harvest.note, HasSubstr("it is too old"));
  EXPECT_EQ(of_pages_.note, "");
}

TEST_F(AutoEngineTest, CountsOpenExposuresOfTheFullScanAsLost) {
  Start(0.001);
  FirstOfRegions();
  // Every page of a block that was cleared stays watched until its next turn.
  EXPECT_GT(of_pages_.counts.lost, 0u);
  EXPECT_LE(of_pages_.counts.lost, process_.pages.size());
}

TEST_F(AutoEngineTest, GoesOverWhileInactiveWithoutBecomingActive) {
  Start(0.001);
  Epoch();
  Epoch();
  const std::uint64_t clears = process_.clears;
  engine_->SetActive(false);
  for (int epoch = 0; epoch < 5; ++epoch) Epoch();
  EXPECT_EQ(process_.clears, clears);
  engine_->SetActive(true);
  EXPECT_FALSE(FirstOfRegions().regions.empty());
}

}  // namespace auto_engine_test
}  // namespace tmprof::abit
