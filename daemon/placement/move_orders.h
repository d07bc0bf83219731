// SPDX-License-Identifier: Apache-2.0
// Orders moves for each decision, and settles what became of them.

#pragma once

#include <cstdint>
#include <vector>

#include "base/move.h"
#include "daemon/placement/move_thread.h"

namespace tmprof {

// Moves that are over, and the number of those that will not be tried any more.
struct SettledMoves {
  std::vector<MoveOutcome> outcomes;
  std::uint64_t replaced = 0;
};

class MoveOrders {
 public:
  // `thread` must outlive it.
  explicit MoveOrders(MoveThread& thread) : thread_(&thread) {}

  // Takes back all moves that were not made. No page moves until the next Order(), so the outcomes
  // of all earlier moves are known.
  SettledMoves Stop();
  // Stop() for good: nothing moves any more.
  SettledMoves End();
  // Returns the moves that are over, and lets the others go on.
  SettledMoves Settle();
  void Order(std::vector<Move> moves) { thread_->Replace(std::move(moves)); }

  // Another configuration is to take over. Returns the moves that it would not have ordered; either
  // Order() or Drop() is to be called with them.
  std::vector<Move> Withdraw() { return thread_->Replace({}); }
  // Counts them among the next settled moves as replaced.
  void Drop(const std::vector<Move>& moves) { dropped_ += moves.size(); }

 private:
  MoveThread* thread_;
  std::uint64_t dropped_ = 0;
};

}  // namespace tmprof
