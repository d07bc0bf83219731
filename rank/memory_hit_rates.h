// SPDX-License-Identifier: Apache-2.0
// Computes the hit rates of accesses to memory that follow from one state of the evidence. Only
// rank/ uses it.

#pragma once

#include <span>
#include <vector>

#include "base/units.h"
#include "rank/hit_rates.h"
#include "rank/memory_weights.h"
#include "rank/rated_rows.h"

namespace tmprof {

// Returns one result for each capacity, without history. It has no rates if neither samples nor a
// model of the cache show what access rates are worth. `rows` are parallel to those of `rated`.
std::vector<HitRates> MemoryHitRatesOf(const RatedRows& rated, std::span<const MemoryRow> rows,
                                       const MemoryScale& scale,
                                       std::span<const PageCount> capacities);

}  // namespace tmprof
