// SPDX-License-Identifier: Apache-2.0
// Computes the hit rates that follow from one state of the evidence. Only rank/ uses it.

#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "rank/hit_rates.h"
#include "rank/rated_rows.h"

namespace tmprof {

// Returns one result for each capacity, without history.
std::vector<HitRates> HitRatesOf(const RatedRows& rated, std::span<const PageCount> capacities);

}  // namespace tmprof
