// SPDX-License-Identifier: Apache-2.0
// Lays out an arena by what was counted of each object, and estimates how its accesses would
// spread: the hot objects may lie on a few of its pages.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "objects/analysis/counted_objects.h"

namespace tmprof {

struct ArenaPart {
  double bytes = 0;
  double accesses = 0;
};

// Returns the parts of an arena of `pages` pages, in the order of their addresses. A part is one
// page, or proportionally more if more bytes were counted than the arena has room for. The arena
// holds the objects that lived to the end of the profiles and whose site `is_there` accepts, in the
// order of their births. Objects of several sites that were born in one tick of the clock are mixed
// evenly. Empty: none of these objects lived.
std::vector<ArenaPart> LayOut(
    const std::vector<ObjectProfiles::CountedSites>& profiles,
    const std::function<bool(std::size_t profile, std::uint32_t site)>& is_there, double pages);

}  // namespace tmprof
