// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/move_orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace tmprof {
namespace move_orders_test {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class FakeCall final : public MoveCall {
 public:
  int operator()(Pid /*pid*/, std::span<const Vpn> /*pages*/, std::span<const NodeId> nodes,
                 std::span<int> status, MoveScope /*scope*/) override {
    std::ranges::transform(nodes, status.begin(), [](NodeId node) { return int{node.value()}; });
    return 0;
  }
};

std::vector<Move> Moves(std::uint64_t count) {
  std::vector<Move> moves;
  for (std::uint64_t i = 0; i < count; ++i) {
    moves.push_back({.key = {TargetId(1), Vpn(i)}, .from = NodeId(1), .to = NodeId(0)});
  }
  return moves;
}

class MoveOrdersTest : public testing::Test {
 protected:
  void WaitUntilMade() const {
    while (thread_.pending() > 0) std::this_thread::yield();
  }

  FakeCall call_;
  SystemClock clock_;
  MoveThread thread_{{}, call_, clock_, [](TargetId) { return Pid(1); }};
  MoveOrders orders_{thread_};
};

TEST_F(MoveOrdersTest, SettlesEachMoveOnce) {
  orders_.Order(Moves(100));
  WaitUntilMade();
  const SettledMoves settled = orders_.Stop();
  EXPECT_THAT(settled.outcomes, SizeIs(100));
  EXPECT_EQ(settled.replaced, 0U);
  EXPECT_THAT(orders_.Stop().outcomes, IsEmpty());
}

TEST_F(MoveOrdersTest, StopCountsMovesThatWereNotMadeAsReplaced) {
  thread_.Pause();
  orders_.Order(Moves(100));
  const SettledMoves settled = orders_.Stop();
  EXPECT_THAT(settled.outcomes, IsEmpty());
  EXPECT_EQ(settled.replaced, 100U);
  EXPECT_EQ(thread_.pending(), 0U);
  EXPECT_EQ(orders_.Stop().replaced, 0U);
}

TEST_F(MoveOrdersTest, SettleLetsTheOthersGoOn) {
  thread_.Pause();
  orders_.Order(Moves(100));
  EXPECT_EQ(orders_.Settle().replaced, 0U);
  EXPECT_EQ(thread_.pending(), 100U);
}

TEST_F(MoveOrdersTest, MovesNothingAfterTheEnd) {
  orders_.Order(Moves(10));
  WaitUntilMade();
  EXPECT_THAT(orders_.End().outcomes, SizeIs(10));
  EXPECT_TRUE(thread_.paused());
}

TEST_F(MoveOrdersTest, WithdrawnMovesAreOrderedAgainOrCountAsReplaced) {
  thread_.Pause();
  orders_.Order(Moves(7));
  std::vector<Move> withdrawn = orders_.Withdraw();
  EXPECT_THAT(withdrawn, SizeIs(7));
  orders_.Order(withdrawn);
  EXPECT_EQ(thread_.pending(), 7U);
  withdrawn = orders_.Withdraw();
  orders_.Drop(withdrawn);
  EXPECT_EQ(orders_.Settle().replaced, 7U);
}

}  // namespace move_orders_test
}  // namespace tmprof
