// SPDX-License-Identifier: Apache-2.0
// Which allocation sites of a trace are those that another build of the program counted by itself.
//
// The two have their calls at other offsets, so what they have in common is their source: sites are
// compared by the functions of their calls and the lines of these, innermost first. Files are known
// by their names without folders, and what a compiler inlined is a call on both sides. As stacks
// are unwound more or less far, one has to begin as all of the other is. What allocates for all,
// which is `operator new` and tmprof's own libraries, is left out, and what is beyond a call
// without a name.
//
// Compilers differ in what line a call has that spans several. So where lines find nothing,
// functions and files alone tell, if one site has them in the trace and one in the profiles.
//
// A function that ends in a call may jump there and leave no call behind, which a build that counts
// does not do. So where both find nothing, calls that the profile alone has are passed over, again
// if the two sites are the only ones.
//
// Nothing is guessed: a site of a profile that may be one of several in the trace is none of them,
// and of those nothing is known either.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/allocations.h"
#include "base/result.h"
#include "report/counted_objects.h"

namespace tmprof {

struct TracedSite {
  std::uint32_t place = 0;  // in the advice: sites of one place are one
  std::span<const SourceFrame> frames;
};

// Accesses to all that was ever allocated, in all profiles; some are found.
struct SiteCounts {
  std::map<std::uint32_t, std::uint64_t> by_place;  // others: unknown
  // Of each profile, the places of its sites that are in `by_place`, by their IDs there.
  std::vector<std::map<std::uint32_t, std::uint32_t>> places;
  std::uint64_t accesses = 0;
  std::uint64_t found = 0;  // of them, those that are in `by_place`
  // Sites of profiles that have accesses and are not in `by_place`: of no place, and perhaps of one
  // of several.
  std::uint64_t missing_sites = 0;
  std::uint64_t ambiguous_sites = 0;

  double FoundShare() const { return static_cast<double>(found) / static_cast<double>(accesses); }
};

// Refuses a profile none of whose accesses are found; `trace` is its name.
Result<SiteCounts> CountSites(const ObjectProfiles& profiles, const std::vector<TracedSite>& sites,
                              const std::string& trace);

}  // namespace tmprof
