// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/move_orders.h"

#include <utility>

namespace tmprof {

SettledMoves MoveOrders::Stop() {
  dropped_ += thread_->Replace({}).size();
  return Settle();
}

SettledMoves MoveOrders::End() {
  thread_->Pause();
  return Stop();
}

SettledMoves MoveOrders::Settle() {
  return {.outcomes = thread_->TakeOutcomes(), .replaced = std::exchange(dropped_, 0)};
}

}  // namespace tmprof
