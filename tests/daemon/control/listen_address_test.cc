// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/listen_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace listen_address_test {

using ::testing::HasSubstr;

TEST(ParseLoopbackAddress, TakesBothFamiliesAndToStringIsTheInverse) {
  const auto v4 = ParseLoopbackAddress("127.1.2.3:9101");
  ASSERT_TRUE(v4) << v4.error();
  EXPECT_EQ(*v4, (ListenAddress{.host = "127.1.2.3", .port = 9101}));
  EXPECT_EQ(ToString(*v4), "127.1.2.3:9101");
  const auto v6 = ParseLoopbackAddress("[::1]:1");
  ASSERT_TRUE(v6) << v6.error();
  EXPECT_EQ(*v6, (ListenAddress{.host = "::1", .port = 1}));
  EXPECT_EQ(ToString(*v6), "[::1]:1");
}

TEST(ParseLoopbackAddress, RefusesWhatIsNoAddressInNumbers) {
  for (const char* text : {"", "localhost:80", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536",
                           "::1:80", "[127.0.0.1]:80", "127.0.0.1:80x"}) {
    const auto address = ParseLoopbackAddress(text);
    ASSERT_FALSE(address) << text;
    EXPECT_THAT(address.error(), HasSubstr("is no address in numbers with a port from 1 to 65535"));
  }
}

TEST(ParseLoopbackAddress, RefusesAddressesThatOtherMachinesReach) {
  for (const char* text : {"0.0.0.0:80", "10.0.0.1:80", "[::]:80", "[fe80::1]:80"}) {
    const auto address = ParseLoopbackAddress(text);
    ASSERT_FALSE(address) << text;
    EXPECT_THAT(address.error(), HasSubstr("is not of the loopback interface"));
  }
}

}  // namespace listen_address_test
}  // namespace tmprof
