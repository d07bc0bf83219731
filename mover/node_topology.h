// SPDX-License-Identifier: Apache-2.0
// What the kernel says of NUMA nodes with memory. The root is given, so that tests read a directory
// tree of their own.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/tiers.h"
#include "base/units.h"

namespace tmprof {

struct MemoryNode {
  NodeId id;
  bool has_cpus = false;
  PageCount total;
  // For its nearest CPUs, of the firmware (ACPI HMAT); nothing where that does not say.
  std::optional<std::chrono::nanoseconds> read_latency;
  std::map<NodeId, std::uint32_t> distance;  // ACPI SLIT: 10 is the node itself
};

struct NodeTopology {
  std::vector<MemoryNode> nodes;           // with memory, ascending by id
  std::vector<std::vector<NodeId>> tiers;  // the kernel's own, the fastest first; may be empty
};

// Of sysfs(5) below `root`. Fails where that has no nodes at all. What a node does not say of
// itself is left unset; a node whose size is not told is left out, as nothing can be put there.
Result<NodeTopology> ReadNodeTopology(const std::filesystem::path& root = "/sys/devices");

// Nodes by tier, the fastest first, as DiscoverTiers() has them; one tier where all memory is of
// one class, and none where no node has memory.
std::vector<std::vector<NodeId>> NodesByTier(const NodeTopology& topology);

// Returns the read latencies of these tiers in ns, each the mean over its nodes. nullopt: the tier
// has no nodes, or one of them does not tell, or is not in the topology.
std::vector<std::optional<double>> LatenciesOf(const NodeTopology& topology,
                                               const std::vector<std::vector<NodeId>>& tiers);

struct DiscoveredTiers {
  Tiers tiers;
  std::string evidence;  // for people: "the kernel's memory tiers"
};

// The kernel's own tiers where it has more than one; else classes of latency; else nodes with CPUs
// before those without, by their distance from the nearest CPUs. Refused: all memory is of one
// class.
Result<DiscoveredTiers> DiscoverTiers(const NodeTopology& topology);

}  // namespace tmprof
