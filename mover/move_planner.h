// SPDX-License-Identifier: Apache-2.0
// Turns the pages that a policy wants in tier 1 into the moves that are worth making now. Pure.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/move.h"
#include "base/move_history.h"
#include "base/page_key.h"
#include "base/plan.h"
#include "base/tiers.h"
#include "base/units.h"
#include "mover/memory_binding.h"

namespace tmprof {

// The reason why a span stays on its node, whatever its score.
enum class Held : std::uint8_t {
  kNot,
  kUnread,           // its binding is unknown
  kShared,           // several mappings hold it, and the mover may not move it for all of them
  kMappedElsewhere,  // earlier moves were refused because an unknown mapping holds it, too
  kBackoff,          // earlier moves were refused
};

// A span whose node is known.
struct PlacedSpan {
  PageKey key;
  PageCount span{1};
  NodeId node;
  double score = 0;      // score of the whole span; 0: no access was seen
  bool assumed = false;  // the score is assumed, because nobody looked at the span
  Held held = Held::kNot;
  // Nodes that the memory policy and cpuset allow, which are the same for the whole span. Null:
  // any.
  const MemoryBinding* binding = nullptr;
  // Answers if other mappings of the span's pages let it go there. Null: they do.
  using OthersLet = std::function<bool(const PlacedSpan&, NodeId to)>;
  const OthersLet* others_let = nullptr;
  // A span of several leaves of this size may give way in part, the highest leaf first. 0: it is
  // one leaf.
  PageCount leaf{0};
};

// The room that is left on a node.
struct NodeRoom {
  NodeId node;
  PageCount free;
};

// Scores are per base page here, in the unit of the rank model.
struct MoveRules {
  PageCount capacity;  // capacity of tier 1, for all targets together
  // Capacities of tiers 2, 3 and so on. Unset or missing: the room of the tier's nodes. The slowest
  // tier's is not used, because no page can leave that tier downwards.
  std::vector<std::optional<PageCount>> lower_capacities;
  PageCount most_pages;  // most pages to move, demotions included
  // The cost of a move, in the unit of the scores. A page must score at least one cost to be
  // promoted, and must beat a page that gives way to it by two.
  double cost_of_move = 0;
  // Costs of moves from tiers 2, 3 and so on, which replace `cost_of_move`: an access gains more if
  // the page leaves a slower tier. Empty: `cost_of_move` from any tier.
  std::vector<double> cost_from_tier = {};
  // A page must also beat a page that gives way to it by this factor. Pages that are about equally
  // hot stay.
  double hysteresis = 1.25;
  std::uint64_t cool_down_epochs = 0;  // epochs for which a span stays where it was moved to
  // Returns the name by which the history knows a page. Unset: the page's key.
  std::function<PageKey(PageKey)> page_of;
};

struct MoveDecision {
  // Demotions, then promotions, the best first. Each finds room in this order.
  std::vector<Move> moves;
  NotMoved not_moved;
};

// Decides the moves. `placed` ascends by key. It holds each span that is wanted or is in a tier
// with a capacity, as far as its node is known. `room` has each node of `tiers` once.
//
// Pages beyond a tier's capacity leave it first, from the slowest tier up. Below tier 1 they take
// at most half of the moves. A demotion goes to the next tier below that has room, to the node with
// the most room and of equal ones the lowest number. Promotions choose their node in tier 1 in that
// way, too. Spans with the lowest score per base page give way first, then those with the highest
// key; below tier 1 only spans that somebody looked at. If a span may go to some nodes of a tier
// only, it goes to one of these. If it may go to none, it counts as bound.
MoveDecision DecideMoves(const Tiers& tiers, const MoveRules& rules, const Plan& plan,
                         std::span<const PlacedSpan> placed, std::span<const NodeRoom> room,
                         const MoveHistory& history, std::uint64_t epoch);

}  // namespace tmprof
