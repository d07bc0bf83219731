// SPDX-License-Identifier: Apache-2.0

#include "mover/placement_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace tmprof {
namespace placement_map_test {

constexpr TargetId kTarget{3};

VpnRange Pages(std::uint64_t start, std::uint64_t end) { return {Vpn(start), Vpn(end)}; }

PlacedRun RunOf(std::uint64_t start, std::uint64_t end, NodeId::rep node, std::uint64_t leaf = 1) {
  return {Pages(start, end), NodeId(node), PageCount(leaf)};
}

std::vector<PlacedRun> All(const PlacementMap& map) {
  std::vector<PlacedRun> runs;
  for (const auto& [start, run] : map.RunsOf(kTarget)) runs.push_back(run);
  return runs;
}

class PlacementMapTest : public testing::Test {
 protected:
  void Learn(VpnRange range, std::vector<PlacedRun> runs) { map_.Learn(kTarget, range, runs); }

  PlacementMap map_;
};

TEST_F(PlacementMapTest, KnowsNothingAtFirst) {
  EXPECT_EQ(map_.Find({kTarget, Vpn(7)}), std::nullopt);
  EXPECT_EQ(map_.runs(), 0U);
}

TEST_F(PlacementMapTest, KeepsWhatLiesOutsideTheRange) {
  Learn(Pages(0, 100), {RunOf(0, 100, 0)});
  Learn(Pages(40, 60), {RunOf(45, 50, 1)});
  EXPECT_THAT(All(map_),
              testing::ElementsAre(RunOf(0, 40, 0), RunOf(45, 50, 1), RunOf(60, 100, 0)));
}

TEST_F(PlacementMapTest, JoinsNeighboursThatAreAlike) {
  Learn(Pages(0, 10), {RunOf(0, 10, 0)});
  Learn(Pages(20, 30), {RunOf(20, 30, 0)});
  Learn(Pages(10, 20), {RunOf(10, 20, 0)});
  EXPECT_THAT(All(map_), testing::ElementsAre(RunOf(0, 30, 0)));
}

TEST_F(PlacementMapTest, KeepsLeavesOfDifferentSizesApart) {
  Learn(Pages(0, 1024), {RunOf(0, 512, 1), RunOf(512, 1024, 1, 512)});
  EXPECT_EQ(map_.Find({kTarget, Vpn(600)}), RunOf(512, 1024, 1, 512));
  EXPECT_EQ(map_.runs(), 2U);
}

TEST_F(PlacementMapTest, ForgetsWhatIsNoLongerMapped) {
  Learn(Pages(0, 100), {RunOf(0, 100, 0)});
  map_.KeepOnly(kTarget, std::vector{Pages(10, 20), Pages(90, 200)});
  EXPECT_THAT(All(map_), testing::ElementsAre(RunOf(10, 20, 0), RunOf(90, 100, 0)));
  map_.KeepOnly(kTarget, {});
  EXPECT_EQ(map_.runs(), 0U);
}

TEST_F(PlacementMapTest, ForgetsATargetAndNoOther) {
  Learn(Pages(0, 10), {RunOf(0, 10, 0)});
  map_.Learn(TargetId(4), Pages(0, 10), std::vector{RunOf(0, 10, 1)});
  map_.Forget(kTarget);
  EXPECT_EQ(map_.Find({kTarget, Vpn(5)}), std::nullopt);
  EXPECT_NE(map_.Find({TargetId(4), Vpn(5)}), std::nullopt);
}

TEST_F(PlacementMapTest, CountsPagesByTier) {
  const Tiers tiers = *Tiers::Make({{NodeId(0)}, {NodeId(1), NodeId(2)}});
  Learn(Pages(0, 100), {RunOf(0, 10, 0), RunOf(10, 30, 1), RunOf(30, 60, 2), RunOf(60, 100, 9)});
  EXPECT_EQ(map_.PagesIn(kTarget, tiers, Tier(1)), PageCount(10));
  EXPECT_EQ(map_.PagesIn(kTarget, tiers, Tier(2)), PageCount(50));
}

TEST_F(PlacementMapTest, TakesPlacesOverToNewAddresses) {
  Learn(Pages(0, 30), {RunOf(0, 10, 0), RunOf(10, 15, 1), RunOf(20, 30, 1)});
  // Pages 5 to 24 go up by 10, over others that go to another target.
  const TargetId other{5};
  map_.Rename(std::vector<Renamed>{{{kTarget, Vpn(5)}, PageKey{kTarget, Vpn(15)}, PageCount(20)},
                                   {{kTarget, Vpn(25)}, PageKey{other, Vpn(100)}, PageCount(3)},
                                   {{kTarget, Vpn(25)}, std::nullopt, PageCount(5)}});
  EXPECT_THAT(All(map_), testing::ElementsAre(RunOf(0, 5, 0), RunOf(15, 20, 0), RunOf(20, 25, 1),
                                              RunOf(30, 35, 1)));
  EXPECT_EQ(map_.Find({other, Vpn(100)}), RunOf(100, 103, 1));
  EXPECT_EQ(map_.Find({other, Vpn(103)}), std::nullopt);
}

TEST_F(PlacementMapTest, TakesAHugePageOverOnlyToWhereItCanBe) {
  Learn(Pages(0, 2048), {RunOf(0, 2048, 1, 512)});
  map_.Rename(
      std::vector<Renamed>{{{kTarget, Vpn(0)}, PageKey{kTarget, Vpn(4096)}, PageCount(512)},
                           {{kTarget, Vpn(512)}, PageKey{kTarget, Vpn(9)}, PageCount(512)},
                           {{kTarget, Vpn(1024)}, PageKey{kTarget, Vpn(8192)}, PageCount(9)}});
  EXPECT_THAT(All(map_),
              testing::ElementsAre(RunOf(1536, 2048, 1, 512), RunOf(4096, 4608, 1, 512)));
}

// Against one entry per page.
TEST_F(PlacementMapTest, AgreesWithANaiveMapAndStaysJoined) {
  constexpr std::uint64_t kPages = 64;
  std::mt19937_64 random(1);
  std::map<std::uint64_t, NodeId> naive;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t start = random() % kPages;
    const std::uint64_t end = start + random() % (kPages - start + 1);
    std::vector<PlacedRun> runs;
    if (random() % 8 == 0) {
      map_.KeepOnly(kTarget, std::vector{Pages(start, end)});
      std::erase_if(naive,
                    [&](const auto& page) { return page.first < start || page.first >= end; });
    } else {
      for (std::uint64_t page = start; page < end; ++page) {
        naive.erase(page);
        if (random() % 3 == 0) continue;
        const NodeId node(random() % 2);
        naive[page] = node;
        runs.push_back({Pages(page, page + 1), node, PageCount(1)});
      }
      Learn(Pages(start, end), runs);
    }
    for (std::uint64_t page = 0; page < kPages; ++page) {
      const auto found = map_.Find({kTarget, Vpn(page)});
      const auto expected = naive.find(page);
      ASSERT_EQ(found.has_value(), expected != naive.end()) << "step " << step << " page " << page;
      if (found) {
        ASSERT_EQ(found->node, expected->second) << "step " << step << " page " << page;
      }
    }
    const PlacedRun* before = nullptr;
    for (const auto& [vpn, run] : map_.RunsOf(kTarget)) {
      ASSERT_EQ(vpn, run.pages.start);
      ASSERT_LT(run.pages.start, run.pages.end);
      if (before != nullptr) {
        ASSERT_TRUE(before->pages.end < run.pages.start ||
                    (before->pages.end == run.pages.start && before->node != run.node));
      }
      before = &run;
    }
  }
}

}  // namespace placement_map_test
}  // namespace tmprof
