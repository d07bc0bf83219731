// SPDX-License-Identifier: Apache-2.0
// Rules that hold for regions whatever happens to them; for tests and the fuzzer.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "driver/core/regions.h"

namespace tmprof {

inline std::uint64_t PagesOf(std::span<const tmprof_area> areas) {
  std::uint64_t pages = 0;
  for (const tmprof_area& area : areas) pages += area.end - area.start;
  return pages;
}

// Empty: they cover the areas exactly, in order, without overlap, and are as many as they may be.
inline std::string BrokenRule(const tmprof_region_set& set, std::span<const tmprof_area> areas) {
  std::uint32_t i = 0;
  for (const tmprof_area& area : areas) {
    std::uint64_t at = area.start;
    while (at < area.end) {
      if (i == set.count) return "an area is not covered to its end";
      const tmprof_region& region = set.regions[i++];
      if (region.start != at) return "a region does not start where the one before ends";
      if (region.end <= region.start) return "a region is empty";
      if (region.end > area.end) return "a region reaches out of its area";
      if (region.count > TMPROF_REGION_COUNT_MAX) return "a count is above the greatest";
      at = region.end;
    }
  }
  if (i != set.count) return "a region lies outside all areas";
  if (set.count > set.max_regions) return "there are more regions than the greatest number";
  if (set.count < set.min_regions && set.count < PagesOf(areas))
    return "there are fewer regions than the least number, and pages to split";
  return "";
}

// The expected result of tmprof_region_areas(): the gaps sorted, the largest kept.
inline std::vector<tmprof_area> NaiveAreas(std::span<const tmprof_area> mappings) {
  std::vector<tmprof_area> areas;
  for (const tmprof_area& mapping : mappings)
    if (mapping.start < mapping.end) areas.push_back(mapping);
  const auto gap_after = [&](std::size_t i) { return areas[i + 1].start - areas[i].end; };
  while (areas.size() > 1) {
    std::size_t least = 0;
    for (std::size_t i = 1; i + 1 < areas.size(); ++i)
      if (gap_after(i) <= gap_after(least)) least = i;
    if (areas.size() <= TMPROF_REGION_AREAS && gap_after(least) > 0) break;
    areas[least].end = areas[least + 1].end;
    areas.erase(areas.begin() + static_cast<std::ptrdiff_t>(least) + 1);
  }
  return areas;
}

}  // namespace tmprof
