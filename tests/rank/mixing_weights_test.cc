// SPDX-License-Identifier: Apache-2.0

#include "rank/mixing_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace tmprof {
namespace mixing_weights_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;

class FitMixingWeightsTest : public testing::Test {
 protected:
  // A row whose likelihood is not 0 from `begin` on.
  void Observe(std::vector<double> likelihood, double observations = 1, std::size_t begin = 0) {
    columns_ = begin + likelihood.size();
    likelihood.insert(likelihood.begin(), begin, 0.0);
    likelihoods_.push_back(std::move(likelihood));
    rows_.push_back({nullptr, begin, columns_, observations});
  }
  std::vector<double> Fitted(const std::vector<double>& near = {}) {
    for (std::size_t k = 0; k < rows_.size(); ++k) rows_[k].likelihood = likelihoods_[k].data();
    return FitMixingWeights(rows_, columns_, near);
  }
  double LogLikelihood(const std::vector<double>& weights) const {
    double sum = 0;
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      double mass = 0;
      for (std::size_t j = 0; j < columns_; ++j) mass += weights[j] * likelihoods_[k][j];
      sum += rows_[k].observations * std::log(mass);
    }
    return sum;
  }
  // Slow and sure.
  std::vector<double> ByExpectationMaximisation(int steps) const {
    std::vector<double> weights(columns_, 1 / static_cast<double>(columns_));
    for (int step = 0; step < steps; ++step) {
      std::vector<double> next(columns_);
      double total = 0;
      for (std::size_t k = 0; k < rows_.size(); ++k) {
        double mass = 0;
        for (std::size_t j = 0; j < columns_; ++j) mass += weights[j] * likelihoods_[k][j];
        for (std::size_t j = 0; j < columns_; ++j) {
          next[j] += rows_[k].observations * weights[j] * likelihoods_[k][j] / mass;
        }
        total += rows_[k].observations;
      }
      for (std::size_t j = 0; j < columns_; ++j) weights[j] = next[j] / total;
    }
    return weights;
  }
  // Counts with these means, seen by candidates with means 2^(j/2 - 4).
  void ObserveCounts(const std::vector<double>& means, int of_each) {
    constexpr std::size_t kCandidates = 40;
    std::mt19937_64 random(7);
    for (const double mean : means) {
      std::poisson_distribution<int> count(mean);
      for (int i = 0; i < of_each; ++i) {
        const int seen = count(random);
        std::vector<double> likelihood;
        for (std::size_t j = 0; j < kCandidates; ++j) {
          const double candidate = std::exp2(static_cast<double>(j) / 2 - 4);
          likelihood.push_back(seen * std::log(candidate) - candidate);
        }
        const double best = std::ranges::max(likelihood);
        for (double& value : likelihood) value = std::exp(value - best);
        Observe(std::move(likelihood));
      }
    }
  }

  std::size_t columns_ = 0;
  std::vector<std::vector<double>> likelihoods_;
  std::vector<LikelihoodRow> rows_;
};

TEST_F(FitMixingWeightsTest, CountsWhatCanBeToldApart) {
  Observe({1, 0, 0}, 600);
  Observe({1}, 300, 2);
  EXPECT_THAT(Fitted(),
              ElementsAre(testing::DoubleNear(2.0 / 3, 1e-3), testing::DoubleNear(0, 1e-3),
                          testing::DoubleNear(1.0 / 3, 1e-3)));
}

TEST_F(FitMixingWeightsTest, OneCandidateHasAll) {
  Observe({0.5}, 3);
  EXPECT_THAT(Fitted(), ElementsAre(1.0));
}

TEST_F(FitMixingWeightsTest, CandidatesThatNothingTellsApartAreAsGoodAsOne) {
  ObserveCounts({0.1, 3, 40}, 200);
  const double best = LogLikelihood(ByExpectationMaximisation(5000));
  for (std::vector<double>& likelihood : likelihoods_) {
    const std::vector<double> once = likelihood;
    for (int copy = 0; copy < 2; ++copy) {
      likelihood.insert(likelihood.end(), once.begin(), once.end());
    }
  }
  columns_ *= 3;
  for (LikelihoodRow& row : rows_) row.end = columns_;
  const std::vector<double> weights = Fitted();
  EXPECT_THAT(weights, Each(Ge(0)));
  EXPECT_GE(LogLikelihood(weights), best - 0.5);
}

TEST_F(FitMixingWeightsTest, IsAsLikelyAsWhatIsSlowAndSure) {
  ObserveCounts({0.1, 3, 3, 40, 200}, 300);
  const std::vector<double> weights = Fitted();
  EXPECT_GE(LogLikelihood(weights), LogLikelihood(ByExpectationMaximisation(5000)) - 0.5);
  EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-9);
  EXPECT_THAT(weights, Each(Ge(0)));
}

TEST_F(FitMixingWeightsTest, TheStartDoesNotDecideTheResult) {
  ObserveCounts({0.1, 3, 3, 40, 200}, 300);
  const double best = LogLikelihood(ByExpectationMaximisation(5000));
  const std::vector<double> right = Fitted();
  std::vector<double> all_wrong(columns_, 0.0);
  all_wrong.front() = 1;
  const std::vector<double> of_the_first_ones(columns_ / 2, 2.0 / static_cast<double>(columns_));
  for (const std::vector<double>& near : {right, all_wrong, of_the_first_ones}) {
    const std::vector<double> weights = Fitted(near);
    EXPECT_GE(LogLikelihood(weights), best - 0.5);
    EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-9);
    EXPECT_THAT(weights, Each(Ge(0)));
  }
}

// A spread that is not there would be taken for hot pages among cold ones.
TEST_F(FitMixingWeightsTest, FindsNoSpreadAmongEquals) {
  constexpr std::size_t kMeanIs16 = 16;
  ObserveCounts({16}, 3000);
  const std::vector<double> weights = Fitted();
  EXPECT_GT(weights[kMeanIs16 - 1] + weights[kMeanIs16] + weights[kMeanIs16 + 1], 0.98);
  EXPECT_GT(weights[kMeanIs16], 0.9);
}

TEST_F(FitMixingWeightsTest, NoCandidateIsLeftThatOnlyChanceSpeaksFor) {
  ObserveCounts({16}, 3000);
  const std::vector<double> fitted = Fitted();
  const std::vector<double> weights = WithoutChance(rows_, fitted);
  EXPECT_GT(std::ranges::count_if(fitted, [](double weight) { return weight > 0; }), 1);
  EXPECT_EQ(std::ranges::count_if(weights, [](double weight) { return weight > 0; }), 1);
  EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-9);
}

TEST_F(FitMixingWeightsTest, TheOnlyCandidateIsNoChance) {
  Observe({0.5}, 3);
  EXPECT_THAT(WithoutChance(rows_, Fitted()), ElementsAre(1.0));
}

TEST_F(FitMixingWeightsTest, RoundingErrorsOfOthersDoNotCostTheCandidateThatHasAll) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> likelihood(0, 1);
  for (int fit = 0; fit < 100; ++fit) {
    likelihoods_.clear();
    rows_.clear();
    for (int row = 0; row < 5; ++row)
      Observe({likelihood(random), 1e-3 * likelihood(random), 1e-3 * likelihood(random)});
    for (std::size_t k = 0; k < rows_.size(); ++k) rows_[k].likelihood = likelihoods_[k].data();
    EXPECT_THAT(WithoutChance(rows_, {0.99, 0.007, 0.003}),
                ElementsAre(testing::DoubleNear(1, 1e-9), 0, 0));
  }
}

TEST_F(FitMixingWeightsTest, OutliersAreKept) {
  ObserveCounts({16}, 3000);
  ObserveCounts({8000}, 3);
  const std::vector<double> weights = WithoutChance(rows_, Fitted());
  EXPECT_NEAR(std::accumulate(weights.begin() + 30, weights.end(), 0.0), 0.001, 1e-5);
}

}  // namespace mixing_weights_test
}  // namespace tmprof
