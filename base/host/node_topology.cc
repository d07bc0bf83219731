// SPDX-License-Identifier: Apache-2.0

#include "base/host/node_topology.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/host/node_list.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

// Latencies within this factor are of one class. Sockets differ by some percent among themselves,
// and CXL memory takes about twice as long as local DRAM (Sun et al., MICRO 2023).
constexpr double kSameClass = 1.25;

constexpr std::uint64_t kKibPerPage = kBasePageBytes / 1024;

std::string Contents(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

template <typename Integer>
std::optional<Integer> ToInteger(std::string_view text) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// Returns the number behind `prefix` in a name such as "node12"; nullopt for another name.
std::optional<std::uint16_t> NumberBehind(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (name.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return ToInteger<std::uint16_t>(name);
}

// Returns no node if the file is missing or unreadable.
std::vector<NodeId> NodesIn(const fs::path& file) {
  return ParseNodeList(Contents(file)).value_or(std::vector<NodeId>{});
}

// Reads the pages from "Node 0 MemFree:  123 kB".
std::optional<PageCount> PagesOf(const std::string& meminfo, std::string_view field) {
  const std::size_t at = meminfo.find(" " + std::string(field) + ":");
  if (at == std::string::npos) return std::nullopt;
  const std::size_t digits = meminfo.find_first_of("0123456789", at);
  if (digits == std::string::npos) return std::nullopt;
  const auto kib = ToInteger<std::uint64_t>(std::string_view(meminfo).substr(digits));
  if (!kib) return std::nullopt;
  return PageCount(*kib / kKibPerPage);
}

// Returns the folders of all online nodes, with or without memory.
std::map<NodeId, fs::path> FoldersOfNodes(const fs::path& root) {
  std::map<NodeId, fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "system/node", error)) {
    const auto number = NumberBehind("node", entry.path().filename().string());
    if (number) folders.emplace(NodeId(*number), entry.path());
  }
  return folders;
}

MemoryNode ReadNode(NodeId id, const fs::path& folder, const std::map<NodeId, fs::path>& all) {
  MemoryNode node{.id = id};
  const std::string meminfo = Contents(folder / "meminfo");
  node.total = PagesOf(meminfo, "MemTotal").value_or(PageCount(0));
  node.has_cpus = !NodesIn(folder / "cpulist").empty();
  const auto latency =
      ToInteger<std::int64_t>(Contents(folder / "access0/initiators/read_latency"));
  if (latency && *latency > 0) node.read_latency = std::chrono::nanoseconds(*latency);
  // The file has one number for each online node, ascending (drivers/base/node.c,
  // node_read_distance()).
  std::istringstream distances(Contents(folder / "distance"));
  for (const auto& [other, path] : all) {
    std::uint32_t distance = 0;
    if (distances >> distance) node.distance.emplace(other, distance);
  }
  return node;
}

std::vector<std::vector<NodeId>> ReadKernelTiers(const fs::path& root) {
  std::map<std::uint16_t, std::vector<NodeId>> by_number;  // a lower number is faster
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(root / "virtual/memory_tiering", error)) {
    const auto number = NumberBehind("memory_tier", entry.path().filename().string());
    std::vector<NodeId> nodes = NodesIn(entry.path() / "nodelist");
    if (number && !nodes.empty()) by_number.emplace(*number, std::move(nodes));
  }
  std::vector<std::vector<NodeId>> tiers;
  for (auto& [number, nodes] : by_number) tiers.push_back(std::move(nodes));
  return tiers;
}

// Groups nodes into classes; a lower number is faster. A new class begins when a number exceeds
// `factor` times the first one of the class before.
std::vector<std::vector<NodeId>> Classes(std::vector<std::pair<double, NodeId>> nodes,
                                         double factor) {
  std::ranges::sort(nodes);
  std::vector<std::vector<NodeId>> classes;
  double first = 0;
  for (const auto& [number, node] : nodes) {
    if (classes.empty() || number > first * factor) {
      classes.emplace_back();
      first = number;
    }
    classes.back().push_back(node);
  }
  for (std::vector<NodeId>& of_class : classes) std::ranges::sort(of_class);
  return classes;
}

std::vector<std::vector<NodeId>> ByLatency(const NodeTopology& topology) {
  std::vector<std::pair<double, NodeId>> nodes;
  for (const MemoryNode& node : topology.nodes) {
    if (!node.read_latency) return {};
    nodes.emplace_back(static_cast<double>(node.read_latency->count()), node.id);
  }
  return Classes(std::move(nodes), kSameClass);
}

// The distance of a node with CPUs is its distance to itself, however far the others are.
std::vector<std::vector<NodeId>> ByDistance(const NodeTopology& topology) {
  std::set<NodeId> with_cpus;
  for (const MemoryNode& node : topology.nodes) {
    if (node.has_cpus) with_cpus.insert(node.id);
  }
  std::vector<std::pair<double, NodeId>> nodes;
  for (const MemoryNode& node : topology.nodes) {
    double nearest = node.has_cpus ? 0 : std::numeric_limits<double>::max();
    for (const auto& [other, distance] : node.distance) {
      if (with_cpus.contains(other)) nearest = std::min(nearest, static_cast<double>(distance));
    }
    nodes.emplace_back(node.has_cpus ? 0 : nearest, node.id);
  }
  return Classes(std::move(nodes), 1);
}

struct Division {
  std::vector<std::vector<NodeId>> tiers;  // at least two
  const char* evidence;
};

// nullopt: all memory is of one class.
std::optional<Division> DivideBest(const NodeTopology& topology) {
  Division ways[] = {
      {topology.tiers, "the kernel's memory tiers"},
      {ByLatency(topology), "the firmware's latencies"},
      {ByDistance(topology), "CPUs and distances"},
  };
  for (Division& way : ways) {
    if (way.tiers.size() >= 2) return std::move(way);
  }
  return std::nullopt;
}

}  // namespace

Result<NodeTopology> ReadNodeTopology(const fs::path& root) {
  const std::map<NodeId, fs::path> folders = FoldersOfNodes(root);
  if (folders.empty()) {
    return Fail(Refused("read NUMA nodes", (root / "system/node").string(), ENOENT));
  }
  NodeTopology topology;
  for (const auto& [id, folder] : folders) {
    MemoryNode node = ReadNode(id, folder, folders);
    if (node.total > PageCount(0)) topology.nodes.push_back(std::move(node));
  }
  topology.tiers = ReadKernelTiers(root);
  return topology;
}

std::vector<std::vector<NodeId>> NodesByTier(const NodeTopology& topology) {
  if (topology.nodes.empty()) return {};
  if (std::optional<Division> division = DivideBest(topology)) return std::move(division->tiers);
  std::vector<NodeId> all;
  for (const MemoryNode& node : topology.nodes) all.push_back(node.id);
  return {std::move(all)};
}

std::vector<std::optional<double>> LatenciesOf(const NodeTopology& topology,
                                               const std::vector<std::vector<NodeId>>& tiers) {
  std::vector<std::optional<double>> latencies;
  for (const std::vector<NodeId>& nodes : tiers) {
    std::optional<double> sum = 0;
    for (const NodeId id : nodes) {
      const auto node = std::ranges::find(topology.nodes, id, &MemoryNode::id);
      const bool tells = sum && node != topology.nodes.end() && node->read_latency;
      sum = tells ? std::optional(*sum + static_cast<double>(node->read_latency->count()))
                  : std::nullopt;
    }
    latencies.push_back(sum && !nodes.empty()
                            ? std::optional(*sum / static_cast<double>(nodes.size()))
                            : std::nullopt);
  }
  return latencies;
}

Result<DiscoveredTiers> DiscoverTiers(const NodeTopology& topology) {
  if (std::optional<Division> division = DivideBest(topology)) {
    Result<Tiers> tiers = Tiers::Make(std::move(division->tiers));
    if (!tiers) return Fail(std::move(tiers.error()));
    return DiscoveredTiers{std::move(*tiers), division->evidence};
  }
  return Fail(Error{.attempt = "divide memory into tiers",
                    .object = std::to_string(topology.nodes.size()) + " NUMA node(s)",
                    .reason = "all memory is of one class",
                    .advice = "name the nodes of each tier"});
}

}  // namespace tmprof
