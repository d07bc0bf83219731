// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/driver/driver_region_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <tuple>

#include "profiler/sources/driver/driver_abit_kernel.h"
#include "tests/profiler/driver/fake_device.h"

namespace tmprof::driver {
namespace driver_region_engine_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Start, end, looks, first accesses, time at risk in ns.
using Row = std::tuple<std::uint64_t, std::uint64_t, std::uint32_t, std::uint32_t, std::int64_t>;

class DriverRegionEngineTest : public testing::Test {
 protected:
  DriverRegionEngineTest() {
    options_.looked = abit::Looked::kRegions;
    options_.mode = abit::ScanOptions::Mode::kPlain;
    options_.cost = {.ns_per_set = 100, .ns_per_look = 0, .ns_per_point = 0};
  }

  Result<std::unique_ptr<DriverRegionEngine>> TryStart() {
    auto session = Session::Open(std::make_unique<FakeDevice>(driver_), Purpose::kRegions);
    if (!session) return Fail(std::move(session.error()));
    kernel_ = MakeDriverAbitKernel(*session);
    return DriverRegionEngine::Start(*session, *kernel_, options_);
  }
  void Start() {
    engine_ = TryStart().value();
    Watch({{100, 200}});
  }
  // The process 1, PID 5, whose program has those mappings.
  void Watch(const std::vector<std::pair<std::uint64_t, std::uint64_t>>& mappings) {
    TrackedProcess process{.id = TargetId(1), .pid = Pid(5), .start_time_ticks = 7, .mappings = {}};
    for (const auto& [start, end] : mappings) {
      Mapping mapping;
      mapping.range = {Vpn(start), Vpn(end)};
      mapping.kind = MappingKind::kAnonymous;
      mapping.accessible = true;
      process.mappings.push_back(mapping);
    }
    engine_->SetTargets({process});
  }
  // An aggregation of the target's, at a time of its own.
  void Aggregation(const std::vector<tmprof_region_record>& records,
                   std::uint32_t address_space = 1) {
    ++time_ns_;
    for (tmprof_region_record record : records) {
      record.time_ns = time_ns_;
      record.target_id = 1;
      record.address_space = address_space;
      record.regions = static_cast<std::uint32_t>(records.size());
      driver_.regions.push_back(record);
    }
  }
  static tmprof_region_record Region(std::uint64_t start, std::uint64_t end, std::uint32_t looks,
                                     std::uint32_t references, std::uint64_t at_risk_ns,
                                     std::uint64_t frame = 9) {
    tmprof_region_record record{};
    record.start_vpn = start;
    record.end_vpn = end;
    record.looks = looks;
    record.references = references;
    record.at_risk_ns = at_risk_ns;
    record.frame = frame;
    return record;
  }
  static std::vector<Row> Rows(const abit::Harvest& harvest) {
    std::vector<Row> rows;
    for (const abit::RegionEvidence& region : harvest.regions)
      rows.emplace_back(region.start.value(), (region.start + region.span).value(), region.looks,
                        region.first_accesses, region.time_at_risk.count());
    return rows;
  }

  FakeDriver driver_;
  abit::ScanOptions options_;
  std::unique_ptr<abit::AbitKernel> kernel_;
  std::unique_ptr<DriverRegionEngine> engine_;
  std::uint64_t time_ns_ = 0;
};

TEST_F(DriverRegionEngineTest, TheDriverIsToldTheIntervalsAndBothBudgets) {
  options_.overhead_share = 0.01;
  options_.own_share = 0.02;
  options_.regions.max_regions = 321;
  options_.seed = 77;
  Start();
  EXPECT_EQ(driver_.params.abit_mode, TMPROF_ABIT_REGIONS);
  EXPECT_EQ(driver_.params.regions.monitoring_ns, 1'000'000);
  EXPECT_EQ(driver_.params.regions.max_regions, 321);
  EXPECT_EQ(driver_.params.region_seed, 77);
  EXPECT_EQ(driver_.params.scan_budget_ns, 20'000'000);
  // A hundredth of a second pays for 100 000 clears of 100 ns.
  EXPECT_EQ(driver_.params.region_clears, 100'000);
  EXPECT_THAT(driver_.commands, ElementsAre(TMPROF_START));
}

TEST_F(DriverRegionEngineTest, AggregationsOfAnEpochAddUp) {
  Start();
  // 50 pages at risk for 5 ms in all, 0.1 ms each; 50 pages, a hundred times as long.
  Aggregation({Region(100, 150, 10, 10, 5'000'000), Region(150, 200, 10, 1, 500'000'000)});
  Aggregation({Region(100, 150, 10, 9, 5'000'000), Region(150, 200, 10, 0, 500'000'000)});
  const abit::Harvest harvest = engine_->TakeEpoch();
  EXPECT_TRUE(harvest.by_regions);
  EXPECT_EQ(harvest.mode, abit::ScanOptions::Mode::kPlain) << "whatever was asked for";
  EXPECT_THAT(Rows(harvest),
              ElementsAre(Row(100, 150, 20, 19, 200'000), Row(150, 200, 20, 1, 20'000'000)));
  EXPECT_EQ(harvest.counts.observations, 40);
  EXPECT_EQ(harvest.counts.lost, 0);
  EXPECT_THAT(engine_->TakeEpoch().regions, IsEmpty());
}

TEST_F(DriverRegionEngineTest, HolesAndUnknownMemoryGetNoRecords) {
  Start();
  Watch({{100, 120}, {180, 200}});
  Aggregation({Region(100, 200, 10, 5, 40'000, TMPROF_UNKNOWN)});
  const abit::Harvest harvest = engine_->TakeEpoch();
  EXPECT_THAT(Rows(harvest), ElementsAre(Row(100, 120, 10, 3, 1'000), Row(180, 200, 10, 2, 1'000)));
  EXPECT_THAT(harvest.regions[0].frames, IsEmpty());
}

TEST_F(DriverRegionEngineTest, VoidsTheEvidenceOfAnotherProgram) {
  Start();
  Aggregation({Region(100, 200, 10, 5, 40'000)});
  Aggregation({Region(100, 200, 7, 2, 40'000)}, 2);
  const abit::Harvest harvest = engine_->TakeEpoch();
  EXPECT_THAT(harvest.regions, IsEmpty());
  EXPECT_EQ(harvest.counts.observations, 0);
  EXPECT_EQ(harvest.counts.lost, 17);
  Watch({{100, 200}});
  Aggregation({Region(100, 200, 10, 4, 100'000)}, 2);
  EXPECT_THAT(Rows(engine_->TakeEpoch()), ElementsAre(Row(100, 200, 10, 4, 1'000)));
}

TEST_F(DriverRegionEngineTest, CountsRecordsThatTheLogLostAndTakesNoHalfAggregation) {
  Start();
  Aggregation({Region(100, 150, 10, 10, 5'000), Region(150, 200, 10, 1, 5'000)});
  driver_.regions.pop_back();
  driver_.regions_overwritten = 1;
  Aggregation({Region(100, 200, 10, 5, 100'000)});
  const abit::Harvest harvest = engine_->TakeEpoch();
  EXPECT_THAT(Rows(harvest), ElementsAre(Row(100, 200, 10, 5, 1'000)));
  // In looks: 10 of the half that came, and 10 of the record that was overwritten, as the two that
  // were read have on average.
  EXPECT_EQ(harvest.counts.lost, 10 + 10);
  EXPECT_EQ(engine_->TakeEpoch().counts.lost, 0);
}

TEST_F(DriverRegionEngineTest, DeliversTheEvidenceOfATargetThatLeaves) {
  Start();
  Aggregation({Region(100, 200, 10, 5, 100'000)});
  engine_->SetTargets({});
  EXPECT_THAT(driver_.removed, ElementsAre(1));
  EXPECT_THAT(Rows(engine_->TakeEpoch()), ElementsAre(Row(100, 200, 10, 5, 1'000)));
  Aggregation({Region(100, 200, 10, 5, 100'000)});
  const abit::Harvest harvest = engine_->TakeEpoch();
  EXPECT_THAT(harvest.regions, IsEmpty());
  EXPECT_EQ(harvest.counts.lost, 10);
}

TEST_F(DriverRegionEngineTest, ClearsAreChargedAtWhatTheyCost) {
  driver_.stats.cleared_bits = 7;  // cleared by the calibration
  Start();
  driver_.stats.cleared_bits = 27;
  driver_.stats.region_steps = 3;
  driver_.stats.region_checks = 25;
  driver_.stats.region_checks_lost = 4;
  const abit::Harvest harvest = engine_->TakeEpoch();
  EXPECT_EQ(harvest.counts.clears, 20);
  EXPECT_EQ(harvest.counts.cost_ns, 2'000);
  EXPECT_EQ(harvest.counts.lost, 4);
  EXPECT_EQ(engine_->TakeEpoch().counts.clears, 0);
}

std::uint64_t RegionBytes(const abit::Harvest& harvest) {
  for (const NamedCount& detail : harvest.details)
    if (detail.name == "region_bytes") return detail.count;
  ADD_FAILURE() << "not told";
  return 0;
}

TEST_F(DriverRegionEngineTest, CountsTheMemoryOfRegionsWithTheLogAndBelowThePublishedBound) {
  Start();
  const std::uint64_t log = RegionBytes(engine_->TakeEpoch());
  EXPECT_GE(log, driver_.params.region_log * sizeof(tmprof_region_record));
  std::vector<tmprof_region_record> all;
  Watch({{1000, 3000}});
  for (std::uint64_t i = 0; i < 1000; ++i)
    all.push_back(Region(1000 + 2 * i, 1002 + 2 * i, 10, 5, 1'000));
  for (int aggregation = 0; aggregation < 10; ++aggregation) Aggregation(all);
  const std::uint64_t whole = RegionBytes(engine_->TakeEpoch());
  // Room for 1012 regions of 44 bytes and for the times of 16 holds.
  EXPECT_GE(whole - log, 1012 * 44 + 16 * 8);
  // Daptrace: 44 B for each of 1000 regions, and a buffer of 4 MB.
  EXPECT_LE(whole, 4'044'000);
}

TEST_F(DriverRegionEngineTest, TheGatePausesTheDriver) {
  Start();
  engine_->SetActive(false);
  engine_->SetActive(true);
  EXPECT_THAT(driver_.commands, ElementsAre(TMPROF_START, TMPROF_PAUSE, TMPROF_RESUME));
}

TEST_F(DriverRegionEngineTest, AModuleWithoutRegionsIsRefusedWithAWayOut) {
  driver_.info.features &= ~std::uint64_t{TMPROF_FEATURE_REGIONS};
  const auto refused = TryStart();
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().Message(), HasSubstr("--abit regions,ladder"));
}

TEST_F(DriverRegionEngineTest, ARefusedParameterIsNamed) {
  options_.regions.monitoring_ns = 50'000;
  options_.regions.max_regions = 100;
  const auto refused = TryStart();
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().Message(), HasSubstr("monitoring_ns must be at least 100 us"));
}

TEST_F(DriverRegionEngineTest, AFailingDeviceEndsTheSource) {
  Start();
  driver_.regions_error = ENXIO;
  engine_->TakeEpoch();
  ASSERT_TRUE(engine_->Failure().has_value());
  EXPECT_THAT(engine_->Failure()->Message(), HasSubstr("read regions from the driver"));
  EXPECT_EQ(engine_->Step(), abit::Engine::kNever);
}

}  // namespace driver_region_engine_test
}  // namespace tmprof::driver
