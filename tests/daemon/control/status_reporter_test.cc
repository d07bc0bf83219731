// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/status_reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>

#include "tests/base/fake_clock.h"
#include "tests/daemon/control/statuses.h"

namespace tmprof {
namespace status_reporter_test {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr TargetId kTarget{0};

class StatusReporterTest : public testing::Test {
 protected:
  StatusReporterTest() {
    map_.Learn(
        kTarget, {Vpn(0), Vpn(30)},
        std::vector<PlacedRun>{{{Vpn(0), Vpn(10)}, NodeId(0)}, {{Vpn(10), Vpn(30)}, NodeId(1)}});
    epoch_.targets.push_back(
        {.id = kTarget, .pid = Pid(42), .name = "redis", .cpu_time = seconds(1)});
    epoch_.sources.push_back({.name = "clock", .role = SourceRole::kSamples, .lost = 3});
    memory_ = {{.id = NodeId(0), .free = PageCount(5)}, {.id = NodeId(1), .free = PageCount(7)}};
  }
  EpochReport Report() {
    EpochReport report{.epoch = epoch_,
                       .map = map_,
                       .memory = memory_,
                       .targets = {{kTarget, Pid(42)}},
                       .capacities = {PageCount(16), std::nullopt},
                       .decision = {.wanted = PageCount(12), .moves = 4},
                       .warnings = {"mind"}};
    report.pending_moves = 2;
    report.hit_ratio = 0.25;
    return report;
  }
  const DaemonStatus& Published() {
    published_ = board_.Read().status;
    return *published_;
  }

  FakeClock clock_{test::kDaemonStart};
  Log log_{LogConfig{.level = LogLevel::kError}};
  DaemonStatus status_ = test::NewStatus();
  StatusBoard board_{clock_, test::NewStatus()};
  std::shared_ptr<const DaemonStatus> published_;
  bool paused_ = false;
  StatusReporter reporter_{*Tiers::Make({{NodeId(0)}, {NodeId(1)}}),
                           {},
                           [this] { return paused_; },
                           log_,
                           status_,
                           board_};
  PlacementMap map_;
  std::vector<NodeMemory> memory_;
  EpochProfile epoch_{
      .index = 6, .start = MonotonicTime(seconds(10)), .end = MonotonicTime(seconds(12))};
};

TEST_F(StatusReporterTest, PublishesAnEpochItsTargetsAndTiers) {
  reporter_.Publish(Report());
  const DaemonStatus& status = Published();
  EXPECT_EQ(status.epoch->index, 6U);
  EXPECT_EQ(status.epoch->length, seconds(2));
  EXPECT_EQ(status.epochs_total, 1U);
  ASSERT_THAT(status.targets, SizeIs(1));
  EXPECT_EQ(status.targets[0].name, "redis");
  EXPECT_EQ(status.targets[0].tracked, PageCount(30));
  EXPECT_EQ(status.targets[0].in_tier1, PageCount(10));
  ASSERT_THAT(status.tiers, SizeIs(2));
  EXPECT_EQ(status.tiers[0].capacity, PageCount(16));
  EXPECT_EQ(status.tiers[0].used, PageCount(10));
  EXPECT_EQ(status.tiers[0].free, PageCount(5));
  EXPECT_EQ(status.tiers[1].capacity, std::nullopt);
  EXPECT_EQ(status.tiers[1].used, PageCount(20));
  EXPECT_EQ(status.tiers[1].free, PageCount(7));
  EXPECT_EQ(status.decision->moves, 4U);
  EXPECT_EQ(status.pending_moves, 2U);
  EXPECT_EQ(status.tier1_hit_ratio, 0.25);
  EXPECT_THAT(status.warnings, ElementsAre("mind"));
}

TEST_F(StatusReporterTest, FreeMemoryIsUnknownWhereItCouldNotBeRead) {
  memory_.clear();
  reporter_.Publish(Report());
  EXPECT_EQ(Published().tiers[0].free, std::nullopt);
}

TEST_F(StatusReporterTest, AddsUpLossesOfASourceUntilOneIsUnknown) {
  reporter_.Publish(Report());
  reporter_.Publish(Report());
  EXPECT_EQ(Published().sources[0].lost_total, 6U);
  epoch_.sources[0].lost = std::nullopt;
  reporter_.Publish(Report());
  epoch_.sources[0].lost = 1;
  reporter_.Publish(Report());
  EXPECT_EQ(Published().sources[0].lost_total, std::nullopt);
}

TEST_F(StatusReporterTest, CountsMovesInTheTotals) {
  const std::vector<MoveOutcome> outcomes{
      {.move = {.key = {kTarget, Vpn(1)}, .from = NodeId(1), .to = NodeId(0)}, .attempts = 1},
      {.move = {.key = {kTarget, Vpn(2)}, .from = NodeId(1), .to = NodeId(0)},
       .error = EBUSY,
       .attempts = 3}};
  reporter_.CountMoves(outcomes, 1);
  reporter_.Publish(Report());
  const MoveTotals& totals = Published().totals;
  EXPECT_EQ(totals.moved.at({Tier(2), Tier(1), MoveReason::kWanted}), PageCount(1));
  EXPECT_EQ(totals.failures.at(EBUSY), 1U);
  EXPECT_EQ(totals.ping_pong, 1U);
}

TEST_F(StatusReporterTest, TheStateIsThatOfTheConfigurationAndTheOperator) {
  reporter_.PublishState();
  EXPECT_EQ(Published().state, DaemonState::kRunning);
  paused_ = true;
  reporter_.PublishState();
  EXPECT_EQ(Published().state, DaemonState::kPaused);
  reporter_.Configure({.dry_run = true}, {}, {"mind"});
  EXPECT_EQ(Published().state, DaemonState::kPaused);
  EXPECT_THAT(Published().warnings, ElementsAre("mind"));
  paused_ = false;
  reporter_.PublishState();
  EXPECT_EQ(Published().state, DaemonState::kDryRun);
  paused_ = true;
  reporter_.Configure({.track_only = true}, {}, {});
  EXPECT_EQ(Published().state, DaemonState::kTrackOnly);
}

TEST_F(StatusReporterTest, ReportsADecisionWithItsFigures) {
  Log log(LogConfig{.level = LogLevel::kDebug, .format = LogFormat::kJson});
  StatusReporter reporter(
      *Tiers::Make({{NodeId(0)}, {NodeId(1)}}), {}, [] { return false; }, log, status_, board_);
  epoch_.sources.push_back(
      {.name = "abit", .role = SourceRole::kReferences, .duty_cycle = 0.5, .observations = 9});
  EpochReport report = Report();
  report.gain = 0.125;
  report.moves_over = 3;
  report.looked_at = 0.75;
  testing::internal::CaptureStderr();
  reporter.LogDecision(report);
  const Json line = Json::parse(testing::internal::GetCapturedStderr());
  EXPECT_EQ(line["message"],
            "epoch 6: 1 target, 12 pages wanted of 16, 4 moves decided, for 0.125 of the accesses, "
            "3 over, predicted to save unknown s of memory time a second; 0.75 of the pages were "
            "looked at lately, references 9 (active 50 %)");
  EXPECT_EQ(line["capacity_pages"], 16);
  EXPECT_EQ(line["moves_over"], 3);
  EXPECT_TRUE(line["predicted_saved_s_per_s"].is_null());
}

}  // namespace status_reporter_test
}  // namespace tmprof
