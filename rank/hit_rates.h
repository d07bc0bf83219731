// SPDX-License-Identifier: Apache-2.0
// The possible hit rates of a tier 1 of some capacities, as far as they follow from the evidence,
// and their errors. docs/design/hit-rates.md derives them.

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

  // The value is not shown if the interval is wider than 20 points, because too little was seen.
  static constexpr double kWidestTold = 0.2;
  bool is_told() const { return high - low <= kWidestTold; }
};

// Shares of all accesses, or of all accesses to memory, that go to some pages. Rates of pages that
// were not looked at are assumed to be distributed as those of their program's pages that were. No
// ranking chooses an unknown page.
struct HitRates {
  PageCount capacity;
  PageCount pages;    // pages that these hit rates cover
  PageCount unknown;  // those of `pages` that are resident but were not looked at
  // The best placement's hit rate, read off the fitted distribution of rates: no page needs to be
  // known. nullopt: no accessed bit was read, no program used CPU time, or too few accesses to
  // memory were sampled for hit rates of these.
  std::optional<HitRate> oracle;
  // The hit rate of the pages that this evidence ranks best; nullopt for the reasons of `oracle`.
  std::optional<HitRate> attainable;
  // The hit rate of the pages that were ranked best before each epoch. It is judged by the accessed
  // bits of that epoch alone or, for accesses to memory, by its samples. nullopt: no pages were
  // ranked before an epoch with such evidence.
  std::optional<HitRate> history;
};

}  // namespace tmprof
