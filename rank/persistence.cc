// SPDX-License-Identifier: Apache-2.0

#include "rank/persistence.h"

#include <algorithm>
#include <cmath>

namespace tmprof {
namespace {

// docs/design/changing-rates.md gives the reasons for these figures.

// Age at which learned evidence weighs half.
constexpr double kLearnedHalfLifeSeconds = 60;
// Standard deviation of the logarithm of the time, before anything is learned.
constexpr double kAssumedSpread = 2;
// Pages that are cleared together err together, in that their clear or their reads were told too
// early or too late: so many of them are as much evidence as one would be alone.
constexpr double kErrTogether = 16;
// However long a program was steady, it may change now: no assumed time gets further ahead of
// another one, in units of log-likelihood.
constexpr double kMostCertain = 30;
// One page speaks for a change, or against it, by this factor at most. What speaks more strongly is
// an error of the model.
constexpr double kMostTelling = 1e6;
// The product of so many such factors overflows nothing.
constexpr std::size_t kFactors = 16;
// Pages wait for their next probe so many times as long as the mean at most,
constexpr double kLongestWaitOfMean = 4;
// and nothing is given up sooner than this.
constexpr double kShortestLongestWait = 60;

}  // namespace

void Persistence::MultiplyUp() {
  for (std::size_t i = 0; i < kTimes; ++i) {
    log_likelihood_[i] += std::log(factor_[i]);
    factor_[i] = 1;
  }
  factors_ = 0;
}

void Persistence::Age(double seconds) {
  const double keep = std::exp2(-seconds / kLearnedHalfLifeSeconds);
  for (double& log : log_likelihood_) log *= keep;
  visits_ *= keep;
  waited_seconds_ *= keep;
}

void Persistence::SetProbed() {
  if (probed_) return;
  probed_ = true;
  mean_seconds_ = kAssumedSeconds;
}

void Persistence::Add(double seconds, double lasted, double drawn_anew) {
  visits_ += 1;
  waited_seconds_ += seconds;
  if (lasted <= 0 && drawn_anew <= 0) return;
  if (seconds != changed_for_seconds_) {
    changed_for_seconds_ = seconds;
    for (std::size_t i = 0; i < kTimes; ++i) {
      changed_[i] = -std::expm1(-seconds / Assumed(i));
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
  if (!probed_) return;
  const double likeliest = *std::ranges::max_element(log_likelihood_);
  for (double& log : log_likelihood_) {
    log = std::max(log, likeliest - kMostCertain * kErrTogether);
  }
  ByTime log_posterior;
  for (std::size_t i = 0; i < kTimes; ++i) {
    const double apart = std::log(Assumed(i) / kAssumedSeconds) / kAssumedSpread;
    log_posterior[i] = log_likelihood_[i] / kErrTogether - apart * apart / 2;
  }
  const double most = *std::ranges::max_element(log_posterior);
  double weights = 0;
  double sum = 0;
  for (std::size_t i = 0; i < kTimes; ++i) {
    const double weight = std::exp(log_posterior[i] - most);
    weights += weight;
    sum += weight * std::log(Assumed(i));
  }
  mean_seconds_ = std::exp(sum / weights);
}

double Persistence::LongestWait() const {
  const double mean = visits_ > 0 ? waited_seconds_ / visits_ : 0;
  return std::max(kShortestLongestWait, kLongestWaitOfMean * mean);
}

}  // namespace tmprof
