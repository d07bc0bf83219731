// SPDX-License-Identifier: Apache-2.0
// Which hit rates a tier 1 of some capacities can have, as far as the evidence tells, and how sure
// that is. docs/accuracy.md ("Hit rates that need no replay") derives them.

#pragma once

#include <optional>

#include "base/units.h"

namespace tmprof {

// Standard deviations on either side that hold 90 % of a normal distribution.
inline constexpr double kDeviationsOf90 = 1.6449;

struct HitRate {
  double value = 0;
  // The interval that holds the truth with a probability of 90 %.
  double low = 0;
  double high = 1;

  // Too little was seen to tell where the interval is wider than 20 points.
  static constexpr double kWidestTold = 0.2;
  bool is_told() const { return high - low <= kWidestTold; }
};

// Shares of all accesses, or of all accesses to memory, to some pages. Rates of pages that were not
// looked at are taken to be distributed as those of their program's pages that were. No ranking
// chooses a page of which nothing is known.
struct HitRates {
  PageCount capacity;
  PageCount pages;    // that these hit rates speak for, ...
  PageCount unknown;  // ... and those of them of which nothing is known
  // The best placement's hit rate, read off the fitted distribution of rates: no page needs to be
  // known. nullopt: no accessed bit was read, no program used CPU time, or, of accesses to memory,
  // too few were sampled.
  std::optional<HitRate> oracle;
  // The hit rate of the pages that this evidence ranks best; nullopt as above.
  std::optional<HitRate> attainable;
  // The hit rate of the pages that were ranked best before each epoch, judged by the accessed bits
  // of that epoch alone, or, of accesses to memory, by its samples. nullopt: none were ranked
  // before an epoch with such evidence.
  std::optional<HitRate> history;
};

}  // namespace tmprof
