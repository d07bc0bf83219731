// SPDX-License-Identifier: Apache-2.0
// Computes the share of all accesses that the best pages have. Only rank/ uses it.

#pragma once

#include <span>
#include <vector>

#include "base/units.h"

namespace tmprof {

// Pages that are equally hot.
struct Heat {
  double score;     // per page: the order of choice; pages of score 0 are never chosen
  double accesses;  // per page, up to a factor of all
  double pages;
};

// Returns, for each capacity, the share of all accesses that go to the pages of the highest score.
std::vector<double> SharesOfTheBest(std::vector<Heat> heat, std::span<const PageCount> capacities);

}  // namespace tmprof
