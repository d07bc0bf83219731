// SPDX-License-Identifier: Apache-2.0
// Pages that become hot or cold while others stay as they are, looked at by a ladder.

#include "rank/rate_change.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "rank/rank_model.h"

namespace tmprof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint64_t kPages = 256;
constexpr std::uint64_t kHotPages = 16;  // the first ones
constexpr std::uint64_t kChanging = 200;

struct Look {
  std::uint64_t vpn;
  bool hot;
  std::uint64_t span = 1;
};

// One second of the target's CPU time. A hot page is accessed a millisecond after its clear, a cold
// one a second after it.
EpochProfile Epoch(int index, const std::vector<Look>& looks) {
  EpochProfile epoch;
  epoch.index = static_cast<std::uint64_t>(index);
  epoch.start = MonotonicTime(seconds(100 + index));
  epoch.end = epoch.start + seconds(1);
  Target target;
  target.id = TargetId(0);
  target.cpu_time = seconds(1);
  epoch.targets = {target};
  for (const Look& look : looks) {
    Append(epoch.pages,
           {.key = {TargetId(0), Vpn(look.vpn)},
            .span = PageCount(look.span),
            .looks = 1,
            .references = 1,
            .first_accesses = 1,
            .time_at_risk = LogDuration::FromNanoseconds(look.hot ? milliseconds(1) : seconds(1))});
  }
  return epoch;
}

std::vector<Look> All(bool changing_is_hot) {
  std::vector<Look> looks;
  for (std::uint64_t vpn = 0; vpn < kPages; ++vpn) {
    looks.push_back({.vpn = vpn, .hot = vpn < kHotPages || (vpn == kChanging && changing_is_hot)});
  }
  return looks;
}

class RankerWithChanges : public testing::Test {
 protected:
  void Absorb(const std::vector<Look>& looks) { ranker_.Absorb(Epoch(epoch_++, looks)); }
  void Absorb(const std::vector<Look>& looks, int epochs) {
    for (int i = 0; i < epochs; ++i) Absorb(looks);
  }
  double ScoreOf(std::uint64_t vpn) const {
    const auto& keys = ranker_.table().key;
    const auto row = std::ranges::find(keys, PageKey{TargetId(0), Vpn(vpn)}) - keys.begin();
    return ranker_.Score(RankSource::kReferences)[static_cast<std::size_t>(row)];
  }

  Ranker ranker_{Ranker::DefaultOptions(RankModel::kRate)};

 private:
  int epoch_ = 0;
};

TEST_F(RankerWithChanges, SeesAPageThatBecomesHotInTwoVisits) {
  Absorb(All(false), 8);
  EXPECT_LT(ScoreOf(kChanging), 0.02 * ScoreOf(0));
  Absorb(All(true), 2);
  EXPECT_GT(ScoreOf(kChanging), 0.5 * ScoreOf(0));
}

TEST_F(RankerWithChanges, SeesAPageThatBecomesColdInTwoVisits) {
  Absorb(All(true), 8);
  EXPECT_GT(ScoreOf(kChanging), 0.9 * ScoreOf(0));
  Absorb(All(false), 2);
  EXPECT_LT(ScoreOf(kChanging), 0.02 * ScoreOf(0));
}

TEST_F(RankerWithChanges, DoesNotTakeOneQuickAccessForAChange) {
  Absorb(All(false), 8);
  Absorb(All(true));
  Absorb(All(false), 2);
  EXPECT_LT(ScoreOf(kChanging), 0.02 * ScoreOf(0));
}

// Evidence of one visit waits for the next one, however many epochs later it is made.
TEST_F(RankerWithChanges, RemembersASuspicionWhileThePageIsNotVisited) {
  std::vector<Look> others = All(false);
  std::erase_if(others, [](const Look& look) { return look.vpn == kChanging; });
  Absorb(All(false), 8);
  Absorb(All(true));
  Absorb(others, 3);
  Absorb(All(true));
  EXPECT_GT(ScoreOf(kChanging), 0.5 * ScoreOf(0));
}

TEST_F(RankerWithChanges, LeavesAloneWhatDoesNotChange) {
  Absorb(All(false), 8);
  const std::pair<double, double> before{ScoreOf(0), ScoreOf(100)};
  Absorb(All(true), 4);
  EXPECT_NEAR(ScoreOf(0), before.first, 0.1 * before.first);
  EXPECT_NEAR(ScoreOf(100), before.second, 0.1 * before.second);
}

class RateChangesTest : public testing::Test {
 protected:
  void AbsorbEpochs(const EpochProfile& older, const EpochProfile& newer) {
    EvidenceTable older_table;
    EvidenceTable newer_table;
    TakeEvidence(older, older_table);
    TakeEvidence(newer, newer_table);
    EvidenceTable apart;
    Join(older_table, {}, newer_table, joined_, apart);
    changes_.Absorb(older_table, 1, newer_table, 1.0 / 60, joined_);
  }
  void Absorb(const std::vector<Look>& older, const std::vector<Look>& newer) {
    AbsorbEpochs(Epoch(0, older), Epoch(1, newer));
  }
  bool Suspects(std::uint64_t vpn) const {
    return std::ranges::count(changes_.suspected().since.key, PageKey{TargetId(0), Vpn(vpn)}) == 1;
  }

  RateChanges changes_;
  EvidenceTable joined_;
};

TEST_F(RateChangesTest, SuspectsWhatContradictsOlderEvidence) {
  Absorb(All(false), All(true));
  EXPECT_TRUE(Suspects(kChanging));
  EXPECT_FALSE(Suspects(0));
  ASSERT_EQ(changes_.suspected().since.size(), changes_.suspected().chance.size());
  for (const float chance : changes_.suspected().chance) {
    EXPECT_GT(chance, 0);
    EXPECT_LT(chance, 1);
  }
}

TEST_F(RateChangesTest, AVisitThatAgreesAgainMakesTheChangeLessLikely) {
  Absorb(All(false), All(true));
  ASSERT_TRUE(Suspects(kChanging));
  const float once = changes_.suspected().chance[0];
  Absorb(All(false), All(false));
  ASSERT_TRUE(Suspects(kChanging));
  EXPECT_LT(changes_.suspected().chance[0], once);
}

TEST_F(RateChangesTest, ForgetsTheBitsBeforeACertainChange) {
  EpochProfile sampled = Epoch(0, All(false));
  sampled.pages.load_samples[kChanging] = 7;
  AbsorbEpochs(sampled, Epoch(1, All(true)));
  EXPECT_NEAR(joined_.evidence[kChanging].page_seconds_at_risk, 1, 0.05);
  AbsorbEpochs(sampled, Epoch(1, All(true)));
  EXPECT_FALSE(Suspects(kChanging));
  EXPECT_NEAR(joined_.evidence[kChanging].page_seconds_at_risk, 0.002, 1e-4);
  EXPECT_EQ(joined_.evidence[kChanging].first_accesses, 2);
  EXPECT_EQ(joined_.evidence[kChanging].samples(), 7);
  EXPECT_NEAR(joined_.evidence[100].page_seconds_at_risk, 2, 0.1);
}

TEST_F(RateChangesTest, SaysNothingOfSpansWithOtherBoundsOrOfNewOnes) {
  Absorb({{.vpn = 0, .hot = false, .span = 512}},
         {{.vpn = 0, .hot = true}, {.vpn = 900, .hot = true}});
  EXPECT_TRUE(changes_.suspected().chance.empty());
  Absorb({}, {});
  EXPECT_TRUE(changes_.suspected().chance.empty());
}

TEST_F(RateChangesTest, SuspectsNoSpanThatIsNotThereAnyMore) {
  Absorb(All(false), All(true));
  ASSERT_TRUE(Suspects(kChanging));
  Absorb(All(false), {});
  EXPECT_TRUE(Suspects(kChanging));
  Absorb({{.vpn = kChanging, .hot = false, .span = 16}}, {});
  EXPECT_TRUE(changes_.suspected().chance.empty());
}

TEST_F(RateChangesTest, TakesNoSampleAndNoTruthForALook) {
  EpochProfile newer = Epoch(1, {});
  Append(newer.pages, {.key = {TargetId(0), Vpn(kChanging)}, .load_samples = 100});
  Append(newer.pages,
         {.key = {TargetId(0), Vpn(kChanging + 1)}, .accesses = AccessCounts{.loads = 1000}});
  AbsorbEpochs(Epoch(0, All(false)), newer);
  EXPECT_TRUE(changes_.suspected().chance.empty());
}

// Of a target that has exited, nothing is kept for ever, and nothing of it enters others' scores.
TEST_F(RankerWithChanges, ForgetsASuspectThatIsNeverVisitedAgain) {
  std::vector<Look> others = All(false);
  std::erase_if(others, [](const Look& look) { return look.vpn == kChanging; });
  Absorb(All(false), 8);
  Absorb(All(true));
  Absorb(others, 300);
  const double beside_a_suspect = ScoreOf(0);
  Ranker never_suspected{Ranker::DefaultOptions(RankModel::kRate)};
  for (int i = 0; i < 309; ++i) never_suspected.Absorb(Epoch(i, others));
  EXPECT_EQ(ranker_.table().size(), kPages - 1);
  EXPECT_NEAR(beside_a_suspect, never_suspected.Score(RankSource::kReferences)[0],
              1e-3 * beside_a_suspect);
}

}  // namespace
}  // namespace tmprof
