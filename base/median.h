// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/check.h"

namespace tmprof {

// Of an even number of values, the upper of the two in the middle. Precondition: there are some.
template <typename T>
T Median(std::vector<T> values) {
  TMPROF_CHECK(!values.empty());
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace tmprof
