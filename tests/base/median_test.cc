// SPDX-License-Identifier: Apache-2.0

#include "base/median.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace {

TEST(Median, IsInTheMiddleWhateverTheOrder) {
  EXPECT_EQ(Median(std::vector{9, 1, 5}), 5);
  EXPECT_EQ(Median(std::vector{7.5}), 7.5);
}

TEST(Median, OfAnEvenNumberIsTheUpperOfTwo) { EXPECT_EQ(Median(std::vector{4, 1, 3, 2}), 3); }

TEST(MedianDeathTest, OfNothingIsABrokenInvariant) {
  EXPECT_DEATH(Median(std::vector<int>{}), "values.empty");
}

}  // namespace
}  // namespace tmprof
