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

TEST(Exponentiate, TheExponentialOfZeroIsOne) {
  std::vector<double> zero{0.0};
  Exponentiate(zero);
  EXPECT_EQ(zero.front(), 1.0);
}

TEST(Exponentiate, AFarSmallerNumberGivesNextToNothingAndPositive) {
  for (const double x :
       {-701.0, -720.0, -1000.0, -1e9, -1e300, -std::numeric_limits<double>::infinity()}) {
    std::vector<double> value{x};
    Exponentiate(value);
    EXPECT_GT(value.front(), 0) << x;
    EXPECT_LE(value.front(), 1e-304) << x;
  }
}

TEST(AddLogChances, AreWithinTheirErrorFromRareToCertain) {
  for (double log_expected = -40; log_expected < 20; log_expected += 0.0173) {
    double sum = 0;
    AddLogChances(std::vector<double>{log_expected - 3}, 3, 1, &sum);
    ASSERT_NEAR(sum, std::log(-std::expm1(-std::exp(log_expected))), 1e-5) << log_expected;
  }
}

TEST(AddLogChances, AddUpAsOftenAsTheyCount) {
  std::vector<double> sum{5, 7};
  AddLogChances(std::vector<double>{0, std::log(2)}, 0, 2.5, sum.data());
  EXPECT_NEAR(sum[0], 5 + 2.5 * std::log(-std::expm1(-1.0)), 1e-4);
  EXPECT_NEAR(sum[1], 7 + 2.5 * std::log(-std::expm1(-2.0)), 1e-4);
}

}  // namespace exponentials_test
}  // namespace tmprof
