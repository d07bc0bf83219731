// SPDX-License-Identifier: Apache-2.0

#include "base/text/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace addresses_test {

using ::testing::HasSubstr;

TEST(ParseAddress, IsHexadecimalWithItsPrefixOrWithout) {
  EXPECT_EQ(ParseAddress("--page", "0x7f00"), 0x7f00U);
  EXPECT_EQ(ParseAddress("--page", "7f00"), 0x7f00U);
  for (const char* text : {"", "0x", "7g", "-1", "7f00 "}) {
    const auto address = ParseAddress("--page", text);
    ASSERT_FALSE(address) << text;
    EXPECT_THAT(address.error().Message(), HasSubstr("--page"));
  }
}

TEST(ParseAddresses, AreRoundedDownToPages) {
  EXPECT_EQ(ParseAddresses("0x1fff-0x3001"), (VpnRange{Vpn(1), Vpn(3)}));
  for (const char* text : {"", "0x1000", "0x3000-0x1000", "0x1000-0x1fff", "x-y"}) {
    EXPECT_FALSE(ParseAddresses(text)) << text;
  }
}

}  // namespace addresses_test
}  // namespace tmprof
