// SPDX-License-Identifier: Apache-2.0
// Tells how well one order of pages agrees with another.

#pragma once

#include <optional>
#include <vector>

namespace tmprof {

// Pages that have one truth and one score.
struct ScoredPages {
  double truth = 0;
  double score = 0;
  double pages = 0;  // a whole number
};

// 1: the orders are the same; -1: one is the reverse of the other.
struct RankCorrelation {
  double spearman_rho = 0;   // Pearson's correlation of the ranks; pages that tie share their mean
  double kendall_tau_b = 0;  // (concordant - discordant pairs) / sqrt(pairs untied in each)
};

// nullopt if all pages tie in truth or in score. Takes n log n time for n entries, whatever the
// number of their pages.
std::optional<RankCorrelation> Correlate(std::vector<ScoredPages> entries);

}  // namespace tmprof
