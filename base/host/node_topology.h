// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's facts about NUMA nodes with memory. The root is an argument so that tests can
// read a directory tree of their own.

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
  // The latency for its nearest CPUs, from the firmware (ACPI HMAT). Unset: the firmware does not
  // report it.
  std::optional<std::chrono::nanoseconds> read_latency;
  std::map<NodeId, std::uint32_t> distance;  // ACPI SLIT: the distance to the node itself is 10
};

struct NodeTopology {
  std::vector<MemoryNode> nodes;           // with memory, ascending by id
  std::vector<std::vector<NodeId>> tiers;  // the kernel's own, fastest first; may be empty
};

// Reads sysfs(5) below `root`. Fails if it has no nodes at all. Facts that a node does not report
// are left unset. A node without a size is left out, because no page can be put there.
Result<NodeTopology> ReadNodeTopology(const std::filesystem::path& root = "/sys/devices");

// Returns the nodes by tier, fastest first, as DiscoverTiers() finds them. It has one tier if all
// memory is of one class, and none if no node has memory.
std::vector<std::vector<NodeId>> NodesByTier(const NodeTopology& topology);

// Returns the read latencies of these tiers in ns, each the mean over its nodes. nullopt: the tier
// has no nodes, or one of them does not report it, or is not in the topology.
std::vector<std::optional<double>> LatenciesOf(const NodeTopology& topology,
                                               const std::vector<std::vector<NodeId>>& tiers);

struct DiscoveredTiers {
  Tiers tiers;
  std::string evidence;  // in words: "the kernel's memory tiers"
};

// Divides nodes by the kernel's own tiers if it has more than one, else by classes of latency. Else
// nodes with CPUs come before those without, which are ordered by their distance from the nearest
// CPUs. Fails if all memory is of one class.
Result<DiscoveredTiers> DiscoverTiers(const NodeTopology& topology);

}  // namespace tmprof
