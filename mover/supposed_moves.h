// SPDX-License-Identifier: Apache-2.0
// Where pages would be, had the moves of a dry run been made.

#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "mover/page_locator.h"
#include "mover/placement_map.h"
#include "mover/placement_survey.h"

namespace tmprof {

// What has been supposed to move is where it was supposed to go, as long as it is in memory at all;
// all else is where `real` says.
class SupposedMoves final : public PageLocator {
 public:
  // `real` must outlive it.
  explicit SupposedMoves(PageLocator& real) : real_(&real) {}

  Result<std::vector<PlacedRun>> Locate(Pid pid, VpnRange range,
                                        std::span<const VpnRange> joint) override;

  // Those that there are, with their mappings: moves of all others are forgotten.
  void Follow(std::span<const SurveyedTarget> targets);
  // Whole leaves of such a size, which have been on `from` until then.
  void Suppose(TargetId target, VpnRange pages, NodeId from, NodeId to, PageCount leaf);
  // These pages have another address from now on.
  void Rename(std::span<const Renamed> pages);
  // Puts pages that `map` has back to where they really are, and forgets all moves.
  void Undo(PlacementMap& map);

  // By how much more would be free on a node, had they been made.
  std::int64_t PagesGained(NodeId node) const;

 private:
  // Where pages are supposed to be, and where the same ones really are.
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
