// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/node_map.h"

#include <fstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/parse_integer.h"

namespace tmprof::abit {
namespace {

// The number of "node3" or "memory12"; nullopt for any other name.
template <typename Number>
std::optional<Number> NumberAfter(std::string_view prefix, std::string_view name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  return ParseInteger<Number>(name);
}

std::vector<std::filesystem::path> Entries(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    entries.push_back(it->path());
  return entries;
}

}  // namespace

NodeMap::NodeMap(const std::filesystem::path& sysfs) {
  std::ifstream size(sysfs / "devices/system/memory/block_size_bytes");
  if (!(size >> std::hex >> block_bytes_)) block_bytes_ = 0;
  std::vector<NodeId> nodes;
  for (const auto& folder : Entries(sysfs / "devices/system/node")) {
    const auto number = NumberAfter<std::uint16_t>("node", folder.filename().string());
    if (!number) continue;
    nodes.push_back(NodeId(*number));
    for (const auto& entry : Entries(folder)) {
      const auto block = NumberAfter<std::uint64_t>("memory", entry.filename().string());
      if (!block) continue;
      const auto [place, is_new] = node_of_block_.emplace(*block, NodeId(*number));
      if (!is_new) place->second = std::nullopt;
    }
  }
  if (nodes.size() == 1) only_node_ = nodes[0];
}

std::optional<NodeId> NodeMap::NodeOf(std::uint64_t frame) const {
  if (only_node_) return only_node_;
  if (block_bytes_ == 0) return std::nullopt;
  const auto found = node_of_block_.find((frame << kBasePageShift) / block_bytes_);
  return found == node_of_block_.end() ? std::nullopt : found->second;
}

}  // namespace tmprof::abit
