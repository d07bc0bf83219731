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
  // What programs can still be given before the kernel begins to free memory: free pages of each
  // zone beyond its `high` watermark and what it keeps from requests that other zones could serve
  // (lowmem_reserve), which on node 0 can be all of ZONE_DMA and ZONE_DMA32.
  PageCount allocatable;
};

// Of /proc/zoneinfo (mm/vmstat.c, zoneinfo_show_print()): nodes that have memory, ascending by id.
// Fails where that cannot be read or names no such node.
Result<std::vector<NodeMemory>> ReadNodeMemory(
    const std::filesystem::path& zoneinfo = "/proc/zoneinfo");

}  // namespace tmprof
