// SPDX-License-Identifier: Apache-2.0

#include "mover/assumed_moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace assumed_moves_test {

using ::testing::ElementsAre;

constexpr TargetId kTarget{1};
constexpr Pid kPid{11};
constexpr NodeId kFast{0};
constexpr NodeId kSlow{1};
constexpr PageCount kHuge{512};

VpnRange Pages(std::uint64_t start, std::uint64_t end) { return {Vpn(start), Vpn(end)}; }

PlacedRun Placed(std::uint64_t start, std::uint64_t end, NodeId node,
                 PageCount leaf = PageCount(1)) {
  return {Pages(start, end), node, leaf};
}

class FakeLocator final : public PageLocator {
 public:
  Result<std::vector<PlacedRun>> Locate(Pid /*pid*/, VpnRange /*range*/,
                                        std::span<const VpnRange> /*joint*/) override {
    return runs;
  }
  std::vector<PlacedRun> runs;
};

class AssumedMovesTest : public testing::Test {
 protected:
  AssumedMovesTest() { Follow({Pages(0, 10'000)}); }
  void Follow(std::vector<VpnRange> mapped) {
    moves_.Follow(std::vector<SurveyedTarget>{{kTarget, kPid, std::move(mapped)}});
  }
  std::vector<PlacedRun> Located() { return moves_.Locate(kPid, Pages(0, 10'000), {}).value(); }

  FakeLocator real_;
  AssumedMoves moves_{real_};
};

TEST_F(AssumedMovesTest, PagesAreWhereTheyWereAssumedToGo) {
  real_.runs = {Placed(100, 200, kSlow)};
  EXPECT_EQ(Located(), real_.runs);
  moves_.Suppose(kTarget, Pages(120, 130), kSlow, kFast, PageCount(1));
  moves_.Suppose(kTarget, Pages(150, 151), kSlow, kFast, PageCount(1));
  EXPECT_THAT(Located(),
              ElementsAre(Placed(100, 120, kSlow), Placed(120, 130, kFast), Placed(130, 150, kSlow),
                          Placed(150, 151, kFast), Placed(151, 200, kSlow)));
  EXPECT_EQ(moves_.PagesGained(kSlow), 11);
  EXPECT_EQ(moves_.PagesGained(kFast), -11);
}

TEST_F(AssumedMovesTest, PagesThatWouldHaveGoneBackGainNoRoom) {
  real_.runs = {Placed(100, 200, kSlow)};
  moves_.Suppose(kTarget, Pages(120, 130), kSlow, kFast, PageCount(1));
  moves_.Suppose(kTarget, Pages(115, 125), kFast, kSlow, PageCount(1));
  EXPECT_EQ(moves_.PagesGained(kFast), 0) << "5 from slow, 5 that were on fast before all";
}

TEST_F(AssumedMovesTest, HugePagesAreInOnePlace) {
  real_.runs = {Placed(512, 2048, kSlow, kHuge)};
  moves_.Suppose(kTarget, Pages(1024, 1536), kSlow, kFast, kHuge);
  EXPECT_THAT(Located(),
              ElementsAre(Placed(512, 1024, kSlow, kHuge), Placed(1024, 1536, kFast, kHuge),
                          Placed(1536, 2048, kSlow, kHuge)));
}

TEST_F(AssumedMovesTest, PagesThatHaveLeftMemoryAreWhereTheyComeBack) {
  real_.runs = {Placed(100, 200, kSlow)};
  moves_.Suppose(kTarget, Pages(120, 130), kSlow, kFast, PageCount(1));
  real_.runs = {Placed(100, 125, kSlow)};
  EXPECT_THAT(Located(), ElementsAre(Placed(100, 120, kSlow), Placed(120, 125, kFast)));
  EXPECT_EQ(moves_.PagesGained(kSlow), 5);
  real_.runs = {Placed(100, 200, kSlow)};
  EXPECT_THAT(Located(), ElementsAre(Placed(100, 120, kSlow), Placed(120, 125, kFast),
                                     Placed(125, 200, kSlow)));
}

TEST_F(AssumedMovesTest, ForgetsWhatIsMappedNoMoreAndTargetsThatAreGone) {
  moves_.Suppose(kTarget, Pages(120, 130), kSlow, kFast, PageCount(1));
  Follow({Pages(0, 122)});
  EXPECT_EQ(moves_.PagesGained(kSlow), 2);
  moves_.Follow({});
  Follow({Pages(0, 10'000)});
  EXPECT_EQ(moves_.PagesGained(kSlow), 0);
}

TEST_F(AssumedMovesTest, UndoneAllAreWhereTheyReallyAre) {
  real_.runs = {Placed(100, 200, kSlow)};
  PlacementMap map;
  moves_.Suppose(kTarget, Pages(120, 130), kSlow, kFast, PageCount(1));
  map.Learn(kTarget, Pages(0, 10'000), Located());
  moves_.Undo(map);
  EXPECT_EQ(map.Find({kTarget, Vpn(125)})->node, kSlow);
  EXPECT_EQ(map.runs(), 1U);
  EXPECT_EQ(Located(), real_.runs);
}

TEST_F(AssumedMovesTest, UndoingPlacesNoPageThatTheMapHasForgotten) {
  real_.runs = {Placed(100, 200, kSlow)};
  PlacementMap map;
  moves_.Suppose(kTarget, Pages(120, 130), kSlow, kFast, PageCount(1));
  map.Learn(kTarget, Pages(0, 10'000), Located());
  map.Learn(kTarget, Pages(125, 200), {});
  moves_.Undo(map);
  EXPECT_EQ(map.Find({kTarget, Vpn(124)})->node, kSlow);
  EXPECT_EQ(map.Find({kTarget, Vpn(125)}), std::nullopt);
}

TEST_F(AssumedMovesTest, MovesGoWithPagesToNewAddresses) {
  moves_.Suppose(kTarget, Pages(120, 130), kSlow, kFast, PageCount(1));
  moves_.Rename(
      std::vector<Renamed>{{{kTarget, Vpn(125)}, PageKey{kTarget, Vpn(300)}, PageCount(5)}});
  real_.runs = {Placed(100, 400, kSlow)};
  EXPECT_THAT(Located(),
              ElementsAre(Placed(100, 120, kSlow), Placed(120, 125, kFast), Placed(125, 300, kSlow),
                          Placed(300, 305, kFast), Placed(305, 400, kSlow)));
  EXPECT_EQ(moves_.PagesGained(kSlow), 10);
}

}  // namespace assumed_moves_test
}  // namespace tmprof
