// SPDX-License-Identifier: Apache-2.0

#include "base/host/node_list.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace node_list_test {

TEST(ParseNodeList, ReadsNumbersAndRanges) {
  EXPECT_EQ(ParseNodeList("0"), (std::vector{NodeId(0)}));
  EXPECT_EQ(ParseNodeList("0-2,5"), (std::vector{NodeId(0), NodeId(1), NodeId(2), NodeId(5)}));
  EXPECT_EQ(ParseNodeList("1023"), (std::vector{NodeId(1023)}));
  EXPECT_EQ(ParseNodeList("65534-65535")->size(), 2U);
}

TEST(ParseNodeList, KnowsTheEmptyList) {
  EXPECT_EQ(ParseNodeList(""), (std::vector<NodeId>{}));
  EXPECT_EQ(ParseNodeList("\n"), (std::vector<NodeId>{}));
}

TEST(ParseNodeList, IgnoresWhiteSpaceAround) {
  EXPECT_EQ(ParseNodeList("\t0-1\n"), (std::vector{NodeId(0), NodeId(1)}));
}

TEST(ParseNodeList, RefusesWhatIsNoList) {
  for (const char* text : {"a", "0,", ",0", "0-", "-1", "1-0", "0 1", "0-1-2", "65536", "0,,1",
                           "1,0", "0-2,1", "0-1,1", "0x1"}) {
    EXPECT_EQ(ParseNodeList(text), std::nullopt) << text;
  }
}

}  // namespace node_list_test
}  // namespace tmprof
