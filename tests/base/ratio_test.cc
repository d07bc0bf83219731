// SPDX-License-Identifier: Apache-2.0

#include "base/ratio.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace ratio_test {

TEST(ParseRatio, ReadsThreeWaysOfWritingTheSame) {
  for (const char* text : {"1/16", "2/32", "0.0625", ".0625", "6.25%", "06.250%"}) {
    const auto ratio = ParseRatio(text);
    ASSERT_TRUE(ratio.has_value()) << text;
    EXPECT_EQ(*ratio, (Ratio{1, 16})) << text;
  }
  EXPECT_EQ(ParseRatio("100%"), (Ratio{1, 1}));
  EXPECT_EQ(ParseRatio("1"), (Ratio{1, 1}));
  EXPECT_EQ(ParseRatio("0.1"), (Ratio{1, 10}));
}

TEST(ParseRatio, RefusesWhatIsNoPartOfAWhole) {
  for (const char* text : {"",
                           "0",
                           "0/5",
                           "0.0",
                           "0%",
                           "1/0",
                           "2",
                           "17/16",
                           "100.1%",
                           "-1/16",
                           "1/-16",
                           "+1/2",
                           "1/16 ",
                           "1//2",
                           "1/2/3",
                           "1/2%",
                           "a",
                           ".",
                           "1.",
                           "%",
                           "1e-2",
                           "0.00000000000000000000001",
                           "1/99999999999999999999",
                           "nan"}) {
    const auto ratio = ParseRatio(text);
    ASSERT_FALSE(ratio.has_value()) << text;
    EXPECT_EQ(ratio.error().ExitStatus(), 2) << text;
  }
}

TEST(ToString, IsReadBackAsTheSame) {
  EXPECT_EQ(ToString(Ratio{1, 16}), "1/16");
  EXPECT_EQ(ToString(Ratio{1, 1}), "1");
}

TEST(CapacityAt, RoundsDownToAtLeastOnePageWithoutOverflow) {
  EXPECT_EQ(CapacityAt({1, 3}, PageCount(10)), PageCount(3));
  EXPECT_EQ(CapacityAt({1, 128}, PageCount(10)), PageCount(1));
  EXPECT_EQ(CapacityAt({1, 1}, PageCount(10)), PageCount(10));
  const std::uint64_t large = std::uint64_t{1} << 60;
  EXPECT_EQ(CapacityAt({large - 1, large}, PageCount(large)), PageCount(large - 1));
}

}  // namespace ratio_test
}  // namespace tmprof
