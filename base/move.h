// SPDX-License-Identifier: Apache-2.0
// An attempted migration, from its reason to its outcome.

#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

enum class MoveReason : std::uint8_t {
  kWanted,        // a promotion: the plan wants it in tier 1
  kRoom,          // a demotion: what the plan wants takes its room
  kOverCapacity,  // a demotion: tier 1 holds more than it may
};

struct Move {
  PageKey key;
  PageCount span{1};  // of one leaf of the page table: moved whole
  NodeId from;
  NodeId to;
  double score = 0;  // that it was decided by
  MoveReason reason = MoveReason::kWanted;
  friend bool operator==(const Move&, const Move&) = default;
};

// What became of a move, once it is over.
struct MoveOutcome {
  Move move;
  int error = 0;                        // errno, positive; 0: it is on `move.to` now
  std::uint32_t attempts = 0;           // 0: it was never tried
  std::chrono::nanoseconds latency{0};  // its share, by pages, of the calls that tried it
  friend bool operator==(const MoveOutcome&, const MoveOutcome&) = default;
};

// Of the spans wanted in tier 1 that are not there, those that no move was decided for, by the
// first reason that held.
struct NotMoved {
  std::uint64_t bound = 0;
  std::uint64_t cooling = 0;
  std::uint64_t without_gain = 0;  // too little over what would give way, or over their cost
  std::uint64_t without_room = 0;  // in tier 1, or below it for what would give way
  std::uint64_t over_quota = 0;    // of the pages that may be moved at all
  std::uint64_t unplaced = 0;      // nobody knows where they are, or they are in no tier
  friend bool operator==(const NotMoved&, const NotMoved&) = default;
};

std::string_view Name(MoveReason reason);  // "wanted", "room", "over-capacity"

}  // namespace tmprof
