// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/short_waits.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tmprof::abit {
namespace short_waits_test {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

constexpr MonotonicTime kStart{std::chrono::seconds(5)};

TEST(ShortWaits, SpinsForMicrosecondsAndSleepsForMore) {
  ShortWaits waits;
  EXPECT_TRUE(waits.Spins(kStart, kStart + kLongestSpin));
  EXPECT_FALSE(waits.Spins(kStart, kStart + kLongestSpin + nanoseconds(1)));
  EXPECT_TRUE(waits.Spins(kStart, kStart + microseconds(1)));
}

TEST(ShortWaits, WaitsForNoReadThatIsDue) {
  ShortWaits waits;
  EXPECT_FALSE(waits.Spins(kStart, kStart));
  EXPECT_FALSE(waits.Spins(kStart, kStart - microseconds(1)));
}

TEST(ShortWaits, SleepsWhereTheTimeNeverComesNearer) {
  ShortWaits waits;
  MonotonicTime now = kStart;
  microseconds spun(0);
  while (waits.Spins(now, now + microseconds(10)) && spun < microseconds(1000)) {
    now += microseconds(1);
    spun += microseconds(1);
  }
  EXPECT_EQ(spun, kLongestSpinInAll);
  now += microseconds(500);
  EXPECT_FALSE(waits.Spins(now, now + microseconds(10))) << "the time has not come nearer";
  EXPECT_FALSE(waits.Spins(now, now));
  EXPECT_TRUE(waits.Spins(now, now + microseconds(10))) << "something was due meanwhile";
}

TEST(ShortWaits, EachWaitHasItsOwnTime) {
  ShortWaits waits;
  for (int i = 0; i < 20; ++i) {
    const MonotonicTime now = kStart + i * microseconds(30);
    EXPECT_TRUE(waits.Spins(now, now + microseconds(16))) << i;
    EXPECT_FALSE(waits.Spins(now + microseconds(16), now + microseconds(16)));
  }
}

}  // namespace short_waits_test
}  // namespace tmprof::abit
