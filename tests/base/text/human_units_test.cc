// SPDX-License-Identifier: Apache-2.0

#include "base/text/human_units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string_view>

namespace tmprof {
namespace human_units_test {

TEST(ParseBytes, ReadsWholeNumbersOfBinaryUnits) {
  EXPECT_EQ(ParseBytes("0B").value(), 0u);
  EXPECT_EQ(ParseBytes("12B").value(), 12u);
  EXPECT_EQ(ParseBytes("3KiB").value(), 3072u);
  EXPECT_EQ(ParseBytes("8MiB").value(), 8388608u);
  EXPECT_EQ(ParseBytes("2GiB").value(), 2147483648u);
  EXPECT_EQ(ParseBytes("1TiB").value(), 1099511627776u);
}
TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const std::string_view text :
       {"", "B", "8", "8 MiB", "8MB", "-1B", "1.5MiB", "16777216TiB", "99999999999999999999B"}) {
    const auto result = ParseBytes(text);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().kind, ErrorKind::kBadInput);
  }
}

TEST(ParseShare, ReadsPercentAndPlainShares) {
  EXPECT_DOUBLE_EQ(ParseShare("1%").value(), 0.01);
  EXPECT_DOUBLE_EQ(ParseShare("0.5%").value(), 0.005);
  EXPECT_DOUBLE_EQ(ParseShare("0.01").value(), 0.01);
  EXPECT_DOUBLE_EQ(ParseShare("0").value(), 0);
  EXPECT_DOUBLE_EQ(ParseShare("100%").value(), 1);
  EXPECT_DOUBLE_EQ(ParseShare("1").value(), 1);
}

TEST(ParseShare, RefusesWhatIsNotBetweenNothingAndTheWhole) {
  for (const std::string_view text :
       {"", "%", "101%", "1.01", "-1%", "nan", "nan%", "inf", "1 %", "1%%", "one", "1e-2"}) {
    const auto result = ParseShare(text);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().kind, ErrorKind::kBadInput);
  }
}

TEST(FormatShare, WritesPercent) {
  EXPECT_EQ(FormatShare(0.01), "1%");
  EXPECT_EQ(FormatShare(0.0025), "0.25%");
  EXPECT_EQ(FormatShare(0), "0%");
  EXPECT_EQ(FormatShare(1), "100%");
}

TEST(FormatBytes, WritesBinaryUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(4096), "4 KiB");
  EXPECT_EQ(FormatBytes(std::uint64_t{512} << 20), "512 MiB");
  EXPECT_EQ(FormatBytes(std::uint64_t{3} << 29), "1.5 GiB");
  EXPECT_EQ(FormatBytes(std::uint64_t{2} << 40), "2 TiB");
}

TEST(FormatCount, GroupsByThree) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1 000");
  EXPECT_EQ(FormatCount(131072), "131 072");
  EXPECT_EQ(FormatCount(std::numeric_limits<std::uint64_t>::max()), "18 446 744 073 709 551 615");
}

}  // namespace human_units_test
}  // namespace tmprof
