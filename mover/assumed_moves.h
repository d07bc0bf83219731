// SPDX-License-Identifier: Apache-2.0
// Tells where pages would be if the moves of a dry run had been made.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "mover/page_locator.h"
#include "mover/placement_map.h"
#include "mover/placement_survey.h"

namespace tmprof {

// Pages of simulated moves are at their destinations while they are in memory at all. All other
// pages are where `real` says.
class AssumedMoves final : public PageLocator {
 public:
  // `real` must outlive it.
  explicit AssumedMoves(PageLocator& real) : real_(&real) {}

  Result<std::vector<PlacedRun>> Locate(Pid pid, VpnRange range,
                                        std::span<const VpnRange> joint) override;

  // Sets the targets and their mappings. Moves of others are forgotten.
  void Follow(std::span<const SurveyedTarget> targets);
  // Notes a simulated move of whole leaves of this size. They were on `from` until then.
  void Suppose(TargetId target, VpnRange pages, NodeId from, NodeId to, PageCount leaf);
  // These pages have another address from now on.
  void Rename(std::span<const Renamed> pages);
  // Puts pages that `map` has back to where they really are, and forgets all moves.
  void Undo(PlacementMap& map);

  // Returns how many more pages would be free on the node if the moves had been made.
  std::int64_t PagesGained(NodeId node) const;

 private:
  // The simulated places of pages, and the real ones.
  struct Moved {
    PlacementMap to;
    PlacementMap from;
  };

  std::vector<TargetId> Targets() const;

  PageLocator* real_;
  std::map<Pid, TargetId> ids_;
  Moved moved_;
};

}  // namespace tmprof
