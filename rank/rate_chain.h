// SPDX-License-Identifier: Apache-2.0
// Rates of pages that last, and are drawn anew at times that nobody knows. Only rank/ uses it.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rank/rate_fit.h"

namespace tmprof {

// A hidden Markov chain over the grid of rates. In a gap of d seconds a rate stays as it is with
// probability exp(-d / persistence), and is otherwise drawn anew from the prior. A new rate does
// not depend on the old one, which makes a step linear in the grid's points.
//
// Columns are padded with zeros to whole vectors of the processor.
class RateChain {
 public:
  RateChain(const Mixture& mixture, std::size_t kinds, std::size_t steps)
      : points_(mixture.rates().size()),
        width_((points_ + kLanes - 1) / kLanes * kLanes),
        rates_(Padded(mixture.rates())),
        prior_(Padded(mixture.prior())),
        likelihood_(kinds * width_),
        stay_(steps, 1.0F),
        renew_(steps, 0.0F),
        filtered_(steps * width_),
        ahead_(width_),
        weights_(width_) {
    for (std::uint32_t kind = 0; kind < kinds; ++kind) {
      std::ranges::copy(mixture.Likelihood(kind), likelihood_.begin() + kind * width_);
    }
  }

  // Precondition: a weight for each point of the mixture's grid.
  void SetPrior(const std::vector<double>& prior) { prior_ = Padded(prior); }

  std::size_t width() const { return width_; }

  // `middles`: of each step, in seconds, ascending.
  void SetPersistence(double seconds, std::span<const double> middles) {
    for (std::size_t s = 1; s < stay_.size(); ++s) {
      const double gaps = (middles[s] - middles[s - 1]) / seconds;
      stay_[s] = static_cast<float>(std::exp(-gaps));
      renew_[s] = static_cast<float>(-std::expm1(-gaps));
    }
  }

  // Log-likelihood of a span's evidence, up to a constant that does not depend on the persistence.
  // `more`: null, or a column for each step by which other evidence speaks for each rate.
  double Filter(std::span<const std::uint32_t> kinds, const float* more = nullptr) {
    double log_likelihood = 0;
    const float* before = prior_.data();
    for (std::size_t s = 0; s < kinds.size(); ++s) {
      const float stay = stay_[s];
      const float renew = renew_[s];
      const float* seen = &likelihood_[kinds[s] * width_];
      float* now = &filtered_[s * width_];
      float mass = 0;
#pragma omp simd reduction(+ : mass)
      for (std::size_t j = 0; j < width_; ++j) {
        now[j] = (stay * before[j] + renew * prior_[j]) * seen[j];
        mass += now[j];
      }
      if (more != nullptr) {
        mass = 0;
#pragma omp simd reduction(+ : mass)
        for (std::size_t j = 0; j < width_; ++j) {
          now[j] *= more[s * width_ + j];
          mass += now[j];
        }
      }
      const float scale = 1 / mass;
#pragma omp simd
      for (std::size_t j = 0; j < width_; ++j) now[j] *= scale;
      log_likelihood += std::log(mass);
      before = now;
    }
    return log_likelihood;
  }

  // Visits a span's steps, the last one first: visit(step, weights of the rates, their sum), given
  // the evidence of all steps.
  template <typename Visit>
  void Smooth(std::span<const std::uint32_t> kinds, Visit visit) {
    Filter(kinds);
    std::ranges::fill(ahead_, 1.0F);
    for (std::size_t s = kinds.size(); s-- > 0;) {
      const float* now = &filtered_[s * width_];
      float mass = 0;
#pragma omp simd reduction(+ : mass)
      for (std::size_t j = 0; j < width_; ++j) {
        weights_[j] = now[j] * ahead_[j];
        mass += weights_[j];
      }
      visit(s, std::as_const(weights_), mass);
      if (s == 0) break;

      const float* seen = &likelihood_[kinds[s] * width_];
      float redrawn = 0;
#pragma omp simd reduction(+ : redrawn)
      for (std::size_t j = 0; j < width_; ++j) {
        ahead_[j] *= seen[j];
        redrawn += prior_[j] * ahead_[j];
      }
      // Any common factor will do: this one keeps the redrawn part at 1.
      const float stay = stay_[s] / redrawn;
      const float renew = renew_[s];
#pragma omp simd
      for (std::size_t j = 0; j < width_; ++j) ahead_[j] = stay * ahead_[j] + renew;
    }
  }

  struct Moments {
    double mean;
    double sd;
  };
  Moments MomentsOf(const std::vector<float>& weights, float mass) const {
    float first = 0;
    float second = 0;
#pragma omp simd reduction(+ : first, second)
    for (std::size_t j = 0; j < width_; ++j) {
      first += weights[j] * rates_[j];
      second += weights[j] * rates_[j] * rates_[j];
    }
    const double mean = first / mass;
    return {mean, std::sqrt(std::max(0.0, second / mass - mean * mean))};
  }

  // The weight of the rates from this point of the grid on.
  static float SumFrom(const std::vector<float>& weights, std::size_t first) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::size_t j = first; j < weights.size(); ++j) sum += weights[j];
    return sum;
  }

 private:
  static constexpr std::size_t kLanes = 8;  // floats of an AVX register

  std::vector<float> Padded(const std::vector<double>& column) const {
    std::vector<float> padded(width_);
    std::ranges::transform(column, padded.begin(),
                           [](double value) { return static_cast<float>(value); });
    return padded;
  }

  std::size_t points_;
  std::size_t width_;
  std::vector<float> rates_;
  std::vector<float> prior_;
  std::vector<float> likelihood_;  // row-major, a row per kind
  std::vector<float> stay_;   // per step: the chance that a rate is still that of the step before
  std::vector<float> renew_;  // 1 - stay_, which a float next to 1 would not tell
  std::vector<float> filtered_;  // row-major, a row per step: given the evidence up to it
  std::vector<float> ahead_;     // likelihood of the evidence of later steps
  std::vector<float> weights_;
};

}  // namespace tmprof
