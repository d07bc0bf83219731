// SPDX-License-Identifier: Apache-2.0

#include "rank/mixing_weights.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tmprof {
namespace {

// Smallest difference of the log-likelihood of all observations that counts.
constexpr double kNothingGained = 0.5;
// Some ten iterations are usual.
constexpr int kMostIterations = 60;
// Part of a quadratic's diagonal that is added to it, because no observation may tell some
// candidates apart.
constexpr double kRidge = 1e-9;
// Smaller relative differences are rounding.
constexpr double kRounding = 1e-9;
// Each fourth candidate of a smooth family is near enough to any other to find where to go, and the
// curvature of a fourth of them costs a sixteenth.
constexpr std::size_t kFirstTried = 4;
// Gain of the log-likelihood that a candidate needs to be believed in. Chance alone gives as much
// once in e^kLeastEvidence fits.
constexpr double kLeastEvidence = 5;
// The first steps are by expectation. Far from the right weights these gain about as much as
// Newton's, and need no curvature.
constexpr int kFirstByExpectation = 4;
// A weight as small as this could not be seen, and is not ruled out either.
constexpr double kHardlyAny = 1e-6;
// A step that must be shorter gains less than one by expectation.
constexpr double kShortestStep = 1.0 / 64;
// Most of a row's mass that one step may take: Newton's method only doubles a mass that is far too
// small.
constexpr double kMostLost = 0.9;
// Least part of the gain that the slope promises. A step that gains less has gone too far (Armijo).
constexpr double kLeastGain = 0.1;

double Dot(const double* a, const double* b, std::size_t begin, std::size_t end) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::size_t j = begin; j < end; ++j) sum += a[j] * b[j];
  return sum;
}

// `sum` += factor * a
void AddTimes(double factor, const double* a, std::size_t begin, std::size_t end, double* sum) {
#pragma omp simd
  for (std::size_t j = begin; j < end; ++j) sum[j] += factor * a[j];
}

// Minimises v'Hv/2 - b'v over v >= 0; Lawson and Hanson, "Solving least squares problems", 1974.
class NonNegativeQuadratic {
 public:
  // `h` is symmetric, row-major, and positive semidefinite.
  NonNegativeQuadratic(std::vector<double> h, std::vector<double> b)
      : n_(b.size()), h_(std::move(h)), b_(std::move(b)), v_(n_, 0.0) {
    for (std::size_t i = 0; i < n_; ++i) h_[i * n_ + i] *= 1 + kRidge;
  }

  std::vector<double> Minimise() && {
    for (std::size_t step = 0; step < 3 * n_; ++step) {
      const std::size_t steepest = Steepest();
      if (steepest == n_) break;
      positive_.push_back(steepest);
      SolveForPositive();
      // Only rounding leads here.
      if (v_[steepest] == 0) useless_.push_back(steepest);
    }
    return std::move(v_);
  }

 private:
  // Returns the one of those at 0 that gains the most; n_: none gains.
  std::size_t Steepest() const {
    std::size_t steepest = n_;
    double most = 0;
    for (std::size_t i = 0; i < n_; ++i) {
      if (std::ranges::count(positive_, i) > 0 || std::ranges::count(useless_, i) > 0) continue;
      const double slope = b_[i] - Dot(&h_[i * n_], v_.data(), 0, n_);
      if (slope > std::max(most, kRounding * std::abs(b_[i]))) {
        most = slope;
        steepest = i;
      }
    }
    return steepest;
  }

  void SolveForPositive() {
    while (!positive_.empty()) {
      const std::vector<double> there = Solution();
      double share = 1;
      for (std::size_t i = 0; i < positive_.size(); ++i) {
        const double here = v_[positive_[i]];
        if (there[i] <= 0) share = std::min(share, here > 0 ? here / (here - there[i]) : 0);
      }
      for (std::size_t i = 0; i < positive_.size(); ++i) {
        double& v = v_[positive_[i]];
        v += share * (there[i] - v);
        if (there[i] <= 0 && v <= kRounding) v = 0;
      }
      if (share == 1) return;
      std::erase_if(positive_, [this](std::size_t i) { return v_[i] == 0; });
    }
  }

  // Solves H v = b among those that are positive, by Cholesky decomposition.
  std::vector<double> Solution() const {
    const std::size_t m = positive_.size();
    std::vector<double> lower(m * m);
    std::vector<double> x(m);
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j <= i; ++j) {
        const double rest =
            h_[positive_[i] * n_ + positive_[j]] - Dot(&lower[i * m], &lower[j * m], 0, j);
        lower[i * m + j] = i == j
                               ? std::sqrt(std::max(rest, kRounding * h_[positive_[i] * (n_ + 1)]))
                               : rest / lower[j * m + j];
      }
      x[i] = (b_[positive_[i]] - Dot(&lower[i * m], x.data(), 0, i)) / lower[i * m + i];
    }
    for (std::size_t i = m; i-- > 0;) {
      x[i] /= lower[i * m + i];
      for (std::size_t j = 0; j < i; ++j) x[j] -= lower[i * m + j] * x[i];
    }
    return x;
  }

  std::size_t n_;
  std::vector<double> h_;
  std::vector<double> b_;
  std::vector<double> v_;
  std::vector<std::size_t> positive_;
  std::vector<std::size_t> useless_;
};

// Starts from `near`, or from a few candidates. The others come in when they prove to be needed,
// and none is ruled out.
std::vector<double> StartOf(std::size_t candidates, std::span<const double> near) {
  std::vector<double> weights(candidates, kHardlyAny);
  for (std::size_t j = 0; j < std::min(candidates, near.size()); ++j) {
    weights[j] = std::max(near[j], kHardlyAny);
  }
  if (near.empty()) {
    for (std::size_t j = 0; j < candidates; j += kFirstTried) weights[j] = 1;
  }
  const double total = std::reduce(weights.begin(), weights.end());
  for (double& weight : weights) weight /= total;
  return weights;
}

class Fit {
 public:
  Fit(std::span<const LikelihoodRow> rows, std::size_t candidates, std::span<const double> near)
      : rows_(rows),
        first_by_expectation_(near.empty() ? kFirstByExpectation : 0),
        weights_(StartOf(candidates, near)),
        slope_(candidates),
        mass_(rows.size()) {
    for (const LikelihoodRow& row : rows) observations_ += row.observations;
  }

  std::vector<double> Take() && {
    for (int step = 0; step < kMostIterations; ++step) {
      FindSlopes();
      // Lindsay, "The geometry of mixture likelihoods", Annals of Statistics 11, 1983: no weights
      // gain more than the steepest slope.
      if (std::ranges::max(slope_) - observations_ < kNothingGained) break;
      if (step < first_by_expectation_ || !StepByNewton()) StepByExpectation();
    }
    return std::move(weights_);
  }

 private:
  // Finds the slope of the log-likelihood for each candidate's weight.
  void FindSlopes() {
    std::ranges::fill(slope_, 0.0);
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const LikelihoodRow& row = rows_[k];
      mass_[k] = Mass(row, weights_);
      AddTimes(row.observations / mass_[k], row.likelihood, row.begin, row.end, slope_.data());
    }
  }

  void StepByExpectation() {
    for (std::size_t j = 0; j < weights_.size(); ++j) weights_[j] *= slope_[j] / observations_;
  }

  // Returns candidates that have a weight, and those where one would gain the most.
  std::vector<std::size_t> Promising() const {
    std::vector<std::size_t> promising;
    const std::size_t n = weights_.size();
    for (std::size_t j = 0; j < n; ++j) {
      const bool peak = slope_[j] > observations_ && (j == 0 || slope_[j] >= slope_[j - 1]) &&
                        (j + 1 == n || slope_[j] > slope_[j + 1]);
      if (weights_[j] > kHardlyAny || peak) promising.push_back(j);
    }
    return promising;
  }

  std::vector<double> Curvature(const std::vector<std::size_t>& of) const {
    const std::size_t n = of.size();
    std::vector<double> curvature(n * n);
    std::vector<double> gathered(n);
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const LikelihoodRow& row = rows_[k];
      const auto begin =
          static_cast<std::size_t>(std::ranges::lower_bound(of, row.begin) - of.begin());
      const auto end = static_cast<std::size_t>(std::ranges::lower_bound(of, row.end) - of.begin());
      for (std::size_t i = begin; i < end; ++i) gathered[i] = row.likelihood[of[i]];
      const double factor = row.observations / (mass_[k] * mass_[k]);
      for (std::size_t i = begin; i < end; ++i) {
        AddTimes(factor * gathered[i], gathered.data(), begin, i + 1, &curvature[i * n]);
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < i; ++j) curvature[j * n + i] = curvature[i * n + j];
    }
    return curvature;
  }

  bool StepByNewton() {
    const std::vector<std::size_t> of = Promising();
    std::vector<double> b(of.size());
    std::ranges::transform(of, b.begin(),
                           [this](std::size_t j) { return 2 * slope_[j] - observations_; });
    const std::vector<double> best = NonNegativeQuadratic(Curvature(of), std::move(b)).Minimise();
    const double total = std::reduce(best.begin(), best.end());
    if (!(total > 0) || !std::isfinite(total)) return false;
    std::vector<double> there(weights_.size());
    for (std::size_t i = 0; i < of.size(); ++i) there[of[i]] = best[i] / total;
    const double share = ShareOfTheWay(there);
    if (share == 0) return false;
    for (std::size_t j = 0; j < weights_.size(); ++j) {
      weights_[j] += share * (there[j] - weights_[j]);
    }
    return true;
  }

  // Returns the largest tried part of the step that makes all observations together likelier by
  // enough; 0: not even a short one does.
  double ShareOfTheWay(const std::vector<double>& there) const {
    std::vector<double> growth(rows_.size());  // relative growth of each row's mass, all the way
    double promised = 0;
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const LikelihoodRow& row = rows_[k];
      growth[k] = Mass(row, there) / mass_[k] - 1;
      promised += row.observations * growth[k];
    }
    if (!(promised > 0)) return 0;
    const double least = std::ranges::min(growth);
    const double most = least < -kMostLost ? kMostLost / -least : 1;
    for (double share = most; share >= kShortestStep; share /= 2) {
      double gain = 0;
      for (std::size_t k = 0; k < rows_.size(); ++k) {
        gain += rows_[k].observations * std::log1p(share * growth[k]);
      }
      if (gain >= kLeastGain * share * promised) return share;
    }
    return 0;
  }

  std::span<const LikelihoodRow> rows_;
  int first_by_expectation_;
  double observations_ = 0;
  std::vector<double> weights_;
  std::vector<double> slope_;
  std::vector<double> mass_;
};

class Pruning {
 public:
  Pruning(std::span<const LikelihoodRow> rows, std::vector<double> weights)
      : rows_(rows), weights_(std::move(weights)) {
    for (const LikelihoodRow& row : rows) {
      mass_.push_back(Mass(row, weights_));
      observations_ += row.observations;
    }
  }

  std::vector<double> Take() && {
    std::vector<std::size_t> lightest_first(weights_.size());
    std::iota(lightest_first.begin(), lightest_first.end(), std::size_t{0});
    std::ranges::stable_sort(lightest_first, {}, [this](std::size_t j) { return weights_[j]; });
    for (const std::size_t j : lightest_first) {
      if (weights_[j] > 0 && !HasAll(j) && LossWithout(j) < kLeastEvidence) Drop(j);
    }
    return std::move(weights_);
  }

 private:
  // True if this one has all weight, except for what rounding leaves to others.
  bool HasAll(std::size_t j) const { return 1 - weights_[j] <= kRounding; }

  // Returns the loss of log-likelihood without this candidate.
  double LossWithout(std::size_t j) const {
    double loss = observations_ * std::log1p(-weights_[j]);
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const LikelihoodRow& row = rows_[k];
      if (j < row.begin || j >= row.end) continue;
      loss -= row.observations * std::log1p(-weights_[j] * row.likelihood[j] / mass_[k]);
    }
    return loss;
  }

  void Drop(std::size_t j) {
    const double others = 1 - weights_[j];
    for (std::size_t k = 0; k < rows_.size(); ++k) {
      const LikelihoodRow& row = rows_[k];
      if (j >= row.begin && j < row.end) mass_[k] -= weights_[j] * row.likelihood[j];
      mass_[k] /= others;
    }
    weights_[j] = 0;
    for (double& weight : weights_) weight /= others;
  }

  std::span<const LikelihoodRow> rows_;
  double observations_ = 0;
  std::vector<double> weights_;
  std::vector<double> mass_;
};

}  // namespace

double Mass(const LikelihoodRow& row, std::span<const double> weights) {
  return Dot(weights.data(), row.likelihood, row.begin, row.end);
}

std::vector<double> FitMixingWeights(std::span<const LikelihoodRow> rows, std::size_t candidates,
                                     std::span<const double> near) {
  return Fit(rows, candidates, near).Take();
}

std::vector<double> WithoutChance(std::span<const LikelihoodRow> rows,
                                  std::vector<double> weights) {
  return Pruning(rows, std::move(weights)).Take();
}

}  // namespace tmprof
