// SPDX-License-Identifier: Apache-2.0

#include "base/merge_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "base/page_key.h"

namespace tmprof {
namespace merge_runs_test {

TEST(MergeRuns, SortsAscendingRunsAndKeepsTheOrderOfEqualKeys) {
  struct Part {
    PageKey key;
    int place;
    bool operator==(const Part&) const = default;
  };
  std::mt19937 random(3);
  for (std::size_t runs = 0; runs < 9; ++runs) {
    std::vector<Part> parts;
    for (std::size_t run = 0; run < runs; ++run) {
      std::uint64_t vpn = random() % 4;
      for (std::size_t i = 0; i < 1 + random() % 5; ++i, vpn += random() % 3) {
        parts.push_back({{TargetId(1), Vpn(vpn)}, static_cast<int>(parts.size())});
      }
    }
    std::vector<Part> sorted = parts;
    std::ranges::stable_sort(sorted, {}, &Part::key);
    MergeRuns(parts, {}, &Part::key);
    EXPECT_EQ(parts, sorted) << runs << " runs";
  }
}

}  // namespace merge_runs_test
}  // namespace tmprof
