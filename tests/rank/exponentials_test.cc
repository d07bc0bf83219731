// SPDX-License-Identifier: Apache-2.0

#include "rank/exponentials.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tmprof {
namespace exponentials_test {

TEST(Exponentiate, IsWithinItsErrorAsFarAsADoubleHoldsIt) {
  for (double x = 0; x >= -700; x -= 0.0137) {
    std::vector<double> values(3, x);  // lanes, and what is left of them
    Exponentiate(values);
    for (const double value : values) ASSERT_NEAR(value / std::exp(x), 1, 1e-11) << x;
  }
}

TEST(Exponentiate, OfNothingIsOne) {
  std::vector<double> zero{0.0};
  Exponentiate(zero);
  EXPECT_EQ(zero.front(), 1.0);
}

TEST(Exponentiate, WhatIsFarLessIsNextToNothingAndPositive) {
  for (const double x :
       {-701.0, -720.0, -1000.0, -1e9, -1e300, -std::numeric_limits<double>::infinity()}) {
    std::vector<double> value{x};
    Exponentiate(value);
    EXPECT_GT(value.front(), 0) << x;
    EXPECT_LE(value.front(), 1e-304) << x;
  }
}

}  // namespace exponentials_test
}  // namespace tmprof
