// SPDX-License-Identifier: Apache-2.0
// Tells how much may still be put on each node, by the memory that the kernel calls free and by
// moves that it refused.

#pragma once

#include <chrono>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/host/node_memory.h"
#include "base/units.h"
#include "mover/move_planner.h"

namespace tmprof {

class NodeRooms {
 public:
  // `reserve` is kept free on each node.
  explicit NodeRooms(PageCount reserve) : reserve_(reserve) {}

  void SetReserve(PageCount reserve) { reserve_ = reserve; }

  // Notes that a move to this node failed because it was out of memory. Its free memory is used
  // again after a second. Each further refusal doubles that time, to at most a minute.
  void Refuse(NodeId node) { refused_.insert(node); }

  // Returns the rooms in the order of `nodes`, which were read at `now`.
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
