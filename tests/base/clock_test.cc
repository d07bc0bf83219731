// SPDX-License-Identifier: Apache-2.0

#include "base/clock.h"

#include <gtest/gtest.h>

#include <ctime>

namespace tmprof {
namespace clock_test {

std::chrono::nanoseconds KernelMonotonic() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

TEST(SystemClock, IsOnTheLineOfClockMonotonic) {
  const auto before = KernelMonotonic();
  const auto now = SystemClock().Now().time_since_epoch();
  const auto after = KernelMonotonic();
  EXPECT_LE(before, now);
  EXPECT_LE(now, after);
}

}  // namespace clock_test
}  // namespace tmprof
