// SPDX-License-Identifier: Apache-2.0

#include "base/host/node_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/parse_integer.h"

namespace tmprof {
namespace {

constexpr const char* kReadFreeMemory = "read what NUMA nodes have free";

struct Zone {
  NodeId node;
  std::string name;
  std::optional<std::uint64_t> managed;
  std::optional<std::uint64_t> free;
  std::optional<std::uint64_t> high;
  std::vector<std::uint64_t> protection;  // index: the highest zone that may serve a request
};

// Takes a word off the front of `text`; empty at its end.
std::string_view TakeWord(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(" \t(,)"), text.size());
  const std::size_t end = std::min(text.find_first_of(" \t(,)", begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

std::optional<std::uint64_t> TakeNumber(std::string_view& text) {
  return ParseInteger<std::uint64_t>(TakeWord(text));
}

// Parses "Node 0, zone   Normal".
std::optional<Zone> ZoneBegunBy(std::string_view line) {
  if (TakeWord(line) != "Node") return std::nullopt;
  const auto number = TakeNumber(line);
  if (!number || TakeWord(line) != "zone") return std::nullopt;
  return Zone{.node = NodeId(static_cast<std::uint16_t>(*number)),
              .name = std::string(TakeWord(line)),
              .managed = {},
              .free = {},
              .high = {},
              .protection = {}};
}

void Read(std::string_view line, Zone& zone) {
  const std::string_view field = TakeWord(line);
  if (field == "pages" && TakeWord(line) == "free") {
    zone.free = TakeNumber(line);
  } else if (field == "high") {
    zone.high = TakeNumber(line);
  } else if (field == "managed") {
    zone.managed = TakeNumber(line);
  } else if (field == "protection:") {
    while (const auto kept = TakeNumber(line)) zone.protection.push_back(*kept);
  }
}

// Returns the zone's index among the zones of its node, which is the kernel's number for it.
std::size_t PlaceOfMovable(const std::vector<Zone>& zones, NodeId node) {
  std::size_t place = 0;
  for (const Zone& zone : zones) {
    if (zone.node != node) continue;
    if (zone.name == "Movable") break;
    ++place;
  }
  return place;
}

// Returns the allocatable pages. Programs use movable memory, which any zone up to ZONE_MOVABLE may
// serve. nullopt: the file does not say.
std::optional<std::uint64_t> Allocatable(const Zone& zone, std::size_t movable) {
  if (!zone.free || !zone.high || movable >= zone.protection.size()) return std::nullopt;
  const std::uint64_t kept = *zone.high + zone.protection[movable];
  return *zone.free > kept ? *zone.free - kept : 0;
}

Error Unreadable(const std::filesystem::path& zoneinfo, std::string reason) {
  return {.attempt = kReadFreeMemory,
          .object = zoneinfo.string(),
          .reason = std::move(reason),
          .advice = ""};
}

}  // namespace

Result<std::vector<NodeMemory>> ReadNodeMemory(const std::filesystem::path& zoneinfo) {
  std::ifstream stream(zoneinfo);
  if (!stream) return Fail(Refused(kReadFreeMemory, zoneinfo.string(), errno));
  std::vector<Zone> zones;
  bool in_zone = false;  // false while the lines are about a CPU
  for (std::string line; std::getline(stream, line);) {
    if (line.starts_with("Node ")) {
      auto begun = ZoneBegunBy(line);
      in_zone = begun.has_value();
      if (begun) zones.push_back(*std::move(begun));
    } else if (line.starts_with("  pagesets")) {
      in_zone = false;
    } else if (in_zone) {
      Read(line, zones.back());
    }
  }
  if (stream.bad()) return Fail(Refused(kReadFreeMemory, zoneinfo.string(), EIO));
  std::map<NodeId, NodeMemory> nodes;
  for (const Zone& zone : zones) {
    if (zone.managed == 0U || zone.name == "Device") continue;
    const auto allocatable = Allocatable(zone, PlaceOfMovable(zones, zone.node));
    if (!allocatable) {
      return Fail(Unreadable(zoneinfo, "it does not say what is kept free in zone " + zone.name +
                                           " of node " + std::to_string(zone.node.value())));
    }
    NodeMemory& node = nodes.try_emplace(zone.node, NodeMemory{.id = zone.node}).first->second;
    node.free += PageCount(*zone.free);
    node.allocatable += PageCount(*allocatable);
  }
  if (nodes.empty()) return Fail(Unreadable(zoneinfo, "it names no zone that has memory"));
  std::vector<NodeMemory> all;
  for (const auto& [id, node] : nodes) all.push_back(node);
  return all;
}

}  // namespace tmprof
