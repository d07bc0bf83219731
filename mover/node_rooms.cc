// SPDX-License-Identifier: Apache-2.0

#include "mover/node_rooms.h"

#include <algorithm>
#include <utility>

namespace tmprof {
namespace {

constexpr std::chrono::seconds kShortest{1};
constexpr std::chrono::seconds kLongest{60};

PageCount Less(PageCount pages, PageCount kept) {
  return pages > kept ? pages - kept : PageCount(0);
}

}  // namespace

std::vector<NodeRoom> NodeRooms::At(std::span<const NodeMemory> nodes, MonotonicTime now) {
  std::erase_if(shortages_,
                [now](const auto& shortage) { return shortage.second.until + kLongest <= now; });
  const std::set<NodeId> refused = std::exchange(refused_, {});
  std::vector<NodeRoom> rooms;
  for (const NodeMemory& node : nodes) {
    PageCount room = Less(node.allocatable, reserve_);
    if (refused.contains(node.id)) {
      Shortage& shortage = shortages_[node.id];
      shortage.missing = room;
      shortage.length =
          std::clamp<std::chrono::nanoseconds>(2 * shortage.length, kShortest, kLongest);
      shortage.until = now + shortage.length;
    }
    const auto shortage = shortages_.find(node.id);
    if (shortage != shortages_.end() && now < shortage->second.until) {
      room = Less(room, shortage->second.missing);
    }
    rooms.push_back({node.id, room});
  }
  return rooms;
}

}  // namespace tmprof
