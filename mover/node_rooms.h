// SPDX-License-Identifier: Apache-2.0
// What may still be put on each node, by what the kernel says is free and by what it refused.

#pragma once

#include <chrono>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/units.h"
#include "mover/move_planner.h"
#include "mover/node_memory.h"

namespace tmprof {

class NodeRooms {
 public:
  // `reserve` is kept on each node.
  explicit NodeRooms(PageCount reserve) : reserve_(reserve) {}

  void SetReserve(PageCount reserve) { reserve_ = reserve; }

  // That a move to this node failed as it was out of memory. What seemed free there is counted on
  // again after a second; after twice as long each time that it is refused anew, a minute at most.
  void Refuse(NodeId node) { refused_.insert(node); }

  // In the order of `nodes`, which are as of `now`.
  std::vector<NodeRoom> At(std::span<const NodeMemory> nodes, MonotonicTime now);

 private:
  struct Shortage {
    PageCount missing;
    MonotonicTime until;
    std::chrono::nanoseconds length{0};
  };

  PageCount reserve_;
  std::set<NodeId> refused_;
  std::map<NodeId, Shortage> shortages_;
};

}  // namespace tmprof
