// SPDX-License-Identifier: Apache-2.0

#include "rank/persistence.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tmprof {
namespace {

// What was learned this long ago weighs half.
constexpr double kHalfLife = 60;
// Standard deviation of the logarithm of the time, before anything is learned.
constexpr double kSupposedSpread = 2;
// Pages that are cleared together err together, in that their clear or their reads were told too
// early or too late: so many of them tell as much as one would alone.
constexpr double kErrTogether = 16;
// However long a program was steady, it may change now: the logarithm by which one supposed time
// may be likelier than another.
constexpr double kMostCertain = 30;
// A page may be so much likelier by one of both; beyond, it is the model that is wrong.
constexpr double kMostTelling = 1e6;
// So many factors of 1 / kMostTelling to kMostTelling are no overflow.
constexpr std::size_t kFactors = 16;
// Pages wait for their next probe so many times as long as the mean at most.
constexpr double kLongestWaitOfMean = 4;

}  // namespace

void Persistence::MultiplyUp() {
  for (std::size_t i = 0; i < kTimes; ++i) {
    log_likelihood_[i] += std::log(factor_[i]);
    factor_[i] = 1;
  }
  factors_ = 0;
}

void Persistence::Age(double seconds) {
  const double keep = std::exp2(-seconds / kHalfLife);
  for (double& log : log_likelihood_) log *= keep;
  visits_ *= keep;
  waited_ *= keep;
}

void Persistence::Add(double seconds, double lasted, double drawn_anew) {
  visits_ += 1;
  waited_ += seconds;
  if (lasted <= 0 && drawn_anew <= 0) return;
  if (seconds != changed_for_seconds_) {
    changed_for_seconds_ = seconds;
    for (std::size_t i = 0; i < kTimes; ++i) {
      changed_[i] = -std::expm1(-seconds / Supposed(i));
    }
  }
  const double ratio =
      lasted > 0 ? std::clamp(drawn_anew / lasted, 1 / kMostTelling, kMostTelling) : kMostTelling;
  for (std::size_t i = 0; i < kTimes; ++i) {
    factor_[i] *= 1 + changed_[i] * (ratio - 1);
  }
  if (++factors_ == kFactors) MultiplyUp();
}

void Persistence::Conclude() {
  MultiplyUp();
  if (visits_ <= 0) return;
  const double likeliest = *std::ranges::max_element(log_likelihood_);
  for (double& log : log_likelihood_) {
    log = std::max(log, likeliest - kMostCertain * kErrTogether);
  }
  ByTime log_posterior;
  for (std::size_t i = 0; i < kTimes; ++i) {
    const double apart = std::log(Supposed(i) / kSupposedSeconds) / kSupposedSpread;
    log_posterior[i] = log_likelihood_[i] / kErrTogether - apart * apart / 2;
  }
  const double most = *std::ranges::max_element(log_posterior);
  double weights = 0;
  double sum = 0;
  for (std::size_t i = 0; i < kTimes; ++i) {
    const double weight = std::exp(log_posterior[i] - most);
    weights += weight;
    sum += weight * std::log(Supposed(i));
  }
  mean_seconds_ = std::exp(sum / weights);
}

double Persistence::LongestWait() const {
  return visits_ > 0 ? kLongestWaitOfMean * waited_ / visits_
                     : std::numeric_limits<double>::infinity();
}

}  // namespace tmprof
