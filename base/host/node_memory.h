// SPDX-License-Identifier: Apache-2.0
// Tells how much memory each NUMA node has left, and how much of it programs can get.

#pragma once

#include <filesystem>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

struct NodeMemory {
  NodeId id;
  PageCount free;
  // Memory that programs can get before the kernel has to free any. It is the free pages of each
  // zone beyond two reserves. One is the `high` watermark, up to which the kernel frees once it has
  // begun. The other is the pages kept from requests that other zones could serve (lowmem_reserve),
  // which on node 0 can be all of ZONE_DMA and ZONE_DMA32.
  PageCount allocatable;
};

// Reads /proc/zoneinfo (mm/vmstat.c, zoneinfo_show_print()): nodes that have memory, ascending by
// ID. Fails if the file cannot be read, names no such node, or lacks a zone's watermark or
// protection. It has some 50 lines for each CPU and zone, and the kernel prints a zone while
// holding its lock.
Result<std::vector<NodeMemory>> ReadNodeMemory(
    const std::filesystem::path& zoneinfo = "/proc/zoneinfo");

}  // namespace tmprof
