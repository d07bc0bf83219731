// SPDX-License-Identifier: Apache-2.0
// Rows of hot groups without their other columns.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/analysis/hot_groups.h"

namespace tmprof {

struct GroupSum {
  std::string what;
  double score;
  std::uint64_t pages;
  bool operator==(const GroupSum&) const = default;
};

inline std::vector<GroupSum> SumsOf(const HotGroups& groups) {
  std::vector<GroupSum> sums;
  for (const HotGroups::Row& row : groups.rows) {
    sums.push_back({row.what, row.score, row.pages.value()});
  }
  return sums;
}

}  // namespace tmprof
