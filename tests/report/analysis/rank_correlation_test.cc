// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/rank_correlation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <optional>
#include <random>
#include <vector>

namespace tmprof {
namespace rank_correlation_test {

TEST(Correlate, IsOneForTheSameOrderAndMinusOneForItsReverse) {
  const auto same = Correlate({{1, 10, 1}, {2, 20, 1}, {30, 21, 1}});
  ASSERT_TRUE(same.has_value());
  EXPECT_DOUBLE_EQ(same->spearman_rho, 1);
  EXPECT_DOUBLE_EQ(same->kendall_tau_b, 1);
  const auto reverse = Correlate({{1, 3, 1}, {2, 2, 1}, {3, 1, 1}});
  ASSERT_TRUE(reverse.has_value());
  EXPECT_DOUBLE_EQ(reverse->spearman_rho, -1);
  EXPECT_DOUBLE_EQ(reverse->kendall_tau_b, -1);
}

// Neighbours swapped: rho = 1 - 6 * (1 + 1) / (4 * 15), and 5 pairs agree where 1 does not.
TEST(Correlate, CountsOneSwap) {
  const auto correlation = Correlate({{1, 1, 1}, {2, 2, 1}, {3, 4, 1}, {4, 3, 1}});
  ASSERT_TRUE(correlation.has_value());
  EXPECT_DOUBLE_EQ(correlation->spearman_rho, 0.8);
  EXPECT_DOUBLE_EQ(correlation->kendall_tau_b, 4.0 / 6);
}

// Ranks of truth 4 2.5 2.5 1 and of score 4 1.5 3 1.5; off their mean 2.5: 1.5 0 0 -1.5 and
// 1.5 -1 0.5 -1, so that rho = 3.75 / sqrt(4.5 * 4.5). 4 of the 6 pairs agree; one ties in truth
// and another in score: tau-b = 4 / sqrt(5 * 5).
TEST(Correlate, GivesTiesTheirMeanRankAndLeavesThemOutOfThePairs) {
  const auto correlation = Correlate({{8, 3, 1}, {4, 0, 1}, {4, 2, 1}, {2, 0, 1}});
  ASSERT_TRUE(correlation.has_value());
  EXPECT_DOUBLE_EQ(correlation->spearman_rho, 3.75 / 4.5);
  EXPECT_DOUBLE_EQ(correlation->kendall_tau_b, 0.8);
}

TEST(Correlate, IsUnknownWhereEitherOrderHasNothingButTies) {
  EXPECT_FALSE(Correlate({}).has_value());
  EXPECT_FALSE(Correlate({{1, 1, 1}}).has_value());
  EXPECT_FALSE(Correlate({{1, 0, 1}, {2, 0, 5}}).has_value());
  EXPECT_FALSE(Correlate({{7, 1, 1}, {7, 2, 1}}).has_value());
}

// Follows the definitions, over all pairs of pages.
RankCorrelation Naive(const std::vector<ScoredPages>& entries) {
  std::vector<ScoredPages> pages;
  for (const ScoredPages& entry : entries) {
    for (double i = 0; i < entry.pages; ++i) pages.push_back(entry);
  }
  const auto sign = [](double a, double b) { return (a > b) - (a < b); };
  double net = 0;
  double untied_truth = 0;
  double untied_score = 0;
  std::vector<double> truth_rank(pages.size());
  std::vector<double> score_rank(pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    for (std::size_t j = 0; j < pages.size(); ++j) {
      const int truth = sign(pages[i].truth, pages[j].truth);
      const int score = sign(pages[i].score, pages[j].score);
      truth_rank[i] += truth / 2.0;  // off the mean rank: those below less those above, halved
      score_rank[i] += score / 2.0;
      net += truth * score;
      untied_truth += truth * truth;
      untied_score += score * score;
    }
  }
  double both = 0;
  double of_truth = 0;
  double of_score = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    both += truth_rank[i] * score_rank[i];
    of_truth += truth_rank[i] * truth_rank[i];
    of_score += score_rank[i] * score_rank[i];
  }
  return {.spearman_rho = both / std::sqrt(of_truth * of_score),
          .kendall_tau_b = net / std::sqrt(untied_truth * untied_score)};
}

TEST(Correlate, IsWhatTheDefinitionsGivePagePairByPagePair) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<ScoredPages> entries(2 + random() % 30);
    for (ScoredPages& entry : entries) {
      entry.truth = static_cast<double>(random() % 9);
      entry.score = static_cast<double>(random() % 7) + (random() % 2 == 0 ? entry.truth : 0);
      entry.pages = static_cast<double>(1 + random() % 4);
    }
    entries[0].truth = 100;  // not all alike
    entries[0].score = 100;
    const auto correlation = Correlate(entries);
    ASSERT_TRUE(correlation.has_value());
    const RankCorrelation naive = Naive(entries);
    EXPECT_NEAR(correlation->spearman_rho, naive.spearman_rho, 1e-12) << round;
    EXPECT_NEAR(correlation->kendall_tau_b, naive.kendall_tau_b, 1e-12) << round;
  }
}

}  // namespace rank_correlation_test
}  // namespace tmprof
