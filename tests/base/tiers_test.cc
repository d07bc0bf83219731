// SPDX-License-Identifier: Apache-2.0

#include "base/tiers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace tiers_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TiersTest, KnowEachNodesTier) {
  const Tiers tiers =
      Tiers::Make({{NodeId(0), NodeId(2)}, {NodeId(5)}, {NodeId(1), NodeId(3)}}).value();
  EXPECT_EQ(tiers.size(), 3U);
  EXPECT_EQ(tiers.TierOf(NodeId(2)), Tier(1));
  EXPECT_EQ(tiers.TierOf(NodeId(5)), Tier(2));
  EXPECT_EQ(tiers.TierOf(NodeId(3)), Tier(3));
  EXPECT_THAT(tiers.NodesOf(Tier(3)), ElementsAre(NodeId(1), NodeId(3)));
}

TEST(TiersTest, ANodeThatNobodyNamedIsInNone) {
  const Tiers tiers = Tiers::Make({{NodeId(0)}, {NodeId(3)}}).value();
  EXPECT_EQ(tiers.TierOf(NodeId(1)), std::nullopt);
  EXPECT_EQ(tiers.TierOf(NodeId(4)), std::nullopt);
}

TEST(TiersTest, RefuseWhatIsNoDivision) {
  EXPECT_THAT(Tiers::Make({{NodeId(0)}}).error().Message(), HasSubstr("1 tiers"));
  EXPECT_THAT(Tiers::Make({{NodeId(0)}, {}}).error().Message(), HasSubstr("tier 2"));
  EXPECT_THAT(Tiers::Make({{NodeId(0), NodeId(7)}, {NodeId(1), NodeId(7)}}).error().Message(),
              HasSubstr("node 7"));
  EXPECT_FALSE(Tiers::Make({}).has_value());
}

}  // namespace tiers_test
}  // namespace tmprof
