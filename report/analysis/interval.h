// SPDX-License-Identifier: Apache-2.0
// Tells how far an estimate may be off.

#pragma once

#include <cmath>

namespace tmprof {

// Holds the true value with a chance of 90 %.
struct Interval {
  double low = 0;
  double high = 0;
};

// Returns the interval of a log-normal distribution with this mean and relative standard deviation:
// an estimate of a rate is never negative, however uncertain it is.
inline Interval IntervalOf(double mean, double relative_sd) {
  constexpr double kDeviations = 1.6449;  // 5 % of a normal distribution lie beyond it
  if (!(mean > 0)) return {};
  const double variance = std::log1p(relative_sd * relative_sd);
  const double middle = std::log(mean) - variance / 2;
  const double reach = kDeviations * std::sqrt(variance);
  return {.low = std::exp(middle - reach), .high = std::exp(middle + reach)};
}

}  // namespace tmprof
