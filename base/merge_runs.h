// SPDX-License-Identifier: Apache-2.0
// Sorts sequences that consist of a few ascending runs.

#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

namespace tmprof {

// Sorts stably by merging neighbouring runs until one is left: O(n log r) for r runs.
template <typename T, typename Less = std::ranges::less, typename Key = std::identity>
void MergeRuns(std::vector<T>& values, Less less = {}, Key key = {}) {
  const auto at = [&values](std::size_t i) {
    return values.begin() + static_cast<std::ptrdiff_t>(i);
  };
  std::vector<std::size_t> ends;
  for (auto next = values.begin(); next != values.end();) {
    next = std::ranges::is_sorted_until(next, values.end(), less, key);
    ends.push_back(static_cast<std::size_t>(next - values.begin()));
  }
  std::vector<T> merged;
  while (ends.size() > 1) {
    merged.clear();
    merged.reserve(values.size());
    std::vector<std::size_t> ends_of_merged;
    std::size_t start = 0;
    for (std::size_t i = 0; i < ends.size(); i += 2) {
      const std::size_t end = ends[std::min(i + 1, ends.size() - 1)];
      std::ranges::merge(at(start), at(ends[i]), at(ends[i]), at(end), std::back_inserter(merged),
                         less, key, key);
      ends_of_merged.push_back(start = end);
    }
    values.swap(merged);
    ends = std::move(ends_of_merged);
  }
}

}  // namespace tmprof
