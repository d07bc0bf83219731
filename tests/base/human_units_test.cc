// SPDX-License-Identifier: Apache-2.0

#include "base/human_units.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string_view>

namespace tmprof {
namespace human_units_test {

using namespace std::chrono_literals;

TEST(ParseDuration, ReadsEveryUnit) {
  EXPECT_EQ(ParseDuration("7ns").value(), 7ns);
  EXPECT_EQ(ParseDuration("250us").value(), 250us);
  EXPECT_EQ(ParseDuration("5ms").value(), 5ms);
  EXPECT_EQ(ParseDuration("1.5s").value(), 1500ms);
  EXPECT_EQ(ParseDuration("2m").value(), 2min);
  EXPECT_EQ(ParseDuration("0.5h").value(), 30min);
  EXPECT_EQ(ParseDuration("0s").value(), 0ns);
  EXPECT_EQ(ParseDuration("8760h").value(), 8760h);
}

TEST(ParseDuration, RefusesWhatIsNotANumberAndAUnit) {
  for (const std::string_view text :
       {"", "s", "1", "5 ms", "-1s", "+1s", "1e3s", "0x1s", "1.2.3s", ".s", "nan", "infs", "1S",
        "1sec", "1s ", " 1s", "1,5s", "8761h", "99999999999999999999h"}) {
    const auto result = ParseDuration(text);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().kind, ErrorKind::kBadInput);
    EXPECT_EQ(result.error().object, text);
    EXPECT_FALSE(result.error().advice.empty());
  }
}

TEST(ParseDuration, RefusesANumberTooLargeForAnyType) {
  std::string digits(400, '9');
  EXPECT_FALSE(ParseDuration(digits.append("s")).has_value());
}

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

TEST(FormatDuration, ChoosesTheLargestUnitThatHoldsOne) {
  EXPECT_EQ(FormatDuration(0ns), "0ns");
  EXPECT_EQ(FormatDuration(999ns), "999ns");
  EXPECT_EQ(FormatDuration(1us), "1us");
  EXPECT_EQ(FormatDuration(250us), "250us");
  EXPECT_EQ(FormatDuration(100ms), "100ms");
  EXPECT_EQ(FormatDuration(1s), "1s");
  EXPECT_EQ(FormatDuration(1500ms), "1.5s");
  EXPECT_EQ(FormatDuration(90s), "90s");
}

TEST(FormatDuration, NeverWritesAnExponent) {
  EXPECT_EQ(FormatDuration(10800s), "3h");
  EXPECT_EQ(FormatDuration(9998s), "9998s");
  EXPECT_EQ(FormatDuration(4h), "4h");
  EXPECT_EQ(FormatDuration(8760h), "8760h");
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
