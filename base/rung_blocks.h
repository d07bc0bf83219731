// SPDX-License-Identifier: Apache-2.0
// Leaves out blocks of counts by rung.

#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"

namespace tmprof {

// Keeps the blocks for which `keeps(block)` is true, in their order.
template <typename Keeps>
void KeepBlocks(RungCounts& counts, Keeps keeps) {
  const std::size_t rungs = counts.rungs();
  RungCounts kept{.delay = counts.delay, .window = counts.window};
  for (std::size_t block = 0; block < counts.blocks(); ++block) {
    if (!keeps(block)) continue;
    kept.target.push_back(counts.target[block]);
    kept.start.push_back(counts.start[block]);
    kept.pages.push_back(counts.pages[block]);
    const auto take = [&](const std::vector<std::uint32_t>& from, std::vector<std::uint32_t>& to) {
      const auto first = from.begin() + static_cast<std::ptrdiff_t>(block * rungs);
      to.insert(to.end(), first, first + static_cast<std::ptrdiff_t>(rungs));
    };
    take(counts.new_visits.read, kept.new_visits.read);
    take(counts.new_visits.found, kept.new_visits.found);
    take(counts.older_visits.read, kept.older_visits.read);
    take(counts.older_visits.found, kept.older_visits.found);
  }
  counts = std::move(kept);
}

}  // namespace tmprof
