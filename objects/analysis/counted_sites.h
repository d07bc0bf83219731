// SPDX-License-Identifier: Apache-2.0
// Finds the allocation sites of a trace that another build of the program counted by itself.
//
// The calls of two builds have different offsets but a common source. Sites are therefore compared
// by the functions and lines of their calls, innermost first. Files are compared by name, without
// folders, and inlined functions count as calls on both sides. Stacks are unwound more or less far,
// so that one stack has to begin with all of the other. General allocators (`operator new` and
// tmprof's own libraries) and all calls beyond one without a name are left out.
//
// Compilers give different lines to a call that spans several. If lines find nothing, functions and
// files decide, provided that one site of the trace and one of the profiles have them.
//
// A function that ends in a call may jump there and leave no frame. A build that counts accesses
// does not do that. If lines and functions both find nothing, calls that the profile alone has are
// skipped, again provided that both sites are the only ones.
//
// No match is guessed: a profile's site that may be one of several in the trace matches none, and
// the counts of these are unknown.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "objects/analysis/counted_objects.h"
#include "objects/format/allocations.h"

namespace tmprof {

struct TracedSite {
  std::uint32_t place = 0;  // in the advice; sites with one place are one
  std::span<const SourceFrame> frames;
};

// Accesses to everything that was ever allocated, in all profiles. Some of the sites are found in
// the trace.
struct SiteCounts {
  std::map<std::uint32_t, std::uint64_t> by_place;  // a place that is missing is unknown
  // A map for each profile: site ID -> place. It has the sites whose place is in `by_place`.
  std::vector<std::map<std::uint32_t, std::uint32_t>> places;
  std::uint64_t accesses = 0;
  std::uint64_t found = 0;  // accesses of places in `by_place`
  // Sites of profiles that have accesses but no place in `by_place`: sites that match no place, and
  // sites that may be one of several.
  std::uint64_t missing_sites = 0;
  std::uint64_t ambiguous_sites = 0;

  double FoundShare() const { return static_cast<double>(found) / static_cast<double>(accesses); }
};

// Refuses a profile if none of its accesses is found; `trace` is its name.
Result<SiteCounts> CountSites(const ObjectProfiles& profiles, const std::vector<TracedSite>& sites,
                              const std::string& trace);

}  // namespace tmprof
