// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/daemon_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "tests/base/fake_clock.h"
#include "tests/daemon/control/statuses.h"

namespace tmprof::test {
namespace daemon_status_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

StatusReading ReadingOf(DaemonStatus status) {
  return {.status = std::make_shared<const DaemonStatus>(std::move(status)),
          .age = milliseconds(300),
          .uptime = seconds(90061)};
}

TEST(StatusBoard, TellsHowOldWhatItShowsIs) {
  FakeClock clock{kDaemonStart};
  StatusBoard board(clock, NewStatus());
  clock.now += seconds(5);
  board.Publish(FullStatus());
  clock.now += seconds(2);
  const StatusReading reading = board.Read();
  EXPECT_EQ(reading.status->epochs_total, 8U);
  EXPECT_EQ(reading.age, seconds(2));
  EXPECT_EQ(reading.uptime, seconds(7));
}

TEST(StatusBoard, IsAsOldAsItWasWhereAPartIsAmended) {
  FakeClock clock{kDaemonStart};
  StatusBoard board(clock, NewStatus());
  board.Publish(FullStatus());
  clock.now += seconds(2);
  board.Amend([](DaemonStatus& status) { status.state = DaemonState::kPaused; });
  const StatusReading reading = board.Read();
  EXPECT_EQ(reading.age, seconds(2));
  EXPECT_EQ(reading.status->state, DaemonState::kPaused);
  EXPECT_EQ(reading.status->epochs_total, 8U);
}

TEST(StatusBoard, LeavesReadersWhatTheyHaveRead) {
  const FakeClock clock{kDaemonStart};
  StatusBoard board(clock, NewStatus());
  const StatusReading before = board.Read();
  board.Publish(FullStatus());
  EXPECT_EQ(before.status->epochs_total, 0U);
}

TEST(MoveTotals, CountsPagesByWayAndFailedMovesByErrno) {
  const auto tiers = Tiers::Make({{NodeId(0), NodeId(2)}, {NodeId(1)}});
  ASSERT_TRUE(tiers);
  const auto outcome = [](std::uint64_t pages, NodeId from, NodeId to, MoveReason reason,
                          int error) {
    MoveOutcome made;
    made.move = {.span = PageCount(pages), .from = from, .to = to, .reason = reason};
    made.error = error;
    return made;
  };
  MoveTotals totals;
  totals.Add(outcome(512, NodeId(1), NodeId(0), MoveReason::kWanted, 0), *tiers);
  totals.Add(outcome(1, NodeId(1), NodeId(2), MoveReason::kWanted, 0), *tiers);
  totals.Add(outcome(3, NodeId(0), NodeId(1), MoveReason::kRoom, 0), *tiers);
  totals.Add(outcome(512, NodeId(1), NodeId(0), MoveReason::kWanted, EBUSY), *tiers);
  totals.Add(outcome(7, NodeId(1), NodeId(0), MoveReason::kWanted, ECANCELED), *tiers);
  EXPECT_THAT(
      totals.moved,
      ElementsAre(Pair(MoveTotals::Way{Tier(1), Tier(2), MoveReason::kRoom}, PageCount(3)),
                  Pair(MoveTotals::Way{Tier(2), Tier(1), MoveReason::kWanted}, PageCount(513))));
  EXPECT_THAT(totals.failures, ElementsAre(Pair(EBUSY, 1)));
  EXPECT_EQ(totals.dry_run, PageCount(7));
}

TEST(StatusAsJson, HasAllThatIsKnown) {
  const Json json = AsJson(ReadingOf(FullStatus()));
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["state"], "running");
  EXPECT_EQ(json["uptime_s"], 90061.0);
  EXPECT_EQ(json["age_s"], 0.3);
  EXPECT_EQ(json["config_file"], "/etc/tmprofd.textproto");
  EXPECT_EQ(json["epoch"], Json({{"index", 7}, {"length_s", 1.5}}));
  EXPECT_EQ(json["epochs_total"], 8);
  EXPECT_EQ(json["targets"][0], Json({{"id", 0},
                                      {"pid", 4711},
                                      {"name", "redis-server"},
                                      {"tracked_pages", 1024},
                                      {"tier1_pages", 256},
                                      {"cpu_time_s", 0.75}}));
  EXPECT_EQ(json["tiers"][0], Json({{"tier", 1},
                                    {"latency_gap_ns", nullptr},
                                    {"latency_gap_basis", nullptr},
                                    {"nodes", {0, 2}},
                                    {"capacity_pages", 512},
                                    {"used_pages", 256},
                                    {"free_pages", 128}}));
  EXPECT_EQ(json["sources"][0]["duty_cycle"], 0.25);
  EXPECT_EQ(json["sources"][0]["state"], "active");
  EXPECT_EQ(json["sources"][0]["samples_of"], "time");
  EXPECT_TRUE(json["sources"][0]["accesses_per_sample"].is_null());
  EXPECT_EQ(json["sources"][0]["lost"], 3);
  EXPECT_EQ(json["sources"][0]["lost_total"], 30);
  EXPECT_EQ(json["tiers"][1]["latency_gap_ns"], 170);
  EXPECT_EQ(json["tiers"][1]["latency_gap_basis"], "firmware");
  EXPECT_EQ(json["promotion_savings"],
            Json({{"promotions", 90}, {"predicted_s", 2.0}, {"realised_s", 1.5}}));
  EXPECT_EQ(json["decision"]["predicted_saved_s_per_s"], 0.0625);
  EXPECT_EQ(json["decision"]["moves"], 5);
  EXPECT_EQ(json["decision"]["not_moved"]["bound"], 1);
  EXPECT_EQ(json["decision"]["not_moved"]["binding_unknown"], 7);
  EXPECT_EQ(json["decision"]["not_moved"]["shared"], 9);
  EXPECT_EQ(json["decision"]["not_moved"]["mapped_elsewhere"], 10);
  EXPECT_EQ(json["decision"]["not_moved"]["backoff"], 8);
  EXPECT_EQ(json["decision"]["not_moved"]["over_quota"], 5);
  EXPECT_EQ(json["totals"]["moved"][0],
            Json({{"from_tier", 1}, {"to_tier", 2}, {"reason", "room"}, {"pages", 80}}));
  EXPECT_EQ(json["totals"]["failures"][0], Json({{"errno", "EBUSY"}, {"moves", 4}}));
  EXPECT_EQ(json["totals"]["ping_pong_moves"], 2);
  EXPECT_EQ(json["pending_moves"], 11);
  EXPECT_EQ(json["own_cpu_time_s"], 12.5);
  EXPECT_EQ(json["tier1_hit_ratio"], 0.875);
  EXPECT_EQ(json["tier1_hit_ratio_of"], "accesses to memory");
  EXPECT_EQ(json["ranked_by"], "memory");
  EXPECT_EQ(json["rank_weight"], "memory");
  EXPECT_EQ(json["warnings"], Json({"reclaim is at work on node 0"}));
  EXPECT_TRUE(json["refusal"].is_null());
}

TEST(StatusAsText, SaysWhyWhatWasConfiguredLastIsNotInForce) {
  DaemonStatus status = FullStatus();
  status.refusal = "cannot bind; goes on";
  EXPECT_THAT(AsText(ReadingOf(status)), HasSubstr("refused: cannot bind; goes on\n"));
  EXPECT_EQ(AsJson(ReadingOf(status))["refusal"], "cannot bind; goes on");
}

TEST(StatusAsJson, SaysNullOfWhatIsUnknown) {
  DaemonStatus status = FullStatus();
  status.targets[0].tracked.reset();
  status.targets[0].cpu_time.reset();
  status.sources[0].lost_total.reset();
  status.tier1_hit_ratio.reset();
  status.ranked_by.reset();
  status.decision.reset();
  status.savings = {};
  status.epoch.reset();
  status.config_file.clear();
  const Json json = AsJson(ReadingOf(status));
  EXPECT_TRUE(json["targets"][0]["tracked_pages"].is_null());
  EXPECT_TRUE(json["targets"][0]["cpu_time_s"].is_null());
  EXPECT_TRUE(json["tiers"][1]["capacity_pages"].is_null());
  EXPECT_TRUE(json["tiers"][1]["free_pages"].is_null());
  EXPECT_TRUE(json["promotion_savings"]["realised_s"].is_null());
  EXPECT_TRUE(json["sources"][0]["lost_total"].is_null());
  for (const char* name : {"tier1_hit_ratio", "tier1_hit_ratio_of", "ranked_by", "rank_weight",
                           "decision", "epoch", "config_file"}) {
    EXPECT_TRUE(json[name].is_null()) << name;
  }
}

TEST(StatusAsText, SaysItForPeople) {
  const std::string text = AsText(ReadingOf(FullStatus()));
  for (const char* part :
       {"ranked by memory\n",
        "170 ns (firmware)",
        "saved by 90 promotions in their first 10 s: 2 s of memory time as predicted, 1.5 s by "
        "later evidence\n",
        "tmprofd 1.2.3: running, up 1d 01:01:01, as of 0.3 s ago",
        "warning: reclaim is at work on node 0",
        "configuration: /etc/tmprofd.textproto",
        "epochs: 8; the last: number 7, of 1.5 s",
        "own CPU time: 12.5 s",
        "accesses to memory that hit tier 1, estimated: 87.5 %",
        "2 MiB",
        "no limit",
        "clock",
        "half-blind",
        "4711",
        "redis-server",
        "4 MiB",
        "12 pages wanted in tier 1, 5 moves",
        "1 bound, 7 binding unknown, 9 shared, 10 mapped elsewhere, 8 backoff,",
        "3 without gain",
        "80 from tier 1 to 2 (room), 90 from tier 2 to 1 (wanted)\n",
        "4 EBUSY\n",
        "moves that undid another: 2; pending: 11"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("dry run")));
}

TEST(StatusAsText, SaysUnknownOfWhatIsUnknown) {
  const std::string text = AsText(ReadingOf(NewStatus()));
  for (const char* part :
       {"configuration: defaults", "epochs: none is over yet",
        "accesses that hit tier 1, estimated: unknown", "no targets", "last decision: none yet",
        "pages moved since the start: none\n", "failed: none\n"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(StatusSummary, IsALine) {
  EXPECT_EQ(Summary(NewStatus()),
            "running: 0 targets, unknown of the accesses hit tier 1 by estimate, 0 pages moved");
  EXPECT_THAT(Summary(FullStatus()),
              HasSubstr("running: 1 target, 87.5 % of the accesses to memory hit tier 1 by "
                        "estimate, "));
}

TEST(StatusAsText, LetsNoNameActOnTheTerminal) {
  DaemonStatus status = FullStatus();
  status.targets[0].name = "\x1b[2J\n";
  status.sources[0].last_epoch.note = "\x1b[2J";
  status.warnings = {"\x1b[2J"};
  EXPECT_THAT(AsText(ReadingOf(status)), Not(HasSubstr("\x1b")));
}

}  // namespace daemon_status_test
}  // namespace tmprof::test
