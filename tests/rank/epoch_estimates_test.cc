// SPDX-License-Identifier: Apache-2.0

#include "rank/epoch_estimates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
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

// Of 200 pages every fourth is visited in an epoch. Those from 100 on are hot in the first half.
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
