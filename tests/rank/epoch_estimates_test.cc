// SPDX-License-Identifier: Apache-2.0

#include "rank/epoch_estimates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/rank/profiles.h"

namespace tmprof {
namespace epoch_estimates_test {

using std::chrono::milliseconds;

struct Sums {
  std::vector<double> of_epochs;
  double of_trace = 0;
};

double Total(const Scores& scores) { return std::accumulate(scores.begin(), scores.end(), 0.0); }

Sums SumsOf(const std::vector<EpochProfile>& epochs, RankModel model, RankSource source) {
  TotalRanker ranker(model);
  for (const EpochProfile& epoch : epochs) ranker.Absorb(epoch);
  EpochEstimates estimates(ranker, source);
  Sums sums{.of_epochs = {}, .of_trace = Total(ranker.Score(source))};
  for (const EpochProfile& epoch : epochs) {
    estimates.See(epoch);
    sums.of_epochs.push_back(Total(estimates.estimates().score));
  }
  return sums;
}

// Every fourth of 200 pages is visited in an epoch. Those from 100 on are hot in the first half.
std::vector<EpochProfile> Shift(std::uint64_t epochs) {
  std::vector<EpochProfile> shift;
  for (std::uint64_t e = 0; e < epochs; ++e) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = e % 4; vpn < 200; vpn += 4) {
      const bool hot = vpn >= 100 && e < epochs / 2;
      records.push_back(Visited(vpn, 3, milliseconds(hot ? 3 : 300)));
    }
    shift.push_back(Epoch(e, records));
  }
  return shift;
}

TEST(EpochEstimates, AddUpToTheEstimatesOfTheWholeTrace) {
  for (const std::uint64_t epochs : {1, 8, 40, 100}) {
    const Sums sums = SumsOf(Shift(epochs), RankModel::kRate, RankSource::kCombined);
    EXPECT_GT(sums.of_trace, 0);
    EXPECT_NEAR(Total(sums.of_epochs), sums.of_trace, sums.of_trace * 1e-6) << epochs;
  }
}

// 100 pages of 1000 accesses a second and 100 of 10, then 200 of 10.
TEST(EpochEstimates, FollowAProgramThatChangesThoughOnlyAFourthIsVisited) {
  const Sums sums = SumsOf(Shift(40), RankModel::kRate, RankSource::kCombined);
  EXPECT_NEAR(sums.of_epochs[5], 101'000, 30'000);
  EXPECT_NEAR(sums.of_epochs[35], 2'000, 1'500);
}

TEST(EpochEstimates, ShareOutByCpuTimeWhatIsSteady) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 8; ++e) {
    epochs.push_back(Epoch(e, {Visited(1, 3, milliseconds(30)), Visited(2, 3, milliseconds(300))}));
    Target target;
    target.cpu_time = milliseconds(e < 4 ? 900 : 100);
    epochs.back().targets = {target};
  }
  const Sums sums = SumsOf(epochs, RankModel::kRate, RankSource::kCombined);
  EXPECT_NEAR(sums.of_epochs[0] / sums.of_epochs[7], 9, 0.1);
}

// Target `id` with the CPU time that it used in the epoch.
Target Used(std::uint32_t id, milliseconds cpu_time) {
  Target target;
  target.id = TargetId(id);
  target.cpu_time = cpu_time;
  return target;
}

const std::vector<std::uint32_t> kNone;
const std::vector<std::uint32_t> kFirst = {0};

// Expects a score in the rows of `active` targets alone, and that it is uncertain where it is 0.
void ExpectScoresOf(const EpochEstimates& estimates, const std::vector<std::uint32_t>& active) {
  const Estimates of_epoch = estimates.estimates();
  for (std::size_t row = 0; row < of_epoch.score.size(); ++row) {
    const std::uint32_t target = estimates.table().key[row].target.value();
    const bool has_score = std::ranges::find(active, target) != active.end();
    EXPECT_EQ(of_epoch.score[row] > 0, has_score) << row;
    EXPECT_EQ(std::isfinite(of_epoch.relative_sd[row]), has_score) << row;
  }
}

// Target 1 rests in epoch 1 and is not listed in epoch 2. Its pages have the same bits throughout,
// so that the four epochs are one step.
TEST(EpochEstimates, EstimatesOfATargetThatDoesNotRunAreZeroWithInfiniteError) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 4; ++e) {
    PageRecord other = Visited(1, 3, milliseconds(30));
    other.key = Key(1, 1);
    epochs.push_back(Epoch(e, {Visited(1, 3, milliseconds(30)), other}));
    epochs.back().targets = {Used(0, milliseconds(500))};
    if (e != 2) epochs.back().targets.push_back(Used(1, milliseconds(e == 1 ? 0 : 500)));
  }
  TotalRanker ranker(RankModel::kRate);
  for (const EpochProfile& epoch : epochs) ranker.Absorb(epoch);
  EXPECT_EQ(ranker.EstimateOverTime(RankSource::kCombined).size(), 1u);
  EpochEstimates estimates(ranker, RankSource::kCombined);
  const std::vector<std::vector<std::uint32_t>> active = {{0, 1}, {0}, {0}, {0, 1}};
  for (std::size_t e = 0; e < 4; ++e) {
    SCOPED_TRACE(e);
    estimates.See(epochs[e]);
    ExpectScoresOf(estimates, active[e]);
  }
}

// The whole program rests in every other epoch, also within the steps of rates that change.
TEST(EpochEstimates, EstimatesOfAnIdleEpochInsideAStepAreZeroWithInfiniteError) {
  std::vector<EpochProfile> epochs = Shift(100);
  for (std::size_t e = 0; e < epochs.size(); ++e) {
    epochs[e].targets = {Used(0, milliseconds(e % 2 == 0 ? 900 : 0))};
  }
  TotalRanker ranker(RankModel::kRate);
  for (const EpochProfile& epoch : epochs) ranker.Absorb(epoch);
  EXPECT_THAT(ranker.EstimateOverTime(RankSource::kCombined).size(),
              testing::AllOf(testing::Gt(1u), testing::Lt(51u)));
  EpochEstimates estimates(ranker, RankSource::kCombined);
  for (std::size_t e = 0; e < epochs.size(); ++e) {
    SCOPED_TRACE(e);
    estimates.See(epochs[e]);
    ExpectScoresOf(estimates, e % 2 == 0 ? kFirst : kNone);
  }
}

// A region of 20 pages that was cut for the samples of its page 7. It cools down at half time.
TEST(EpochEstimates, EstimatesOfACutRegionAddUpAndHaveInfiniteErrorIfZero) {
  std::vector<EpochProfile> epochs;
  for (std::uint64_t e = 0; e < 32; ++e) {
    std::vector<PageRecord> parts;
    for (const auto& [vpn, span] : {std::pair(0, 7), {7, 1}, {8, 12}}) {
      parts.push_back(Visited(static_cast<std::uint64_t>(vpn), e < 16 ? 40 : 1, milliseconds(100),
                              span == 1 ? 2 : 0));
      parts.back().span = PageCount(static_cast<std::uint64_t>(span));
    }
    epochs.push_back(Epoch(e, parts));
    epochs.back().targets = {Used(0, milliseconds(e % 4 == 3 ? 0 : 900))};
  }
  TotalRanker ranker(RankModel::kRate);
  for (const EpochProfile& epoch : epochs) ranker.Absorb(epoch);
  ASSERT_TRUE(ranker.evidence().is_parted());
  EXPECT_GT(ranker.EstimateOverTime(RankSource::kCombined).size(), 1u);
  EpochEstimates estimates(ranker, RankSource::kCombined);
  std::vector<double> sums(ranker.table().size());
  for (std::size_t e = 0; e < epochs.size(); ++e) {
    SCOPED_TRACE(e);
    estimates.See(epochs[e]);
    ExpectScoresOf(estimates, e % 4 == 3 ? kNone : kFirst);
    const Scores scores = estimates.estimates().score;
    for (std::size_t row = 0; row < sums.size(); ++row) sums[row] += scores[row];
  }
  const Scores whole = ranker.Score(RankSource::kCombined);
  for (std::size_t row = 0; row < sums.size(); ++row) {
    EXPECT_NEAR(sums[row], whole[row], 1e-5 * whole[row]) << row;
  }
}

TEST(EpochEstimates, AreTheEpochsOwnCountsWhereTheseAreTheScore) {
  std::vector<EpochProfile> epochs = {Epoch(0, {Counts(1, 3, 1)}), Epoch(1, {Counts(2, 5, 0)})};
  EXPECT_THAT(SumsOf(epochs, RankModel::kSum, RankSource::kCombined).of_epochs,
              testing::ElementsAre(4, 5));
  epochs[1].pages.accesses = {.loads = {7}, .stores = {2}};
  EXPECT_THAT(SumsOf(epochs, RankModel::kRate, RankSource::kTruth).of_epochs,
              testing::ElementsAre(0, 9));
}

}  // namespace epoch_estimates_test
}  // namespace tmprof
