// SPDX-License-Identifier: Apache-2.0

#include "rank/best_shares.h"

#include <algorithm>
#include <functional>

namespace tmprof {

std::vector<double> SharesOfTheBest(std::vector<Heat> heat, std::span<const PageCount> capacities) {
  std::ranges::stable_sort(heat, std::greater(), &Heat::score);
  double all = 0;
  for (const Heat& each : heat) all += each.accesses * each.pages;
  std::vector<double> shares;
  for (const PageCount capacity : capacities) {
    double left = static_cast<double>(capacity.value());
    double hit = 0;
    for (const Heat& each : heat) {
      if (each.score <= 0) break;
      const double taken = std::min(left, each.pages);
      hit += taken * each.accesses;
      left -= taken;
      if (left <= 0) break;
    }
    shares.push_back(all > 0 ? hit / all : 0);
  }
  return shares;
}

}  // namespace tmprof
