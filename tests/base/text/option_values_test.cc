// SPDX-License-Identifier: Apache-2.0

#include "base/text/option_values.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace option_values_test {

using namespace std::chrono_literals;

TEST(ParseTimeOption, TakesABareNumberForSeconds) {
  EXPECT_EQ(ParseTimeOption("5"), 5s);
  EXPECT_EQ(ParseTimeOption("0.5"), 500ms);
  EXPECT_EQ(ParseTimeOption("5ms"), 5ms);
  EXPECT_FALSE(ParseTimeOption("."));
  EXPECT_FALSE(ParseTimeOption("s"));
}

TEST(RequireDifferent, NamesTheWordWhoseValueIsThereTwice) {
  EXPECT_TRUE(RequireDifferent("--fast", {"1KiB", "2KiB"}, std::vector<int>{1, 2}));
  const Status status =
      RequireDifferent("--fast", {"1KiB", "2KiB", "1024B"}, std::vector<int>{1, 2, 1});
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().Message(),
            "cannot use option '--fast 1024B': its value is in the list before");
}

}  // namespace option_values_test
}  // namespace tmprof
