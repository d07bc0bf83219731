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
};

std::string_view Name(MoveReason reason);  // "wanted", "room", "over-capacity"

}  // namespace tmprof
