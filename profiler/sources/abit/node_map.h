// SPDX-License-Identifier: Apache-2.0
// Which NUMA node a page frame is on.

#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>

#include "base/units.h"

namespace tmprof::abit {

// The map is made once: memory that is plugged in later is unknown.
class NodeMap {
 public:
  // `sysfs` is given so that tests read a directory tree of their own.
  explicit NodeMap(const std::filesystem::path& sysfs = "/sys");

  // nullopt: no memory block is known there, or it spans several nodes.
  std::optional<NodeId> NodeOf(std::uint64_t frame) const;

 private:
  std::optional<NodeId> only_node_;
  std::uint64_t block_bytes_ = 0;
  std::map<std::uint64_t, std::optional<NodeId>> node_of_block_;
};

}  // namespace tmprof::abit
