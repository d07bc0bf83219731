// SPDX-License-Identifier: Apache-2.0

#include "mover/rate_limit.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace rate_limit_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr MonotonicTime kStart{seconds(100)};

TEST(RateLimitTest, WithoutALimitThereIsAlwaysSome) {
  RateLimit limit(std::nullopt, kStart);
  limit.Spend(1'000'000'000'000);
  EXPECT_TRUE(limit.HasAny(kStart));
  EXPECT_EQ(limit.Wait(kStart), nanoseconds(0));
}

TEST(RateLimitTest, ADebtIsPaidOffAtTheRate) {
  RateLimit limit(1000, kStart);
  limit.Spend(1500);  // 1000 were there: 501 ms until there is one
  EXPECT_FALSE(limit.HasAny(kStart));
  EXPECT_EQ(limit.Wait(kStart), milliseconds(501));
  EXPECT_FALSE(limit.HasAny(kStart + milliseconds(500)));
  EXPECT_TRUE(limit.HasAny(kStart + milliseconds(501)));
}

TEST(RateLimitTest, SavesUpASecondAndNoMore) {
  RateLimit limit(1000, kStart);
  const MonotonicTime later = kStart + seconds(3600);
  EXPECT_TRUE(limit.HasAny(later));
  limit.Spend(1000);
  EXPECT_FALSE(limit.HasAny(later));
}

TEST(RateLimitTest, ARateOfZeroNeverFills) {
  RateLimit limit(0, kStart);
  EXPECT_FALSE(limit.HasAny(kStart + seconds(1000)));
  EXPECT_EQ(limit.Wait(kStart + seconds(1000)), seconds(1));
}

TEST(RateLimitTest, LargeDebtsAreLookedAtAgainEachSecond) {
  RateLimit limit(10, kStart);
  limit.Spend(1000);
  EXPECT_EQ(limit.Wait(kStart), seconds(1));
}

}  // namespace rate_limit_test
}  // namespace tmprof
