// SPDX-License-Identifier: Apache-2.0
// The promise of docs/trace-format.md: a ledger that version 1 wrote is read, today and by every
// later version, as exactly this. The file is from make_golden_ledger.cc and is not made again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/ledger_file.h"
#include "tests/folders.h"

namespace tmprof {
namespace golden_ledger_test {

using std::chrono::nanoseconds;
using testing::ElementsAre;

constexpr const char* kGolden = TMPROF_SOURCE_DIR "/tests/golden/v1.tmprof.ledger";

class GoldenLedger : public testing::Test {
 protected:
  LedgerEpoch Epoch(int number) {
    LedgerEpoch epoch;
    for (int i = 0; i <= number; ++i) EXPECT_TRUE(reader_.Next(epoch).value());
    return epoch;
  }

  LedgerReader reader_{LedgerReader::Open(kGolden).value()};
};

TEST_F(GoldenLedger, HeaderOfVersion1IsReadAsItWas) {
  const LedgerInfo& info = reader_.info();
  EXPECT_EQ(info.tool_version, "tmprof 0.1.0");
  EXPECT_EQ(info.kernel_release, "6.12.9");
  // 2026-01-01 00:00:00 UTC.
  EXPECT_EQ(info.wall_start.time_since_epoch(), nanoseconds(1'767'225'600'000'000'000));
  EXPECT_EQ(info.start.time_since_epoch(), nanoseconds(500'000'000'000));
  EXPECT_EQ(info.epoch_length, nanoseconds(1'000'000'000));
  ASSERT_EQ(info.tiers.size(), 2u);
  EXPECT_THAT(info.tiers.NodesOf(kTier1), ElementsAre(NodeId(0)));
  EXPECT_THAT(info.tiers.NodesOf(Tier(2)), ElementsAre(NodeId(1), NodeId(2)));
  EXPECT_EQ(info.rank_model, "sum");
  EXPECT_EQ(info.policy, "history");
  EXPECT_FALSE(info.dry_run);
  EXPECT_THAT(info.settings,
              ElementsAre(Setting{"capacity", "512 MiB"}, Setting{"hysteresis", "1.5"}));
  EXPECT_THAT(info.warnings, ElementsAre("numa_balancing is on"));
}

TEST_F(GoldenLedger, MovesOfVersion1AreReadAsTheyWere) {
  const LedgerEpoch epoch = Epoch(0);
  EXPECT_EQ(epoch.index, 0u);
  EXPECT_EQ(epoch.start.time_since_epoch(), nanoseconds(500'000'000'000));
  EXPECT_EQ(epoch.end.time_since_epoch(), nanoseconds(501'001'000'000));
  EXPECT_THAT(epoch.targets, ElementsAre(LedgerTarget{TargetId(0), Pid(1234), 49'000, "server",
                                                      "server --port 1"}));
  EXPECT_EQ(epoch.not_moved, (NotMoved{.bound = 1,
                                       .cooling = 2,
                                       .without_gain = 3,
                                       .without_room = 4,
                                       .over_quota = 5,
                                       .unplaced = 6}));
  EXPECT_EQ(epoch.replaced, 7u);
  EXPECT_TRUE(epoch.settled.empty());
  ASSERT_EQ(epoch.moves.size(), 302u);
  for (std::uint32_t i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    const MoveOutcome& outcome = epoch.moves[i];
    // A page is left out after each hundred.
    EXPECT_EQ(outcome.move.key, (PageKey{TargetId(0), Vpn(0x7f0000000 + i + i / 100)}));
    EXPECT_EQ(outcome.move.span, PageCount(1));
    EXPECT_EQ(outcome.move.from, i % 2 == 0 ? NodeId(1) : NodeId(2));
    EXPECT_EQ(outcome.move.to, NodeId(0));
    EXPECT_EQ(outcome.move.score, 150 - i / 2.0);
    EXPECT_EQ(outcome.move.reason, MoveReason::kWanted);
    EXPECT_EQ(outcome.error, 0);
    EXPECT_EQ(outcome.attempts, i % 3 == 0 ? 2u : 1u);
    EXPECT_EQ(outcome.latency, nanoseconds(1000 + 7 * i));
  }
  EXPECT_EQ(epoch.moves[300], (MoveOutcome{{{TargetId(0), Vpn(0x7effffe00)},
                                            PageCount(512),
                                            NodeId(1),
                                            NodeId(0),
                                            1e6,
                                            MoveReason::kWanted},
                                           0,
                                           1,
                                           nanoseconds(400'000)}));
  EXPECT_EQ(
      epoch.moves[301],
      (MoveOutcome{
          {{TargetId(0), Vpn(0x55600)}, PageCount(1), NodeId(2), NodeId(0), 3, MoveReason::kWanted},
          16,  // EBUSY
          3,
          nanoseconds(5'000'000)}));
}

TEST_F(GoldenLedger, DemotionsOfVersion1AreReadAsTheyWere) {
  const LedgerEpoch epoch = Epoch(1);
  EXPECT_EQ(epoch.index, 2u);
  EXPECT_THAT(epoch.targets,
              ElementsAre(LedgerTarget{TargetId(1), Pid(1235), 49'500, "caf\xe9", ""}));
  EXPECT_EQ(epoch.not_moved, NotMoved{});
  EXPECT_THAT(epoch.moves, ElementsAre(MoveOutcome{{{TargetId(0), Vpn(0x7f0000000)},
                                                    PageCount(1),
                                                    NodeId(0),
                                                    NodeId(1),
                                                    0,
                                                    MoveReason::kRoom},
                                                   0,
                                                   1,
                                                   nanoseconds(2000)},
                                       MoveOutcome{{{TargetId(1), Vpn(0)},
                                                    PageCount(1),
                                                    NodeId(0),
                                                    NodeId(2),
                                                    0.25,
                                                    MoveReason::kOverCapacity},
                                                   0,
                                                   1,
                                                   nanoseconds(2000)}));
}

TEST_F(GoldenLedger, SettledMovesOfVersion1AreReadAsTheyWere) {
  EXPECT_THAT(Epoch(1).settled, ElementsAre(SettledMove{{TargetId(0), Vpn(0x7f0000000)},
                                                        PageCount(1),
                                                        NodeId(1),
                                                        NodeId(0),
                                                        0,
                                                        SettledCause::kMoved,
                                                        0,
                                                        0,
                                                        0,
                                                        0}));
  EXPECT_THAT(Epoch(0).settled, ElementsAre(SettledMove{{TargetId(0), Vpn(0x7effffe00)},
                                                        PageCount(512),
                                                        NodeId(1),
                                                        NodeId(0),
                                                        0,
                                                        SettledCause::kForgotten,
                                                        2,
                                                        1,
                                                        40,
                                                        120.5},
                                            SettledMove{{TargetId(0), Vpn(0x7f0000001)},
                                                        PageCount(1),
                                                        NodeId(2),
                                                        NodeId(0),
                                                        0,
                                                        SettledCause::kEnd,
                                                        2,
                                                        2,
                                                        0,
                                                        0},
                                            SettledMove{{TargetId(1), Vpn(0)},
                                                        PageCount(1),
                                                        NodeId(0),
                                                        NodeId(2),
                                                        2,
                                                        SettledCause::kGone,
                                                        1,
                                                        1,
                                                        1,
                                                        1}));
  LedgerEpoch none;
  EXPECT_FALSE(reader_.Next(none).value());
  EXPECT_TRUE(reader_.finished());
}

}  // namespace golden_ledger_test
}  // namespace tmprof
