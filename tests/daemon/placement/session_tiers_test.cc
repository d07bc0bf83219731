// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/session_tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>

namespace tmprof {
namespace session_tiers_test {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

NodeTopology TwoClasses() {
  return {.nodes = {{.id = NodeId(0),
                     .has_cpus = true,
                     .total = PageCount(9),
                     .read_latency = nanoseconds(80)},
                    {.id = NodeId(1), .total = PageCount(9), .read_latency = nanoseconds(250)}},
          .tiers = {{NodeId(0)}, {NodeId(1)}}};
}

Result<NodeTopology> Unknown() { return Fail(Refused("read nodes", "/sys", ENOENT)); }

TEST(SessionTiersOf, FindsThoseOfTheMachineAndSaysHow) {
  const auto found = SessionTiersOf(std::nullopt, false, TwoClasses());
  ASSERT_TRUE(found) << found.error().Message();
  EXPECT_EQ(found->tiers, *Tiers::Make({{NodeId(0)}, {NodeId(1)}}));
  EXPECT_THAT(found->latencies, ElementsAre(80.0, 250.0));
  EXPECT_THAT(found->found, StartsWith("tier 1: node 0; tier 2: node 1, by "));
  EXPECT_THAT(found->warning, IsEmpty());
}

TEST(SessionTiersOf, KeepsThoseThatAreGiven) {
  const Tiers reversed = *Tiers::Make({{NodeId(1)}, {NodeId(0)}});
  const auto given = SessionTiersOf(reversed, false, TwoClasses());
  ASSERT_TRUE(given) << given.error().Message();
  EXPECT_EQ(given->tiers, reversed);
  EXPECT_THAT(given->latencies, ElementsAre(250.0, 80.0));
  EXPECT_THAT(given->found, IsEmpty());
}

TEST(SessionTiersOf, GoesOnByAssumedGapsWhereTheTopologyIsUnknown) {
  const Tiers tiers = *Tiers::Make({{NodeId(0)}, {NodeId(1)}});
  const auto assumed = SessionTiersOf(tiers, false, Unknown());
  ASSERT_TRUE(assumed) << assumed.error().Message();
  EXPECT_THAT(assumed->latencies, IsEmpty());
  EXPECT_THAT(assumed->warning, HasSubstr("; latency gaps are assumed"));
  EXPECT_THAT(SessionTiersOf(tiers, true, Unknown())->warning, IsEmpty()) << "the gap was given";
}

TEST(SessionTiersOf, IsRefusedWhereTiersAreToBeFoundAndCannotBe) {
  EXPECT_EQ(SessionTiersOf(std::nullopt, false, Unknown()).error().system_error, ENOENT);
  NodeTopology one = TwoClasses();
  one.nodes.pop_back();
  one.tiers.clear();
  EXPECT_FALSE(SessionTiersOf(std::nullopt, false, one));
}

TEST(GapTexts, TellEachTierBelowTheFirst) {
  EXPECT_THAT(GapTexts(GapsOf({80.0, 250.0, std::nullopt}, std::nullopt),
                       *Tiers::Make({{NodeId(0)}, {NodeId(1)}, {NodeId(2)}})),
              ElementsAre("an access takes 170 ns longer in tier 2 than in tier 1 (firmware)",
                          "an access takes 100 ns longer in tier 3 than in tier 1 (assumed)"));
}

}  // namespace session_tiers_test
}  // namespace tmprof
