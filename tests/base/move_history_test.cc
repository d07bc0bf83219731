// SPDX-License-Identifier: Apache-2.0

#include "base/move_history.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace move_history_test {

constexpr PageKey kPage{TargetId(1), Vpn(0x7f0000)};
constexpr Tier kTier2{2};
constexpr Tier kTier3{3};

TEST(MoveHistoryTest, CountsTheEpochsSinceTheLatestMove) {
  MoveHistory history(10);
  EXPECT_EQ(history.EpochsSince(kPage, 4), std::nullopt);
  history.Note(kPage, kTier2, kTier1, 4);
  EXPECT_EQ(history.EpochsSince(kPage, 4), 0U);
  history.Note(kPage, kTier1, kTier2, 7);
  EXPECT_EQ(history.EpochsSince(kPage, 9), 2U);
}

TEST(MoveHistoryTest, AMoveBackWithinWhatIsRememberedUndoes) {
  MoveHistory history(10);
  EXPECT_FALSE(history.Note(kPage, kTier2, kTier1, 0));
  EXPECT_TRUE(history.Note(kPage, kTier1, kTier2, 9));
  EXPECT_FALSE(history.Note(kPage, kTier2, kTier1, 19)) << "ten epochs later";
}

TEST(MoveHistoryTest, AMoveOnUndoesNothing) {
  MoveHistory history(10);
  history.Note(kPage, kTier1, kTier2, 0);
  EXPECT_FALSE(history.Note(kPage, kTier2, kTier3, 1));
  EXPECT_FALSE(history.Note(kPage, kTier3, kTier1, 2));
}

TEST(MoveHistoryTest, ForgetsWhatIsOld) {
  MoveHistory history(3);
  history.Note(kPage, kTier1, kTier2, 5);
  EXPECT_EQ(history.EpochsSince(kPage, 7), 2U);
  EXPECT_EQ(history.EpochsSince(kPage, 8), std::nullopt);
  history.ForgetOld(7);
  EXPECT_EQ(history.size(), 1U);
  history.ForgetOld(8);
  EXPECT_EQ(history.size(), 0U);
}

TEST(MoveHistoryTest, ForgetsATargetAndNoOther) {
  const PageKey other{TargetId(2), kPage.vpn};
  MoveHistory history(3);
  history.Note(kPage, kTier1, kTier2, 0);
  history.Note(other, kTier1, kTier2, 0);
  history.Forget(TargetId(1));
  EXPECT_EQ(history.EpochsSince(kPage, 0), std::nullopt);
  EXPECT_EQ(history.EpochsSince(other, 0), 0U);
}

}  // namespace move_history_test
}  // namespace tmprof
