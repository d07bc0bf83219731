// SPDX-License-Identifier: Apache-2.0

#include "base/duration_text.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

namespace tmprof {
namespace duration_text_test {

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

}  // namespace duration_text_test
}  // namespace tmprof
