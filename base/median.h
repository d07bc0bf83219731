// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "base/check.h"

namespace tmprof {

// For an even number of values it is the upper of the two in the middle. Precondition: there are
// values.
template <typename T>
T Median(std::vector<T> values) {
  TMPROF_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Returns the standard error of the median. It is estimated from the two quartiles, as if the
// values were normally distributed. Precondition: there are values.
inline double StandardErrorOfMedian(std::vector<double> values) {
  TMPROF_CHECK(!values.empty());
  // The error is 1.253 standard deviations divided by the root of the number of values. The
  // quartiles are 1.349 standard deviations apart.
  constexpr double kOfQuartiles = 1.253 / 1.349;
  std::ranges::sort(values);
  const std::size_t quarter = values.size() / 4;
  const double apart = values[values.size() - 1 - quarter] - values[quarter];
  return kOfQuartiles * apart / std::sqrt(static_cast<double>(values.size()));
}

}  // namespace tmprof
