// SPDX-License-Identifier: Apache-2.0

#include "testbed/tiersim/sample_countdown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

namespace sample_countdown_test {

TEST(SampleCountdown, IntervalsAreThePeriodOnAverageAndCloseToItEachTime) {
  for (const std::uint64_t period : {16, 4096}) {
    tiersim_random random{.state = 1};
    std::uint64_t sum = 0;
    std::uint64_t least = UINT64_MAX;
    std::uint64_t most = 0;
    constexpr int kIntervals = 100'000;
    for (int i = 0; i < kIntervals; ++i) {
      const std::uint64_t interval = tiersim_next_interval(&random, period);
      sum += interval;
      least = std::min(least, interval);
      most = std::max(most, interval);
    }
    // A sum of two uniform ones, 0 to 15 and 0 to 1: standard deviation 4.6, of the mean 0.015.
    EXPECT_NEAR(static_cast<double>(sum) / kIntervals, static_cast<double>(period), 0.1);
    EXPECT_EQ(least, period - 8);
    EXPECT_EQ(most, period + 8);
  }
}

TEST(SampleCountdown, IsTheSameEachTimeFromTheSameState) {
  tiersim_random first{.state = 7};
  tiersim_random second{.state = 7};
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(tiersim_next_interval(&first, 64), tiersim_next_interval(&second, 64));
  }
}

}  // namespace sample_countdown_test
