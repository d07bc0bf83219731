// SPDX-License-Identifier: Apache-2.0

#include "mover/node_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <string>

namespace tmprof {
namespace {

struct Zone {
  NodeId node;
  std::string name;
  std::uint64_t managed = 0;
  std::uint64_t free = 0;
  std::uint64_t high = 0;
  std::vector<std::uint64_t> protection;  // by the highest zone that a request may be served from
};

// Of "Node 0, zone   Normal".
std::optional<Zone> ZoneBegunBy(const std::string& line) {
  std::istringstream words(line);
  std::string node;
  std::string zone;
  std::uint16_t number = 0;
  char comma = 0;
  Zone begun;
  if (!(words >> node >> number >> comma >> zone >> begun.name)) return std::nullopt;
  if (node != "Node" || zone != "zone") return std::nullopt;
  begun.node = NodeId(number);
  return begun;
}

// Of "(0, 991, 991)".
std::vector<std::uint64_t> NumbersIn(std::string list) {
  std::ranges::replace_if(list, [](char c) { return c < '0' || c > '9'; }, ' ');
  std::istringstream words(list);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; words >> number;) numbers.push_back(number);
  return numbers;
}

void Read(const std::string& line, Zone& zone) {
  std::istringstream words(line);
  std::string name;
  words >> name;
  if (name == "pages") {
    words >> name >> zone.free;
  } else if (name == "high") {
    words >> zone.high;
  } else if (name == "managed") {
    words >> zone.managed;
  } else if (name == "protection:") {
    std::string list;
    std::getline(words, list);
    zone.protection = NumbersIn(list);
  }
}

// What programs use is movable: any zone may serve it, up to ZONE_MOVABLE.
std::uint64_t Allocatable(const Zone& zone, std::size_t movable) {
  const std::uint64_t kept =
      zone.high + (movable < zone.protection.size() ? zone.protection[movable] : 0);
  return zone.free > kept ? zone.free - kept : 0;
}

// By the zone's place among those of its node, which is the kernel's number for it.
std::size_t PlaceOfMovable(const std::vector<Zone>& zones, NodeId node) {
  std::size_t place = 0;
  for (const Zone& zone : zones) {
    if (zone.node != node) continue;
    if (zone.name == "Movable") break;
    ++place;
  }
  return place;
}

}  // namespace

Result<std::vector<NodeMemory>> ReadNodeMemory(const std::filesystem::path& zoneinfo) {
  constexpr const char* kAttempt = "read what NUMA nodes have free";
  std::ifstream stream(zoneinfo);
  if (!stream) return Fail(Refused(kAttempt, zoneinfo.string(), errno));
  std::vector<Zone> zones;
  for (std::string line; std::getline(stream, line);) {
    if (auto begun = ZoneBegunBy(line)) {
      zones.push_back(*std::move(begun));
    } else if (!zones.empty()) {
      Read(line, zones.back());
    }
  }
  std::map<NodeId, NodeMemory> nodes;
  for (const Zone& zone : zones) {
    if (zone.managed == 0 || zone.name == "Device") continue;
    NodeMemory& node = nodes.try_emplace(zone.node, NodeMemory{.id = zone.node}).first->second;
    node.free += PageCount(zone.free);
    node.allocatable += PageCount(Allocatable(zone, PlaceOfMovable(zones, zone.node)));
  }
  if (nodes.empty()) {
    return Fail(Error{.attempt = kAttempt,
                      .object = zoneinfo.string(),
                      .reason = "it names no zone that has memory",
                      .advice = ""});
  }
  std::vector<NodeMemory> all;
  for (const auto& [id, node] : nodes) all.push_back(node);
  return all;
}

}  // namespace tmprof
