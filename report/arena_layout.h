// SPDX-License-Identifier: Apache-2.0
// Where the accesses to an arena would go, by what was counted of each object: hot ones among them
// may lie on a few of its pages.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "report/counted_objects.h"

namespace tmprof {

struct ArenaPart {
  double bytes = 0;
  double accesses = 0;
};

// In the order of their addresses, parts of an arena that takes so many pages, each of a page or,
// where more was counted than has room there, of as much more. There are the objects that lived to
// the end of the profiles' sites of which `is_there` holds, in the order of their births; of those
// that were born in one tick of the clock, each site's are evenly among the others'. None: nothing
// of them lived.
std::vector<ArenaPart> LayOut(
    const std::vector<ObjectProfiles::CountedSites>& profiles,
    const std::function<bool(std::size_t profile, std::uint32_t site)>& is_there, double pages);

}  // namespace tmprof
