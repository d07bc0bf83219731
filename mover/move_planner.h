// SPDX-License-Identifier: Apache-2.0
// From the pages that a policy wants in tier 1 to the moves that are worth making now. Pure.

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

// Why a span stays on its node, whatever its score.
enum class Held : std::uint8_t {
  kNot,
  kUnread,           // nobody knows what binds it
  kShared,           // several mappings hold it, and the mover may not move it for all of them
  kMappedElsewhere,  // earlier moves were refused because an unknown mapping holds it, too
  kLetBe,            // earlier moves were refused
};

// A span that is known to be somewhere.
struct PlacedSpan {
  PageKey key;
  PageCount span{1};
  NodeId node;
  double score = 0;       // of the whole span; 0: nobody has seen it accessed
  bool supposed = false;  // the score: nobody has looked
  Held held = Held::kNot;
  // Where memory policy and cpuset, which are the same for the whole span, let it go; null:
  // anywhere.
  const MemoryBinding* binding = nullptr;
  // This is asked as well: do other mappings of the span's pages let it go there? Null: they do.
  using OthersLet = std::function<bool(const PlacedSpan&, NodeId to)>;
  const OthersLet* others_let = nullptr;
  // A span of several leaves may give way in part, the highest first; 0: it is one leaf.
  PageCount leaf{0};
};

// What may still be put on a node.
struct NodeRoom {
  NodeId node;
  PageCount free;
};

// Scores are per base page here, of whatever unit the rank model's have.
struct MoveRules {
  PageCount capacity;  // of tier 1, for all targets together
  // Likewise of tiers 2, 3 and so on; nothing, or fewer than there are: what their nodes have room
  // for. The slowest tier's is not asked: nothing can leave it.
  std::vector<std::optional<PageCount>> lower_capacities;
  PageCount most_pages;  // to be moved at all, demotions included
  // The cost of a move, in the unit of the scores. A page must beat nothing at all by one cost, and
  // the page that gives way to it by two.
  double cost_of_move = 0;
  // The costs of pages from tiers 2, 3 and so on, instead: an access gains the more, the slower the
  // tier that it leaves. Empty: cost_of_move, from any tier.
  std::vector<double> cost_from_tier = {};
  // A page must beat what gives way to it by this factor, too: what is about as hot stays.
  double hysteresis = 1.25;
  std::uint64_t cool_down_epochs = 0;  // that a span stays where it was moved to
  // The name by which the history knows a page; nothing: it is the page's key.
  std::function<PageKey(PageKey)> page_of;
};

struct MoveDecision {
  // Demotions, then promotions, the best first: in this order each finds room.
  std::vector<Move> moves;
  NotMoved not_moved;
};

// `placed` ascends by key and holds each span that is wanted, or in a tier with a capacity, as far
// as it is known; `room` has each node of `tiers` once. What a tier has beyond its capacity leaves
// it first, from the slowest tier up, below tier 1 with half of the moves at most. Demotions go to
// the next tier below that has room, on the node with the most of it, the lower number on a tie; so
// do promotions within tier 1. Of what could give way goes first what has the lowest score per base
// page, then the highest key; below tier 1 only what somebody has looked at. What may go to some
// nodes of a tier only goes to one of these, and is bound where it may go to none.
MoveDecision DecideMoves(const Tiers& tiers, const MoveRules& rules, const Plan& plan,
                         std::span<const PlacedSpan> placed, std::span<const NodeRoom> room,
                         const MoveHistory& history, std::uint64_t epoch);

}  // namespace tmprof
