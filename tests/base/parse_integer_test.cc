// SPDX-License-Identifier: Apache-2.0

#include "base/parse_integer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace tmprof {
namespace parse_integer_test {

TEST(ParseInteger, ReadsTheWholeText) {
  EXPECT_EQ(ParseInteger<std::uint16_t>("65535"), 65535);
  EXPECT_EQ(ParseInteger<int>("-7"), -7);
  EXPECT_EQ(ParseInteger<std::uint64_t>("7fff", 16), 0x7fffu);
}

TEST(ParseInteger, RefusesTextThatIsMoreOrLessThanAnInteger) {
  for (const char* text : {"", " ", "7 ", " 7", "+7", "7k", "0x7", "1.5", "-"}) {
    EXPECT_EQ(ParseInteger<std::uint32_t>(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(ParseInteger, RefusesAValueThatDoesNotFit) {
  EXPECT_EQ(ParseInteger<std::uint16_t>("65536"), std::nullopt);
  EXPECT_EQ(ParseInteger<std::uint16_t>("-1"), std::nullopt);
}

}  // namespace parse_integer_test
}  // namespace tmprof
