// SPDX-License-Identifier: Apache-2.0

#include "mover/node_rooms.h"

#include <algorithm>
#include <utility>

namespace tmprof {
namespace {

constexpr std::uint64_t kMostEpochs = 60;

PageCount Less(PageCount pages, PageCount kept) {
  return pages > kept ? pages - kept : PageCount(0);
}

}  // namespace

std::vector<NodeRoom> NodeRooms::At(std::span<const NodeMemory> nodes, std::uint64_t epoch) {
  std::erase_if(shortages_, [epoch](const auto& shortage) {
    return shortage.second.until + kMostEpochs <= epoch;
  });
  const std::set<NodeId> refused = std::exchange(refused_, {});
  std::vector<NodeRoom> rooms;
  for (const NodeMemory& node : nodes) {
    PageCount room = Less(node.allocatable, reserve_);
    if (refused.contains(node.id)) {
      Shortage& shortage = shortages_[node.id];
      shortage.missing = room;
      shortage.epochs = std::clamp<std::uint64_t>(2 * shortage.epochs, 1, kMostEpochs);
      shortage.until = epoch + shortage.epochs;
    }
    const auto shortage = shortages_.find(node.id);
    if (shortage != shortages_.end() && epoch < shortage->second.until) {
      room = Less(room, shortage->second.missing);
    }
    rooms.push_back({node.id, room});
  }
  return rooms;
}

}  // namespace tmprof
