// SPDX-License-Identifier: Apache-2.0
// How much memory each NUMA node has left, and what of it there is to be had.

#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

struct NodeMemory {
  NodeId id;
  PageCount free;
  // What programs can still be given without the kernel having to free any: free pages of each zone
  // beyond its `high` watermark, up to which it frees once it has begun, and beyond what it keeps
  // from requests that other zones could serve (lowmem_reserve), which on node 0 can be all of
  // ZONE_DMA and ZONE_DMA32.
  PageCount allocatable;
};

// Of /proc/zoneinfo (mm/vmstat.c, zoneinfo_show_print()): nodes that have memory, ascending by id.
// Fails where that cannot be read, names no such node or leaves out a zone's watermark or
// protection. Some 50 lines a CPU and zone, which the kernel prints with that zone locked.
Result<std::vector<NodeMemory>> ReadNodeMemory(
    const std::filesystem::path& zoneinfo = "/proc/zoneinfo");

}  // namespace tmprof
