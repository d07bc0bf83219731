// SPDX-License-Identifier: Apache-2.0
// Fills tier 1 from the best score down.

#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "policy/policy.h"
#include "policy/ranking.h"

namespace tmprof {

// Overwrites `wanted` with the best spans that fit: higher score per base page, then already in
// tier 1, then ascending key. A span larger than the room left is skipped, and smaller ones behind
// it may still fill the room.
void FillBest(Ranking& ranking, const Residency& residency, PageCount capacity,
              std::vector<std::uint32_t>& wanted);

}  // namespace tmprof
