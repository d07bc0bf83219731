// SPDX-License-Identifier: Apache-2.0

#include "mover/move_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <unordered_map>

namespace tmprof {
namespace move_planner_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr TargetId kTarget{1};
constexpr NodeId kFast{0};
constexpr NodeId kSlow{1};
constexpr PageCount kHuge{512};

PageKey Key(std::uint64_t vpn) { return {kTarget, Vpn(vpn)}; }

PlacedSpan At(NodeId node, std::uint64_t vpn, double score, PageCount span = PageCount(1)) {
  return {.key = Key(vpn), .span = span, .node = node, .score = score};
}

Move Demotion(std::uint64_t vpn, double score, MoveReason reason = MoveReason::kRoom) {
  return {Key(vpn), PageCount(1), kFast, kSlow, score, reason};
}

Move Promotion(std::uint64_t vpn, double score) {
  return {Key(vpn), PageCount(1), kSlow, kFast, score, MoveReason::kWanted};
}

class DecideMovesTest : public testing::Test {
 protected:
  // Wants what is named, in that order.
  MoveDecision Decide(const std::vector<std::uint64_t>& wanted) {
    Plan plan;
    for (const std::uint64_t vpn : wanted) plan.wanted.push_back({.key = Key(vpn)});
    return DecideMoves(tiers_, rules_, plan, placed_, room_, history_, kEpoch);
  }

  static constexpr std::uint64_t kEpoch = 100;
  Tiers tiers_ = Tiers::Make({{kFast}, {kSlow}}).value();
  MoveRules rules_{.capacity = PageCount(4), .most_pages = PageCount(1000)};
  std::vector<PlacedSpan> placed_;
  std::vector<NodeRoom> room_ = {{kFast, PageCount(100)}, {kSlow, PageCount(100)}};
  MoveHistory history_{10};
};

TEST_F(DecideMovesTest, WantedPagesFillTheRoomThereIs) {
  placed_ = {At(kFast, 1, 5), At(kSlow, 2, 7), At(kSlow, 3, 6), At(kSlow, 4, 1)};
  EXPECT_THAT(Decide({2, 3, 1}).moves, ElementsAre(Promotion(2, 7), Promotion(3, 6)));
}

TEST_F(DecideMovesTest, MovesNothingIfAllWantedPagesAreThere) {
  placed_ = {At(kFast, 1, 5), At(kFast, 2, 7), At(kSlow, 3, 1)};
  EXPECT_THAT(Decide({2, 1}).moves, IsEmpty());
}

TEST_F(DecideMovesTest, TheLeastHotGivesWayFirstAndTheHighestKeyOfEquals) {
  placed_ = {At(kFast, 1, 2), At(kFast, 2, 1), At(kFast, 3, 1),
             At(kFast, 4, 3), At(kSlow, 5, 9), At(kSlow, 6, 8)};
  EXPECT_THAT(Decide({5, 6}).moves,
              ElementsAre(Demotion(3, 1), Demotion(2, 1), Promotion(5, 9), Promotion(6, 8)));
}

TEST_F(DecideMovesTest, WantedPagesNeverGiveWay) {
  rules_.capacity = PageCount(2);
  placed_ = {At(kFast, 1, 1), At(kFast, 2, 1), At(kSlow, 3, 9)};
  const MoveDecision decision = Decide({3, 1, 2});
  EXPECT_THAT(decision.moves, IsEmpty());
  EXPECT_EQ(decision.not_moved.without_room, 1U);
}

TEST_F(DecideMovesTest, PagesThatAreAboutAsHotStay) {
  rules_.capacity = PageCount(1);
  rules_.hysteresis = 1.5;
  placed_ = {At(kFast, 1, 10), At(kSlow, 2, 14)};
  const MoveDecision decision = Decide({2});
  EXPECT_THAT(decision.moves, IsEmpty());
  EXPECT_EQ(decision.not_moved.without_gain, 1U);
  placed_[1].score = 15;
  EXPECT_THAT(Decide({2}).moves, ElementsAre(Demotion(1, 10), Promotion(2, 15)));
}

TEST_F(DecideMovesTest, EquallyHotPagesDoNotSwap) {
  rules_.capacity = PageCount(1);
  placed_ = {At(kFast, 1, 10), At(kSlow, 2, 10)};
  EXPECT_THAT(Decide({2}).moves, IsEmpty());
}

TEST_F(DecideMovesTest, AMoveMustPayForItselfAndASwapForBoth) {
  rules_.cost_of_move = 3;
  placed_ = {At(kFast, 1, 4), At(kSlow, 2, 2), At(kSlow, 3, 3)};
  EXPECT_THAT(Decide({3, 2}).moves, ElementsAre(Promotion(3, 3)));
  rules_.capacity = PageCount(1);
  placed_ = {At(kFast, 1, 4), At(kSlow, 2, 9)};
  EXPECT_THAT(Decide({2}).moves, IsEmpty()) << "5 gained, 6 paid";
  placed_[1].score = 10;
  EXPECT_EQ(Decide({2}).moves.size(), 2U);
}

TEST_F(DecideMovesTest, APageOfASlowerTierPaysSooner) {
  constexpr NodeId kSlowest{2};
  tiers_ = Tiers::Make({{kFast}, {kSlow}, {kSlowest}}).value();
  room_.push_back({kSlowest, PageCount(100)});
  rules_.cost_of_move = 100;
  rules_.cost_from_tier = {6, 3};
  placed_ = {At(kSlow, 2, 5), At(kSlowest, 3, 4)};
  const MoveDecision decision = Decide({2, 3});
  ASSERT_EQ(decision.moves.size(), 1U);
  EXPECT_EQ(decision.moves[0].key, Key(3)) << "it gains more time with fewer accesses";
  rules_.cost_from_tier = {4};
  EXPECT_EQ(Decide({2, 3}).moves.size(), 2U) << "the last cost is that of all tiers below, too";
}

TEST_F(DecideMovesTest, PagesThatMovedLatelyStayWhereTheyAre) {
  rules_.capacity = PageCount(1);
  rules_.cool_down_epochs = 5;
  placed_ = {At(kFast, 1, 1), At(kSlow, 2, 9)};
  history_.Note(Key(2), kTier1, Tier(2), kEpoch - 4);
  EXPECT_THAT(Decide({2}).moves, IsEmpty());
  EXPECT_EQ(Decide({2}).not_moved.cooling, 1U);
  rules_.cool_down_epochs = 4;
  EXPECT_EQ(Decide({2}).moves.size(), 2U);
  history_.Note(Key(1), Tier(2), kTier1, kEpoch - 3);
  EXPECT_THAT(Decide({2}).moves, IsEmpty()) << "what would give way has just come";
}

TEST_F(DecideMovesTest, ASharedPageThatMovedThroughAnotherMappingHasMovedLately) {
  rules_.capacity = PageCount(1);
  rules_.cool_down_epochs = 5;
  placed_ = {At(kSlow, 2, 9)};
  history_.Note(Key(700), Tier(2), kTier1, kEpoch - 1);
  EXPECT_EQ(Decide({2}).moves.size(), 1U);
  rules_.page_of = [](PageKey key) { return PageKey{key.target, Vpn(key.vpn.value() + 698)}; };
  EXPECT_EQ(Decide({2}).not_moved.cooling, 1U);
}

// A page that has come lately, and is part of a cold piece by now.
TEST_F(DecideMovesTest, APieceOfWhichAPageHasMovedLatelyStays) {
  rules_.capacity = PageCount(8);
  rules_.cool_down_epochs = 5;
  placed_ = {At(kFast, 1, 0), At(kSlow, 20, 9)};
  placed_[0].span = PageCount(8);
  placed_[0].leaf = PageCount(1);
  history_.Note(Key(6), Tier(2), kTier1, kEpoch - 1);
  EXPECT_THAT(Decide({20}).moves, IsEmpty());
  rules_.cool_down_epochs = 1;
  EXPECT_EQ(Decide({20}).moves.size(), 2U);
}

TEST_F(DecideMovesTest, HeldSpansStayAndAreCountedByTheReason) {
  rules_.capacity = PageCount(1);
  placed_ = {At(kFast, 1, 1), At(kSlow, 2, 9), At(kSlow, 3, 8)};
  placed_[1].held = Held::kBackoff;
  const MoveDecision decision = Decide({2, 3});
  EXPECT_EQ(decision.not_moved, NotMoved{.backoff = 1});
  EXPECT_THAT(decision.moves, ElementsAre(Demotion(1, 1), Promotion(3, 8)));
  placed_[1].held = Held::kUnread;
  EXPECT_EQ(Decide({2, 3}).not_moved, NotMoved{.binding_unknown = 1});
  placed_[1].held = Held::kShared;
  EXPECT_EQ(Decide({2, 3}).not_moved, NotMoved{.shared = 1});
  placed_[1].held = Held::kMappedElsewhere;
  EXPECT_EQ(Decide({2, 3}).not_moved, NotMoved{.mapped_elsewhere = 1});
  const MemoryBinding bound(std::nullopt, std::vector{kSlow}, {});
  placed_[1].held = Held::kNot;
  placed_[1].binding = &bound;
  EXPECT_EQ(Decide({2, 3}).not_moved, NotMoved{.bound = 1});
  placed_[0].held = Held::kBackoff;
  EXPECT_EQ(Decide({3}).not_moved.without_room, 1U);
}

// Two sockets, each with fast and slow memory, and what a cpuset keeps to one of them.
class TwoSocketsTest : public DecideMovesTest {
 protected:
  static constexpr NodeId kFarFast{2};
  static constexpr NodeId kFarSlow{3};

  TwoSocketsTest() {
    tiers_ = Tiers::Make({{kFast, kFarFast}, {kSlow, kFarSlow}}).value();
    room_ = {{kFast, PageCount(5)},
             {kSlow, PageCount(50)},
             {kFarFast, PageCount(9)},
             {kFarSlow, PageCount(90)}};
  }
  PlacedSpan Near(NodeId node, std::uint64_t vpn, double score) const {
    PlacedSpan span = At(node, vpn, score);
    span.binding = &near_;
    return span;
  }

  const MemoryBinding near_{std::vector{kFast, kSlow}, std::nullopt, {}};
};

TEST_F(TwoSocketsTest, GoesToTheNodeThatItMayGoToAndNotToTheRoomiest) {
  placed_ = {Near(kSlow, 1, 5), At(kSlow, 2, 4)};
  Move near = Promotion(1, 5);
  Move far = Promotion(2, 4);
  far.to = kFarFast;
  EXPECT_THAT(Decide({1, 2}).moves, ElementsAre(near, far));
}

TEST_F(TwoSocketsTest, GivesWayToWhereItMayGo) {
  rules_.capacity = PageCount(1);
  placed_ = {Near(kFast, 1, 1), Near(kSlow, 2, 9)};
  EXPECT_THAT(Decide({2}).moves, ElementsAre(Demotion(1, 1), Promotion(2, 9)));
}

TEST_F(TwoSocketsTest, ASpanThatMayGoToNoNodeOfTheTierIsBound) {
  const MemoryBinding slow_only(std::vector{kSlow, kFarSlow}, std::nullopt, {});
  const MemoryBinding fast_only(std::vector{kFast, kFarFast}, std::nullopt, {});
  rules_.capacity = PageCount(1);
  placed_ = {At(kFast, 1, 1), At(kSlow, 2, 9), At(kSlow, 3, 9)};
  placed_[1].binding = &slow_only;
  EXPECT_EQ(Decide({2}).not_moved.bound, 1U);
  placed_[0].binding = &fast_only;
  EXPECT_EQ(Decide({3}).not_moved.without_room, 1U) << "nothing may give way";
}

// The coldest page of tier 1 is on the node that the hot page may not go to.
TEST_F(TwoSocketsTest, OnlyWhatLeavesItsNodeMakesRoomWhereTheTierHasSome) {
  rules_.capacity = PageCount(10);
  room_[0].free = PageCount(0);
  placed_ = {At(kFarFast, 1, 1), At(kFast, 2, 2), Near(kSlow, 3, 9)};
  Move demoted = Demotion(2, 2);
  demoted.to = kFarSlow;
  EXPECT_THAT(Decide({3}).moves, ElementsAre(demoted, Promotion(3, 9)));
  placed_[1].score = 8;  // too hot to give way
  EXPECT_EQ(Decide({3}).not_moved.without_gain, 1U);
  rules_.capacity = PageCount(2);
  placed_[1].score = 2;
  EXPECT_THAT(Decide({3}).moves, ElementsAre(demoted, Promotion(3, 9)))
      << "it makes both kinds of room";
}

TEST_F(TwoSocketsTest, ASpanWithoutRoomBelowHoldsUpNoOther) {
  rules_.capacity = PageCount(2);
  room_[1].free = PageCount(0);  // free near slow memory
  placed_ = {Near(kFast, 1, 1), At(kFast, 2, 2), At(kSlow, 3, 9), At(kSlow, 4, 8)};
  Move demoted = Demotion(2, 2);
  demoted.to = kFarSlow;
  Move promoted = Promotion(3, 9);
  promoted.to = kFarFast;
  const MoveDecision decision = Decide({3, 4});
  EXPECT_THAT(decision.moves, ElementsAre(demoted, promoted));
  EXPECT_EQ(decision.not_moved.without_room, 1U);
  rules_.capacity = PageCount(1);
  demoted.reason = MoveReason::kOverCapacity;
  EXPECT_THAT(Decide({}).moves, ElementsAre(demoted));
}

TEST_F(DecideMovesTest, CountsSpansOnNoKnownNode) {
  placed_ = {At(NodeId(7), 1, 5)};
  const MoveDecision decision = Decide({1, 2});
  EXPECT_THAT(decision.moves, IsEmpty());
  EXPECT_EQ(decision.not_moved.unplaced, 2U);
}

TEST_F(DecideMovesTest, AHugePageMovesWholeOrNotAtAll) {
  rules_.capacity = PageCount(513);
  placed_ = {At(kFast, 1, 1), At(kFast, 2, 1), At(kFast, 3, 9), At(kSlow, 512, 51200, kHuge)};
  room_ = {{kFast, PageCount(510)}, {kSlow, PageCount(100)}};
  const Move huge{Key(512), kHuge, kSlow, kFast, 51200, MoveReason::kWanted};
  EXPECT_THAT(Decide({512, 3}).moves, ElementsAre(Demotion(2, 1), Demotion(1, 1), huge));
  placed_[1].score = 100;  // each page of the huge one is as hot
  EXPECT_THAT(Decide({512, 3}).moves, IsEmpty()) << "then page 1 stays, too";
}

TEST_F(DecideMovesTest, SmallerSpansTakeTheRoomThatALargeOneCannot) {
  rules_.capacity = PageCount(2);
  placed_ = {At(kSlow, 1, 9), At(kSlow, 512, 51200, kHuge)};
  const MoveDecision decision = Decide({512, 1});
  EXPECT_THAT(decision.moves, ElementsAre(Promotion(1, 9)));
  EXPECT_EQ(decision.not_moved.without_room, 1U);
}

TEST_F(DecideMovesTest, ASpanOfManyLeavesGivesWayAsFarAsNeededTheHighestFirst) {
  rules_.capacity = PageCount(10);
  placed_ = {At(kFast, 100, 0, PageCount(10)), At(kSlow, 200, 9), At(kSlow, 201, 8)};
  placed_[0].leaf = PageCount(1);
  EXPECT_THAT(Decide({200, 201}).moves, ElementsAre(Demotion(109, 0), Demotion(108, 0),
                                                    Promotion(200, 9), Promotion(201, 8)));
  placed_[0].leaf = PageCount(4);
  EXPECT_EQ(Decide({200, 201}).moves.front(),
            (Move{Key(106), PageCount(4), kFast, kSlow, 0, MoveReason::kRoom}));
}

TEST_F(DecideMovesTest, ASpanOfManyLeavesStaysAsFarAsTheCapacityHolds) {
  rules_.capacity = PageCount(4);
  placed_ = {At(kFast, 100, 20, PageCount(10))};
  placed_[0].leaf = PageCount(1);
  EXPECT_THAT(Decide({}).moves, ElementsAre(Move{Key(104), PageCount(6), kFast, kSlow, 12,
                                                 MoveReason::kOverCapacity}));
  rules_.most_pages = PageCount(2);
  EXPECT_THAT(Decide({}).moves, ElementsAre(Move{Key(108), PageCount(2), kFast, kSlow, 4,
                                                 MoveReason::kOverCapacity}));
}

TEST_F(DecideMovesTest, NoSpanGivesWayIfThereIsNoRoomBelow) {
  rules_.capacity = PageCount(1);
  room_[1].free = PageCount(0);
  placed_ = {At(kFast, 1, 1), At(kSlow, 2, 9)};
  const MoveDecision decision = Decide({2});
  EXPECT_THAT(decision.moves, IsEmpty());
  EXPECT_EQ(decision.not_moved.without_room, 1U);
}

TEST_F(DecideMovesTest, RoomThatAPromotionLeavesIsNotThereForDemotions) {
  room_ = {{kFast, PageCount(1)}, {kSlow, PageCount(1)}};
  rules_.capacity = PageCount(3);
  placed_ = {At(kFast, 1, 1), At(kFast, 2, 2), At(kSlow, 3, 9), At(kSlow, 4, 8), At(kSlow, 5, 7)};
  // 3 has room, 4 has that of 1, which takes the only page below.
  EXPECT_THAT(Decide({3, 4, 5}).moves,
              ElementsAre(Demotion(1, 1), Promotion(3, 9), Promotion(4, 8)));
}

TEST_F(DecideMovesTest, TheQuotaHoldsForDemotionsToo) {
  rules_.capacity = PageCount(2);
  rules_.most_pages = PageCount(3);
  placed_ = {At(kFast, 1, 1), At(kFast, 2, 2), At(kSlow, 3, 9), At(kSlow, 4, 8)};
  const MoveDecision decision = Decide({3, 4});
  EXPECT_THAT(decision.moves, ElementsAre(Demotion(1, 1), Promotion(3, 9)));
  EXPECT_EQ(decision.not_moved.over_quota, 1U);
}

TEST_F(DecideMovesTest, Tier1ThatHoldsTooMuchIsLowered) {
  rules_.capacity = PageCount(1);
  placed_ = {At(kFast, 1, 3), At(kFast, 2, 2), At(kFast, 3, 1)};
  EXPECT_THAT(Decide({1}).moves, ElementsAre(Demotion(3, 1, MoveReason::kOverCapacity),
                                             Demotion(2, 2, MoveReason::kOverCapacity)));
}

TEST_F(DecideMovesTest, TheRoomiestNodeIsChosenAndTheNextTierBelow) {
  tiers_ = Tiers::Make({{NodeId(0), NodeId(1)}, {NodeId(2)}, {NodeId(3)}}).value();
  room_ = {{NodeId(0), PageCount(1)},
           {NodeId(1), PageCount(2)},
           {NodeId(2), PageCount(1)},
           {NodeId(3), PageCount(9)}};
  rules_.capacity = PageCount(2);
  placed_ = {At(NodeId(0), 1, 1), At(NodeId(1), 2, 2), At(NodeId(2), 3, 9), At(NodeId(3), 4, 8)};
  const auto moves = Decide({3, 4}).moves;
  ASSERT_EQ(moves.size(), 4U);
  EXPECT_EQ(moves[0].to, NodeId(2)) << "the tier below, with its one page";
  EXPECT_EQ(moves[1].to, NodeId(3)) << "then the next";
  EXPECT_EQ(moves[2].to, NodeId(0)) << "two pages free on both: the lower number";
  EXPECT_EQ(moves[3].to, NodeId(1)) << "three pages against one";
}

// Three tiers of a node each, of which the middle one may be small.
class ThreeTiersTest : public DecideMovesTest {
 protected:
  static constexpr NodeId kFar{2};

  ThreeTiersTest() {
    tiers_ = Tiers::Make({{kFast}, {kSlow}, {kFar}}).value();
    room_.push_back({kFar, PageCount(100)});
  }
  static Move ToFar(NodeId from, std::uint64_t vpn, double score, MoveReason reason) {
    return {Key(vpn), PageCount(1), from, kFar, score, reason};
  }
};

TEST_F(ThreeTiersTest, PagesBeyondALowerTiersCapacityGoDownTheColdestFirst) {
  rules_.lower_capacities = {PageCount(2)};
  placed_ = {At(kFast, 1, 9), At(kSlow, 2, 5), At(kSlow, 3, 1), At(kSlow, 4, 4), At(kSlow, 5, 0)};
  EXPECT_THAT(Decide({}).moves, ElementsAre(ToFar(kSlow, 5, 0, MoveReason::kOverCapacity),
                                            ToFar(kSlow, 3, 1, MoveReason::kOverCapacity)));
  rules_.lower_capacities = {std::nullopt};
  EXPECT_THAT(Decide({}).moves, IsEmpty()) << "its node has room";
}

TEST_F(ThreeTiersTest, WantedAndUnknownPagesDoNotGoFurtherDown) {
  rules_.lower_capacities = {PageCount(1)};
  placed_ = {At(kSlow, 2, 3), At(kSlow, 3, 0), At(kSlow, 4, 7)};
  placed_[1].assumed = true;
  EXPECT_THAT(Decide({2}).moves,
              ElementsAre(ToFar(kSlow, 4, 7, MoveReason::kOverCapacity), Promotion(2, 3)));
}

TEST_F(ThreeTiersTest, PagesThatGiveWayFillTheTierBelowUpToItsCapacity) {
  rules_.capacity = PageCount(2);
  rules_.lower_capacities = {PageCount(2)};
  placed_ = {At(kFast, 1, 1), At(kFast, 2, 2), At(kSlow, 3, 0), At(kFar, 4, 9), At(kFar, 5, 8)};
  Move hottest = Promotion(4, 9);
  Move next = Promotion(5, 8);
  hottest.from = next.from = kFar;
  EXPECT_THAT(Decide({4, 5}).moves,
              ElementsAre(Demotion(1, 1), ToFar(kFast, 2, 2, MoveReason::kRoom), hottest, next));
}

TEST_F(ThreeTiersTest, PagesThatLeaveALowerTierMakeRoomForThoseThatLeaveTier1) {
  rules_.capacity = PageCount(1);
  rules_.lower_capacities = {PageCount(1)};
  room_[1].free = PageCount(0);
  placed_ = {At(kFast, 1, 1), At(kFast, 2, 2), At(kSlow, 3, 0), At(kSlow, 4, 3)};
  EXPECT_THAT(Decide({}).moves, ElementsAre(ToFar(kSlow, 3, 0, MoveReason::kOverCapacity),
                                            ToFar(kFast, 1, 1, MoveReason::kOverCapacity)))
      << "the tier is full: its node has room, its capacity has none";
  rules_.lower_capacities = {PageCount(2)};
  EXPECT_THAT(Decide({}).moves, ElementsAre(ToFar(kFast, 1, 1, MoveReason::kOverCapacity)));
}

TEST_F(ThreeTiersTest, LoweringATierBelowLeavesHalfOfTheMovesToPromotions) {
  rules_.lower_capacities = {PageCount(1)};
  rules_.most_pages = PageCount(4);
  placed_ = {At(kSlow, 1, 9), At(kSlow, 2, 8), At(kSlow, 3, 1), At(kSlow, 4, 2), At(kSlow, 5, 3)};
  EXPECT_THAT(Decide({1, 2}).moves, ElementsAre(ToFar(kSlow, 3, 1, MoveReason::kOverCapacity),
                                                ToFar(kSlow, 4, 2, MoveReason::kOverCapacity),
                                                Promotion(1, 9), Promotion(2, 8)));
}

// Whatever is asked, what is decided can be carried out in its order.
TEST_F(DecideMovesTest, EveryMoveFindsRoomInTheOrderGiven) {
  std::mt19937 random(7);
  tiers_ = Tiers::Make({{NodeId(0), NodeId(1)}, {NodeId(2)}, {NodeId(3)}}).value();
  std::size_t moved = 0;
  for (int round = 0; round < 500; ++round) {
    placed_.clear();
    PageCount used;
    PageCount used_below;  // pages of tier 2
    std::vector<std::uint64_t> wanted;
    for (std::uint64_t i = 0; i < 40; ++i) {
      const PageCount span = random() % 8 == 0 ? kHuge : PageCount(1);
      const NodeId node(static_cast<std::uint16_t>(random() % 4));
      placed_.push_back(At(node, i * 512, static_cast<double>(random() % 4000), span));
      if (random() % 10 == 0) placed_.back().held = Held::kBackoff;
      if (random() % 2 == 0) wanted.push_back(i * 512);
      if (node.value() < 2) used += span;
      if (node.value() == 2) used_below += span;
    }
    std::ranges::sort(wanted, std::greater{}, [&](std::uint64_t vpn) {
      const PlacedSpan& span = placed_[vpn / 512];
      return span.score / static_cast<double>(span.span.value());
    });
    room_.clear();
    for (std::uint16_t node = 0; node < 4; ++node) {
      room_.push_back({NodeId(node), PageCount(random() % 700)});
    }
    rules_.capacity = PageCount(random() % 3000);
    rules_.most_pages = PageCount(random() % 2000);
    rules_.lower_capacities.assign(random() % 2, PageCount(random() % 3000));
    const PageCount most_below = rules_.lower_capacities.empty()
                                     ? PageCount(40 * kHuge.value())
                                     : std::max(used_below, *rules_.lower_capacities.front());

    std::unordered_map<int, std::int64_t> free;
    for (const NodeRoom& node : room_) {
      free[node.node.value()] = static_cast<std::int64_t>(node.free.value());
    }
    PageCount pages;
    bool promoting = false;
    for (const Move& move : Decide(wanted).moves) {
      const auto span = static_cast<std::int64_t>(move.span.value());
      ASSERT_TRUE(!promoting || move.reason == MoveReason::kWanted) << "demotions come first";
      promoting = move.reason == MoveReason::kWanted;
      free[move.to.value()] -= span;
      ASSERT_GE(free[move.to.value()], 0);
      free[move.from.value()] += span;
      pages += move.span;
      if (promoting) used += move.span;
      if (move.from.value() < 2) used -= move.span;
      if (move.to.value() == 2) used_below += move.span;
      if (move.from.value() == 2) used_below -= move.span;
      ASSERT_LE(used_below, most_below);
      ASSERT_TRUE(!promoting || used <= rules_.capacity);
      ++moved;
    }
    ASSERT_LE(pages, rules_.most_pages);
  }
  EXPECT_GT(moved, 1000U) << "or nothing was tried";
}

}  // namespace move_planner_test
}  // namespace tmprof
