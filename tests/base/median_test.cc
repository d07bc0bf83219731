// SPDX-License-Identifier: Apache-2.0

#include "base/median.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace median_test {

TEST(Median, IsInTheMiddleWhateverTheOrder) {
  EXPECT_EQ(Median(std::vector{9, 1, 5}), 5);
  EXPECT_EQ(Median(std::vector{7.5}), 7.5);
}

TEST(Median, IsTheUpperOfTwoForAnEvenNumber) { EXPECT_EQ(Median(std::vector{4, 1, 3, 2}), 3); }

TEST(MedianDeathTest, TheMedianOfNoValuesIsABrokenInvariant) {
  EXPECT_DEATH(Median(std::vector<int>{}), "values.empty");
}

// Quartiles 3 and 7: 4 apart; 1.253 / 1.349 * 4 / 3.
TEST(StandardErrorOfMedianTest, IsOfTheQuartilesAndTheNumber) {
  EXPECT_NEAR(StandardErrorOfMedian({9, 1, 8, 2, 7, 3, 6, 4, 5}), 1.2384, 0.0001);
}

TEST(StandardErrorOfMedianTest, AFewValuesFarOffChangeNothing) {
  EXPECT_EQ(StandardErrorOfMedian({5, 5, 5, 5, 5, 5, 5, 900}), 0);
}

}  // namespace median_test
}  // namespace tmprof
