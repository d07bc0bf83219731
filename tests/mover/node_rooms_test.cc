// SPDX-License-Identifier: Apache-2.0

#include "mover/node_rooms.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace node_rooms_test {

constexpr NodeId kFast(0);
constexpr NodeId kSlow(1);

class NodeRoomsTest : public testing::Test {
 protected:
  std::uint64_t RoomOfFast(int second) {
    const std::vector<NodeMemory> nodes{
        {.id = kFast, .free = PageCount(900), .allocatable = PageCount(allocatable_)},
        {.id = kSlow, .free = PageCount(900), .allocatable = PageCount(500)}};
    const std::vector<NodeRoom> rooms =
        rooms_.At(nodes, MonotonicTime(std::chrono::seconds(second)));
    EXPECT_EQ(rooms.size(), 2U);
    EXPECT_EQ(rooms[1].node, kSlow);
    EXPECT_EQ(rooms[1].free, PageCount(400)) << "nothing was refused there";
    return rooms[0].free.value();
  }

  NodeRooms rooms_{PageCount(100)};
  std::uint64_t allocatable_ = 800;
};

TEST_F(NodeRoomsTest, IsWhatIsAllocatableBeyondTheReserve) {
  EXPECT_EQ(RoomOfFast(0), 700U);
  allocatable_ = 99;
  EXPECT_EQ(RoomOfFast(1), 0U);
}

TEST_F(NodeRoomsTest, DoesNotUseRefusedMemoryForASecond) {
  RoomOfFast(4);
  rooms_.Refuse(kFast);
  EXPECT_EQ(RoomOfFast(5), 0U);
  EXPECT_EQ(RoomOfFast(6), 700U);
}

TEST_F(NodeRoomsTest, MemoryFreedMeanwhileIsRoom) {
  rooms_.Refuse(kFast);
  EXPECT_EQ(RoomOfFast(5), 0U);
  rooms_.Refuse(kFast);
  EXPECT_EQ(RoomOfFast(6), 0U);
  allocatable_ += 30;
  EXPECT_EQ(RoomOfFast(7), 30U);
}

TEST_F(NodeRoomsTest, ForTwiceAsLongEachTimeUpToAMinute) {
  int second = 10;
  for (const int length : {1, 2, 4, 8, 16, 32, 60, 60}) {
    rooms_.Refuse(kFast);
    for (int i = 0; i < length; ++i) EXPECT_EQ(RoomOfFast(second++), 0U) << length;
    EXPECT_EQ(RoomOfFast(second), 700U) << length;
  }
}

TEST_F(NodeRoomsTest, ARefusalOfLongAgoIsForgotten) {
  rooms_.Refuse(kFast);
  RoomOfFast(0);
  rooms_.Refuse(kFast);
  RoomOfFast(1);
  rooms_.Refuse(kFast);
  EXPECT_EQ(RoomOfFast(200), 0U);
  EXPECT_EQ(RoomOfFast(201), 700U);
}

}  // namespace node_rooms_test
}  // namespace tmprof
