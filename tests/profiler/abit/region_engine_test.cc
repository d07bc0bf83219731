// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/region_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "tests/profiler/abit/simulated_kernel.h"

namespace tmprof::abit {
namespace region_engine_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr Vpn kStart{0x7f0000000};
constexpr std::uint64_t kTable = 512;
constexpr CostModel kCost{.ns_per_set = 250, .ns_per_look = 6'400, .ns_per_point = 10'000};

TrackedProcess Identity(std::uint32_t id) {
  return {.id = TargetId(id),
          .pid = Pid(static_cast<std::int32_t>(100 + id)),
          .start_time_ticks = 7,
          .mappings = {}};
}

// The pages of [first, end) are hot, the others cold.
std::vector<double> Rates(std::size_t pages, std::size_t first, std::size_t end, double hot,
                          double cold) {
  std::vector<double> rates(pages, cold);
  std::fill(rates.begin() + static_cast<std::ptrdiff_t>(first),
            rates.begin() + static_cast<std::ptrdiff_t>(end), hot);
  return rates;
}

double Rate(const RegionEvidence& region) {
  return region.first_accesses / (1e-9 * static_cast<double>(region.time_at_risk.count()) *
                                  static_cast<double>(region.span.value()));
}

class RegionEngineTest : public ::testing::TestWithParam<ScanOptions::Mode> {
 protected:
  SimulatedProcess& Add(std::vector<double> rates, PageCount unit = PageCount(1)) {
    const auto id = static_cast<std::uint32_t>(processes_.size());
    processes_.push_back(
        std::make_unique<SimulatedProcess>(Identity(id), kStart, unit, std::move(rates)));
    kernel_.processes[processes_.back()->identity().pid] = processes_.back().get();
    return *processes_.back();
  }
  void Start(double overhead_share = 1) {
    engine_ = std::make_unique<RegionEngine>(kernel_, ScanOptions{.mode = GetParam(),
                                                                  .looked = Looked::kRegions,
                                                                  .overhead_share = overhead_share,
                                                                  .cost = kCost});
    Refresh();
  }
  void Refresh() {
    std::vector<TrackedProcess> targets;
    for (const auto& process : processes_) targets.push_back(process->identity());
    engine_->SetTargets(targets);
  }
  void Run(nanoseconds length) {
    const MonotonicTime end = kernel_.now + length;
    while (kernel_.now < end) {
      const MonotonicTime next = engine_->Step();
      kernel_.now = std::max(kernel_.now, std::min(next, end));
    }
  }
  std::uint64_t Detail(const Harvest& harvest, std::string_view name) {
    for (const NamedCount& detail : harvest.details)
      if (detail.name == name) return detail.count;
    ADD_FAILURE() << name;
    return 0;
  }

  SimulatedKernel kernel_;
  std::vector<std::unique_ptr<SimulatedProcess>> processes_;
  std::unique_ptr<RegionEngine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Modes, RegionEngineTest,
                         ::testing::Values(ScanOptions::Mode::kLadder, ScanOptions::Mode::kPlain),
                         [](const auto& mode) {
                           return mode.param == ScanOptions::Mode::kLadder ? "ladder" : "plain";
                         });

TEST_P(RegionEngineTest, RecordsCoverTheMemoryOnceAndTheirEstimatesTellHotFromCold) {
  constexpr std::size_t kPages = 64 * kTable;
  constexpr std::size_t kHotFirst = 10'000;
  constexpr std::size_t kHotEnd = 14'096;  // an eighth
  SimulatedProcess& process = Add(Rates(kPages, kHotFirst, kHotEnd, 2'000, 1));
  Start();
  Run(seconds(5));
  engine_->TakeEpoch();
  Run(seconds(1));
  const Harvest harvest = engine_->TakeEpoch();
  double hot_found = 0;
  double taken_for_hot = 0;
  std::uint64_t covered = 0;
  Vpn at = process.range().start;
  for (const RegionEvidence& region : harvest.regions) {
    EXPECT_GE(region.start, at);
    at = region.start + region.span;
    EXPECT_GE(region.looks, region.references);
    covered += region.span.value();
    if (Rate(region) < 100) continue;
    taken_for_hot += static_cast<double>(region.span.value());
    const std::uint64_t first = (region.start - kStart).value();
    const std::uint64_t end = first + region.span.value();
    hot_found += static_cast<double>(
        std::min<std::uint64_t>(end, kHotEnd) -
        std::min(std::max<std::uint64_t>(first, kHotFirst), std::min<std::uint64_t>(end, kHotEnd)));
  }
  EXPECT_LE(at, process.range().end);
  EXPECT_GE(covered, kPages * 9 / 10);
  EXPECT_GT(hot_found / (kHotEnd - kHotFirst), 0.9);
  EXPECT_GT(hot_found / taken_for_hot, 0.8);
}

TEST_P(RegionEngineTest, OnAverageTheEstimatedRateIsTheTrueRate) {
  Add(std::vector<double>(16 * kTable, 20.0));
  Start();
  double firsts = 0;
  double at_risk = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    Run(seconds(1));
    for (const RegionEvidence& region : engine_->TakeEpoch().regions) {
      firsts += region.first_accesses;
      at_risk += 1e-9 * static_cast<double>(region.time_at_risk.count()) *
                 static_cast<double>(region.span.value());
    }
  }
  EXPECT_GT(firsts, 300);
  EXPECT_NEAR(firsts / at_risk, 20.0, 4.0);
}

TEST_P(RegionEngineTest, TheCostOfAStepDoesNotGrowWithTheFootprint) {
  double per_step[2];
  for (int large = 0; large < 2; ++large) {
    processes_.clear();
    Add(std::vector<double>((large != 0 ? 512 : 16) * kTable, 50.0));
    Start(0.01);
    Run(seconds(10));
    const Harvest harvest = engine_->TakeEpoch();
    ASSERT_GT(Detail(harvest, "steps"), 20u);
    per_step[large] = static_cast<double>(Detail(harvest, "pages_checked")) /
                      static_cast<double>(Detail(harvest, "steps"));
    EXPECT_LE(Detail(harvest, "regions"), 1000u);
    EXPECT_GE(Detail(harvest, "entries_read"), Detail(harvest, "pages_checked"));
    EXPECT_LE(Detail(harvest, "region_bytes"), 1u << 20);
  }
  EXPECT_NEAR(per_step[1] / per_step[0], 1, 0.3);
}

TEST_P(RegionEngineTest, TheCostToTheTargetStaysWithinItsShare) {
  SimulatedProcess& process = Add(std::vector<double>(64 * kTable, 1'000.0));
  Start(0.01);
  Run(seconds(20));
  const Harvest harvest = engine_->TakeEpoch();
  const double paid = 1e-9 * (static_cast<double>(process.clears) * kCost.ns_per_point +
                              static_cast<double>(process.sets) * kCost.ns_per_set);
  EXPECT_LE(paid / 20, 0.01 * 1.1);
  EXPECT_GE(paid / 20, 0.01 * 0.5) << "and uses it";
  EXPECT_NEAR(1e-9 * static_cast<double>(harvest.counts.cost_ns), paid, paid * 0.1);
}

TEST_P(RegionEngineTest, KeepsFewerRegionsIfClearsAreDear) {
  // Stretches of 128 pages, no two neighbours alike.
  std::vector<double> rates(64 * kTable);
  for (std::size_t page = 0; page < rates.size(); ++page)
    rates[page] = 10 * std::pow(10, static_cast<double>(page / 128 % 3));
  std::uint64_t regions[2];
  for (int ample = 0; ample < 2; ++ample) {
    processes_.clear();
    Add(rates);
    Start(ample != 0 ? 1 : 0.002);
    Run(seconds(20));
    regions[ample] = Detail(engine_->TakeEpoch(), "regions");
  }
  EXPECT_LE(regions[0], 60u);
  EXPECT_GT(regions[1], 150u);
}

// The costs and results of an engine under a load.
struct UnderLoad {
  double paid = 0;  // share of the target's CPU time
  double own = 0;   // share of a CPU
  double result_s = 0;
  double regions = 0;  // at an epoch's end, on average
};

class ChangingLoadTest : public RegionEngineTest {
 protected:
  // Stretches of 128 pages, no two neighbours alike, each page busy.
  void StartBusy() {
    std::vector<double> rates(64 * kTable);
    for (std::size_t page = 0; page < rates.size(); ++page)
      rates[page] = 10 * std::pow(10, static_cast<double>(page / 128 % 3));
    process_ = &Add(rates);
    Start(0.01);
  }
  // After ten seconds, in which it may adapt, but not cost more.
  UnderLoad Under(const std::function<void()>& load) {
    load();
    const double settling = Measure(10).paid;
    EXPECT_LE(settling, 0.01 * 1.1) << "while it adapts";
    return Measure(20);
  }
  UnderLoad Measure(int length_s) {
    engine_->TakeEpoch();
    const std::uint64_t clears = process_->clears;
    const std::uint64_t sets = process_->sets;
    const nanoseconds own = kernel_.own_cpu;
    double regions = 0;
    double results = 0;
    for (int epoch = 0; epoch < length_s; ++epoch) {
      Run(seconds(1));
      const Harvest harvest = engine_->TakeEpoch();
      regions += static_cast<double>(Detail(harvest, "regions")) / length_s;
      results += static_cast<double>(Detail(harvest, "aggregations"));
    }
    const double cost_s =
        1e-9 * (static_cast<double>(process_->clears - clears) * kCost.ns_per_point +
                static_cast<double>(process_->sets - sets) * kCost.ns_per_set);
    return {.paid = cost_s / (length_s * process_->cpus),
            .own = 1e-9 * static_cast<double>((kernel_.own_cpu - own).count()) / length_s,
            .result_s = length_s / results,
            .regions = regions};
  }

  SimulatedProcess* process_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Modes, ChangingLoadTest,
                         ::testing::Values(ScanOptions::Mode::kLadder, ScanOptions::Mode::kPlain),
                         [](const auto& mode) {
                           return mode.param == ScanOptions::Mode::kLadder ? "ladder" : "plain";
                         });

// A share of four CPUs pays for four times as many clears as of one.
TEST_P(ChangingLoadTest, TheShareIsKeptAndUsedWhenTheTargetTakesMoreOrFewerCpus) {
  StartBusy();
  const UnderLoad four = Under([&] { process_->cpus = 4; });
  const UnderLoad one = Under([&] { process_->cpus = 1; });
  const UnderLoad again = Under([&] { process_->cpus = 4; });
  for (const UnderLoad& load : {four, one, again}) {
    EXPECT_LE(load.paid, 0.01 * 1.05);
    EXPECT_GE(load.paid, 0.01 * 0.4) << "and used";
    EXPECT_LE(load.result_s, 0.9) << "a change is to show within an epoch of a second";
  }
  EXPECT_LT(one.regions, four.regions / 1.5);
  EXPECT_NEAR(again.regions / four.regions, 1, 0.25);
}

TEST_P(ChangingLoadTest, AnIdleTargetCostsNothingAndHasAsManyRegionsWhenItIsBusyAgain) {
  StartBusy();
  const UnderLoad busy = Under([] {});
  const UnderLoad idle = Under([&] {
    for (auto& page : process_->pages) {
      page.rate = 0;
      page.accessed = false;
      page.next_access = 1e18;
    }
  });
  const UnderLoad again = Under([&] {
    for (std::size_t i = 0; i < process_->pages.size(); ++i) {
      process_->pages[i].rate = 10 * std::pow(10, static_cast<double>(i / 128 % 3));
      process_->pages[i].accessed = true;
    }
  });
  EXPECT_LT(idle.paid, 0.001);
  EXPECT_LT(idle.result_s, busy.result_s) << "what costs nothing is looked at more often";
  EXPECT_LE(again.paid, 0.01 * 1.05);
  EXPECT_LE(again.result_s, 0.9);
  EXPECT_NEAR(again.regions / busy.regions, 1, 0.25);
}

// A machine may become busy with something else: the engine's own share of a CPU is 2 %.
TEST_P(ChangingLoadTest, ItsOwnTimeIsBoundedWhenReadsBecomeDear) {
  StartBusy();
  kernel_.reads_cost_cpu = true;
  const UnderLoad cheap = Under([] {});
  const UnderLoad dear = Under([&] { kernel_.read_takes = microseconds(200); });
  const UnderLoad again = Under([&] { kernel_.read_takes = microseconds(2); });
  for (const UnderLoad& load : {cheap, dear, again}) {
    EXPECT_LE(load.own, 0.02 * 1.1);
    EXPECT_LE(load.paid, 0.01 * 1.05);
  }
  EXPECT_GE(dear.own, 0.02 * 0.5) << "it is what binds";
  EXPECT_LE(again.result_s, 0.9);
  EXPECT_NEAR(again.regions / cheap.regions, 1, 0.25);
}

// Each page of it in most monitoring intervals, some 0.3 ms after a clear: what the first rungs
// tell apart is chance.
TEST_P(RegionEngineTest, KeepsFewRegionsForAHotObject) {
  Add(Rates(64 * kTable, 8 * kTable, 16 * kTable, 3'000, 0));
  Start(0.05);
  std::uint64_t most = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    Run(seconds(1));
    most = std::max(most, Detail(engine_->TakeEpoch(), "regions"));
  }
  EXPECT_LE(most, 64u);
}

TEST_P(RegionEngineTest, DoesNotClearPagesAgainThatAreNotAccessed) {
  SimulatedProcess& process = Add(std::vector<double>(8, 0.0));
  Start();
  Run(seconds(2));
  EXPECT_LE(process.clears, 8u);
  EXPECT_GT(Detail(engine_->TakeEpoch(), "steps"), 10u);
}

TEST_P(RegionEngineTest, MemoryThatIsNotThereIsUnknown) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  for (auto& page : process.pages) page.present = false;
  Start();
  Run(seconds(2));
  EXPECT_THAT(engine_->TakeEpoch().regions, ::testing::IsEmpty());
}

TEST_P(RegionEngineTest, TheAccessesOfARegionAreThoseOfThePagesThatAreThere) {
  SimulatedProcess& process = Add(std::vector<double>(64 * kTable, 50.0));
  for (std::size_t i = 0; i < process.pages.size(); ++i) process.pages[i].present = i % 4 == 0;
  Start();
  Run(seconds(1));
  engine_->TakeEpoch();
  double accesses = 0;  // a second
  constexpr int kEpochs = 10;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    Run(seconds(1));
    for (const RegionEvidence& region : engine_->TakeEpoch().regions)
      accesses += Rate(region) * static_cast<double>(region.span.value());
  }
  EXPECT_NEAR(accesses / kEpochs / (16 * kTable * 50.0), 1, 0.25);
}

TEST_P(RegionEngineTest, MakesNoRegionOfMemoryThatNobodyMayAccess) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 50.0));
  const Vpn middle = kStart + PageCount(8 * kTable);
  Start();
  TrackedProcess tracked = process.identity();
  tracked.mappings = {
      {{kStart, middle}, MappingKind::kAnonymous, ""},
      {{middle, process.range().end}, MappingKind::kAnonymous, "", /*accessible=*/false}};
  engine_->SetTargets({tracked});
  Run(seconds(1));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_GE(harvest.regions.size(), 10u);
  for (const RegionEvidence& region : harvest.regions)
    EXPECT_LE(region.start + region.span, middle);
}

TEST_P(RegionEngineTest, PagesThatAClearPassesByAreNotTakenForHot) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 0.0));
  for (auto& page : process.pages) page.shared = true;
  Start();
  Run(seconds(2));
  const Harvest harvest = engine_->TakeEpoch();
  for (const RegionEvidence& region : harvest.regions) {
    EXPECT_EQ(region.looks, 0u);
    EXPECT_TRUE(region.seen) << "that it was accessed at some time is known";
  }
  EXPECT_EQ(harvest.counts.observations, 0u);
  EXPECT_GT(harvest.counts.shared, 10u);
}

TEST_P(RegionEngineTest, AHugePageIsClearedWholeAndItsRateSharedByItsPages) {
  SimulatedProcess& process = Add(std::vector<double>(64, 50.0), kTablePages);
  Start();
  double firsts = 0;
  double at_risk = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    Run(seconds(1));
    for (const RegionEvidence& region : engine_->TakeEpoch().regions) {
      firsts += region.first_accesses;
      at_risk += 1e-9 * static_cast<double>(region.time_at_risk.count()) *
                 static_cast<double>(region.span.value());
    }
  }
  EXPECT_GT(process.clears, 10u);
  EXPECT_NEAR(firsts / at_risk, 50.0 / kTable, 0.2 * 50.0 / kTable);
}

TEST_P(RegionEngineTest, LooksAtEachRegionWithinOneHugePage) {
  SimulatedProcess& process = Add(std::vector<double>(2, 200.0), kTablePages);
  Start();
  Run(seconds(2));
  engine_->TakeEpoch();
  Run(seconds(4));
  const Harvest harvest = engine_->TakeEpoch();
  PageCount covered(0);
  for (const RegionEvidence& region : harvest.regions) {
    covered = covered + region.span;
    EXPECT_GT(region.looks, 10u);
    EXPECT_NEAR(Rate(region), 200.0 / kTable, 0.5 * 200.0 / kTable);
  }
  EXPECT_EQ(covered, process.range().size());
  EXPECT_GE(harvest.regions.size(), 10u);
}

TEST_P(RegionEngineTest, HugePagesThatAClearPassesByAreNotTakenForHot) {
  SimulatedProcess& process = Add(std::vector<double>(64, 0.0), kTablePages);
  for (auto& page : process.pages) page.shared = true;
  Start();
  Run(seconds(2));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_EQ(harvest.counts.observations, 0u);
  EXPECT_GT(harvest.counts.shared, 10 * kTable);
}

TEST_P(RegionEngineTest, MlockedMemoryIsNotTakenForCold) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 500.0));
  process.mlocked = true;
  // Set bits cannot be cleared; unset ones, alone, would show no access.
  for (std::size_t i = 0; i < process.pages.size(); i += 2) process.pages[i].accessed = false;
  for (auto& page : process.pages) page.next_access = 1e18;
  Start();
  Run(seconds(2));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_EQ(harvest.unclearable, process.range().size().value());
  EXPECT_EQ(harvest.counts.observations, 0u);
  ASSERT_FALSE(harvest.regions.empty());
  for (const RegionEvidence& region : harvest.regions) {
    EXPECT_TRUE(region.seen) << "that it was accessed at some time is known";
    EXPECT_EQ(region.looks, 0u);
  }
  EXPECT_LE(process.refusals, 16u) << "not tried all the time";
}

TEST_P(RegionEngineTest, BesideMlockedMemoryTheOtherIsLookedAt) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 500.0));
  const Vpn middle = kStart + PageCount(8 * kTable);
  for (std::size_t i = 0; i < 8 * kTable; ++i) process.pages[i].mlocked = true;
  Start();
  TrackedProcess tracked = process.identity();
  tracked.mappings = {{{kStart, middle}, MappingKind::kAnonymous, ""},
                      {{middle, process.range().end}, MappingKind::kAnonymous, ""}};
  engine_->SetTargets({tracked});
  Run(seconds(2));
  engine_->TakeEpoch();
  Run(seconds(2));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_EQ(harvest.unclearable, 8 * kTable);
  bool looked_at = false;
  for (const RegionEvidence& region : harvest.regions) {
    EXPECT_EQ(region.looks > 0, region.start >= middle);
    EXPECT_TRUE(region.start >= middle || region.start + region.span <= middle);
    looked_at |= region.looks > 0;
  }
  EXPECT_TRUE(looked_at);
}

TEST_P(RegionEngineTest, LooksAtUnlockedMemoryAgain) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 500.0));
  process.mlocked = true;
  Start();
  Run(seconds(2));
  EXPECT_GT(engine_->TakeEpoch().unclearable, 0u);
  process.mlocked = false;
  Run(seconds(62));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_EQ(harvest.unclearable, 0u);
  EXPECT_GT(harvest.counts.observations, 0u);
}

TEST_P(RegionEngineTest, GiantPagesAreSeenAndNotCleared) {
  SimulatedProcess& process = Add(std::vector<double>(2, 100.0), kGiantPages);
  Start();
  Run(seconds(2));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_EQ(process.clears + process.refusals, 0u);
  EXPECT_EQ(harvest.unclearable, process.range().size().value());
  ASSERT_FALSE(harvest.regions.empty());
  for (const RegionEvidence& region : harvest.regions) EXPECT_TRUE(region.seen);
}

TEST_P(RegionEngineTest, ClearsNoPartOfAHugePageThatHasGrown) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  process.collapses_after = 1;  // between the look-up and the clear
  Start();
  Run(seconds(1));
  EXPECT_EQ(process.splits, 0u);
  EXPECT_GE(engine_->TakeEpoch().counts.lost, 10u);
  EXPECT_GT(process.clears, 0u) << "of whole ones";
}

TEST_P(RegionEngineTest, TheRegionsFollowTheMappings) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  Start();
  Run(seconds(2));
  engine_->TakeEpoch();
  TrackedProcess half = process.identity();
  half.mappings[0].range.end = kStart + PageCount(8 * kTable);
  engine_->SetTargets({half});
  Run(seconds(2));
  engine_->TakeEpoch();
  Run(seconds(1));
  const Harvest harvest = engine_->TakeEpoch();
  ASSERT_FALSE(harvest.regions.empty());
  const RegionEvidence& last = harvest.regions.back();
  EXPECT_LE(last.start + last.span, half.mappings[0].range.end);
}

TEST_P(RegionEngineTest, TheMappingsAreLookedAtNoMoreOftenThanTheUpdateInterval) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  tmprof_region_params regions = tmprof_region_params_default();
  regions.update_ns = 20'000'000'000;
  engine_ = std::make_unique<RegionEngine>(kernel_, ScanOptions{.mode = GetParam(),
                                                                .looked = Looked::kRegions,
                                                                .regions = regions,
                                                                .overhead_share = 1,
                                                                .cost = kCost});
  Refresh();
  const auto end = [&](std::uint64_t tables) {
    TrackedProcess tracked = process.identity();
    tracked.mappings[0].range.end = kStart + PageCount(tables * kTable);
    engine_->SetTargets({tracked});
    Run(seconds(5));
    engine_->TakeEpoch();
    Run(seconds(5));
    const RegionEvidence last = engine_->TakeEpoch().regions.back();
    return last.start + last.span;
  };
  EXPECT_EQ(end(8), kStart + PageCount(8 * kTable));
  EXPECT_GT(end(4), kStart + PageCount(4 * kTable)) << "20 s have not passed";
  Run(seconds(10));
  EXPECT_LE(end(4), kStart + PageCount(4 * kTable));
}

TEST_P(RegionEngineTest, SampledPagesAreLookedAtByThemselves) {
  constexpr std::uint64_t kSampled = 5'000;
  Add(Rates(16 * kTable, kSampled, kSampled + 1, 5'000, 0));
  Start();
  Run(seconds(1));
  engine_->SeeSamples({{.key = {TargetId(0), kStart + PageCount(kSampled)}, .loads = 4}});
  Run(seconds(1));
  engine_->TakeEpoch();
  Run(seconds(1));
  bool found = false;
  for (const RegionEvidence& region : engine_->TakeEpoch().regions) {
    if (region.start != kStart + PageCount(kSampled)) continue;
    found = true;
    EXPECT_EQ(region.span, PageCount(1));
    EXPECT_GT(Rate(region), 500);
  }
  EXPECT_TRUE(found);
}

TEST_P(RegionEngineTest, AnotherProgramsEvidenceIsVoid) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  Start();
  Run(seconds(1));
  process.address_space += 1;
  Run(seconds(1));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_THAT(harvest.regions, ::testing::IsEmpty()) << "its mappings are not known";
  EXPECT_EQ(harvest.counts.observations, 0u);
  EXPECT_GT(harvest.counts.lost, 10u);
  Refresh();
  Run(seconds(1));
  EXPECT_FALSE(engine_->TakeEpoch().regions.empty());
}

TEST_P(RegionEngineTest, DeliversTheEvidenceOfAProcessWhoseNumberIsAnothers) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  Start();
  Run(seconds(1));
  process.is_another = true;
  process.address_space += 1;
  Run(seconds(1));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_FALSE(harvest.regions.empty());
  EXPECT_GT(harvest.counts.observations, 0u);
  EXPECT_EQ(engine_->Step(), Engine::kNever);
}

TEST_P(RegionEngineTest, DeliversTheEvidenceOfATargetThatIsNoLongerTracked) {
  Add(std::vector<double>(16 * kTable, 100.0));
  Start();
  Run(seconds(1));
  engine_->SetTargets({});
  EXPECT_FALSE(engine_->TakeEpoch().regions.empty());
  EXPECT_THAT(engine_->TakeEpoch().regions, ::testing::IsEmpty());
}

// The pages of the first ten regions are cleared at once, and none has been read.
class OpenStepTest : public RegionEngineTest {
 protected:
  void OpenAStep() {
    process_ = &Add(std::vector<double>(16 * kTable, 100.0));
    Start();
    while (process_->clears == 0) {
      const MonotonicTime next = engine_->Step();
      kernel_.now = std::max(kernel_.now, next);
    }
    ASSERT_EQ(process_->clears, 10u);
  }
  SimulatedProcess* process_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Modes, OpenStepTest,
                         ::testing::Values(ScanOptions::Mode::kLadder, ScanOptions::Mode::kPlain),
                         [](const auto& mode) {
                           return mode.param == ScanOptions::Mode::kLadder ? "ladder" : "plain";
                         });

TEST_P(OpenStepTest, PagesThatAPauseLeavesUnreadAreLost) {
  OpenAStep();
  engine_->SetActive(false);
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_EQ(harvest.counts.lost, 10u);
  EXPECT_EQ(Detail(harvest, "steps"), 0u);
  EXPECT_EQ(Detail(harvest, "pages_checked"), 0u) << "of no step";
}

TEST_P(OpenStepTest, UnreadPagesOfATargetThatIsNoLongerTrackedAreLost) {
  OpenAStep();
  engine_->SetTargets({});
  EXPECT_EQ(engine_->TakeEpoch().counts.lost, 10u);
}

TEST_P(OpenStepTest, UnreadPagesOfATargetThatDiesAreLost) {
  OpenAStep();
  process_->alive = false;
  Run(seconds(1));
  EXPECT_EQ(engine_->TakeEpoch().counts.lost, 10u);
}

TEST_P(OpenStepTest, PagesThatCannotBeReadAreLostAndReportedUntilTheyCan) {
  OpenAStep();
  process_->refuses_read = EPERM;
  Run(seconds(1));
  const Harvest first = engine_->TakeEpoch();
  EXPECT_EQ(first.counts.lost, 10u);
  EXPECT_THAT(first.note, HasSubstr("read the page tables"));
  Run(seconds(1));
  EXPECT_THAT(engine_->TakeEpoch().note, HasSubstr("read the page tables"));
  process_->refuses_read.reset();
  Run(seconds(60));
  engine_->TakeEpoch();
  Run(seconds(1));
  EXPECT_EQ(engine_->TakeEpoch().note, "");
}

TEST_P(OpenStepTest, PagesReadBeforeAPauseCount) {
  OpenAStep();
  while (Detail(engine_->TakeEpoch(), "entries_read") == 0) {
    const MonotonicTime next = engine_->Step();
    kernel_.now = std::max(kernel_.now, next);
  }
  Run(milliseconds(2));
  engine_->SetActive(false);
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_GT(harvest.counts.observations, 0u);
  EXPECT_FALSE(harvest.regions.empty());
}

TEST_P(RegionEngineTest, ATargetThatDiesIsLeft) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  Start();
  Run(seconds(1));
  process.alive = false;
  Run(seconds(1));
  EXPECT_EQ(engine_->Step(), Engine::kNever);
}

TEST_P(RegionEngineTest, ReportsARefusalAndDoesNotTryAgainAllTheTime) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  process.refuses = EPERM;
  Start();
  Run(seconds(10));
  EXPECT_LE(process.refusals, 16u) << "one batch";
  for (int epoch = 0; epoch < 3; ++epoch) {
    EXPECT_THAT(engine_->TakeEpoch().note, HasSubstr("clear accessed bits")) << epoch;
    Run(seconds(1));
  }
  process.refuses.reset();
  Run(seconds(60));
  engine_->TakeEpoch();
  Run(seconds(1));
  EXPECT_EQ(engine_->TakeEpoch().note, "");
}

TEST_P(RegionEngineTest, WhileInactiveNothingIsCleared) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  Start();
  Run(seconds(1));
  engine_->SetActive(false);
  const std::uint64_t before = process.clears;
  Run(seconds(1));
  EXPECT_EQ(process.clears, before);
  EXPECT_EQ(engine_->Step(), Engine::kNever);
  engine_->SetActive(true);
  Run(seconds(1));
  EXPECT_GT(process.clears, before);
}

TEST_P(RegionEngineTest, ASleepingTargetIsRarelyAskedAndWatchedAgainWhenItRuns) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 100.0));
  Start();
  Run(seconds(1));
  process.cpus = 0;
  Run(seconds(1));
  const std::uint64_t reads = process.point_reads;
  const std::uint64_t clears = process.clears;
  engine_->TakeEpoch();
  Run(seconds(20));
  EXPECT_LE(process.point_reads - reads, 40u);
  EXPECT_EQ(process.clears, clears);
  EXPECT_THAT(engine_->TakeEpoch().regions, ::testing::IsEmpty()) << "it did nothing";
  process.cpus = 1;
  Run(seconds(2));
  EXPECT_FALSE(engine_->TakeEpoch().regions.empty());
}

TEST_P(RegionEngineTest, MakesAtMostSixteenClearsBackToBack) {
  Add(std::vector<double>(64 * kTable, 5'000.0));
  Start();
  Run(seconds(5));
  ASSERT_GT(kernel_.clears_at.size(), 1'000u);
  for (std::size_t i = 16; i < kernel_.clears_at.size(); ++i)
    ASSERT_GE(kernel_.clears_at[i] - kernel_.clears_at[i - 16], milliseconds(1));
}

TEST_P(RegionEngineTest, PausesDoNotMakeItKeepFewerRegions) {
  std::vector<double> rates(64 * kTable);
  for (std::size_t page = 0; page < rates.size(); ++page)
    rates[page] = 10 * std::pow(10, static_cast<double>(page / 128 % 3));
  Add(rates);
  Start();
  Run(seconds(20));
  const std::uint64_t before = Detail(engine_->TakeEpoch(), "regions");
  ASSERT_GT(before, 150u);
  for (int pause = 0; pause < 10; ++pause) {
    engine_->SetActive(false);
    Run(seconds(5));
    engine_->SetActive(true);
    Run(milliseconds(500));
  }
  EXPECT_GE(Detail(engine_->TakeEpoch(), "regions"), before / 2);
}

TEST_P(RegionEngineTest, SeesPagesAtTheNextReadThatWereBusyAtOne) {
  SimulatedProcess& process = Add(std::vector<double>(16 * kTable, 20.0));
  process.busy_points = 5;
  Start();
  double firsts = 0;
  double at_risk = 0;
  std::uint64_t lost = 0;
  for (int epoch = 0; epoch < 10; ++epoch) {
    Run(seconds(1));
    const Harvest harvest = engine_->TakeEpoch();
    lost += harvest.counts.lost;
    for (const RegionEvidence& region : harvest.regions) {
      firsts += region.first_accesses;
      at_risk += 1e-9 * static_cast<double>(region.time_at_risk.count()) *
                 static_cast<double>(region.span.value());
    }
  }
  EXPECT_EQ(lost, 0u);
  EXPECT_NEAR(firsts / at_risk, 20.0, 4.0);
}

TEST_P(RegionEngineTest, TakesTheMostSampledPagesIfNotAllHaveRoom) {
  constexpr std::uint64_t kSampled = 5'000;
  Add(Rates(16 * kTable, kSampled, kSampled + 1, 5'000, 0));
  Start();
  Run(seconds(1));
  for (std::uint64_t epoch = 0; epoch < 10; ++epoch) {
    std::vector<SampleRecord> samples;
    for (std::uint64_t page = 0; page < 90; ++page)
      samples.push_back({.key = {TargetId(0), kStart + PageCount(90 * epoch + page)}, .loads = 3});
    samples.push_back({.key = {TargetId(0), kStart + PageCount(kSampled)}, .loads = 2});
    engine_->SeeSamples(samples);
  }
  Run(seconds(1));
  engine_->TakeEpoch();
  Run(seconds(1));
  const std::vector<RegionEvidence> regions = engine_->TakeEpoch().regions;
  const auto found =
      std::ranges::find(regions, kStart + PageCount(kSampled), &RegionEvidence::start);
  ASSERT_NE(found, regions.end());
  EXPECT_EQ(found->span, PageCount(1));
}

TEST_P(RegionEngineTest, SamplesOfAnInactiveTimeSplitNothing) {
  constexpr std::uint64_t kSampled = 5'000;
  Add(std::vector<double>(16 * kTable, 100.0));
  Start();
  Run(seconds(1));
  engine_->SetActive(false);
  engine_->SeeSamples({{.key = {TargetId(0), kStart + PageCount(kSampled)}, .loads = 9}});
  engine_->SetActive(true);
  Run(seconds(1));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_GE(harvest.regions.size(), 10u);
  for (const RegionEvidence& region : harvest.regions)
    EXPECT_FALSE(region.start == kStart + PageCount(kSampled) && region.span == PageCount(1));
}

TEST_P(RegionEngineTest, ARecordHasTheFramesOfPagesThatWereLookedAt) {
  Add(std::vector<double>(16 * kTable, 100.0));
  Start();
  Run(seconds(1));
  const Harvest harvest = engine_->TakeEpoch();
  EXPECT_GE(harvest.regions.size(), 10u);
  for (const RegionEvidence& region : harvest.regions)
    EXPECT_THAT(region.frames, ::testing::Not(::testing::IsEmpty()));
}

}  // namespace region_engine_test
}  // namespace tmprof::abit
