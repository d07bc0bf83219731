// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/cpu_clock.h"

#include <gtest/gtest.h>

namespace tmprof::abit {
namespace cpu_clock_test {

using std::chrono::microseconds;
using std::chrono::milliseconds;

MonotonicTime At(std::chrono::nanoseconds since_boot) { return MonotonicTime(since_boot); }

TEST(CpuClock, AdvancesBetweenTheTicksOfARunningTarget) {
  CpuClock clock(milliseconds(4));
  EXPECT_EQ(clock.Advance(At(milliseconds(100)), milliseconds(50), 1), milliseconds(50));
  EXPECT_EQ(clock.Advance(At(microseconds(100'250)), milliseconds(50), 1), microseconds(50'250));
  EXPECT_EQ(clock.Advance(At(milliseconds(101)), milliseconds(50), 1), milliseconds(51));
}

TEST(CpuClock, StandsStillWhileNoThreadIsOnACpu) {
  CpuClock clock(milliseconds(4));
  clock.Advance(At(milliseconds(100)), milliseconds(50), 0);
  EXPECT_EQ(clock.Advance(At(milliseconds(900)), milliseconds(50), 0), milliseconds(50));
}

TEST(CpuClock, CountsEveryThreadThatRuns) {
  CpuClock clock(milliseconds(4));
  clock.Advance(At(milliseconds(100)), milliseconds(50), 3);
  EXPECT_EQ(clock.Advance(At(milliseconds(101)), milliseconds(50), 3), milliseconds(53));
}

TEST(CpuClock, TakesTheMeanOfBothEndsForATargetThatHasJustBegunToRun) {
  CpuClock clock(milliseconds(4));
  clock.Advance(At(milliseconds(100)), milliseconds(50), 0);
  EXPECT_EQ(clock.Advance(At(milliseconds(101)), milliseconds(50), 1), microseconds(50'500));
}

TEST(CpuClock, NeverFallsBehindTheKernelsFigure) {
  CpuClock clock(milliseconds(4));
  clock.Advance(At(milliseconds(100)), milliseconds(50), 1);
  EXPECT_EQ(clock.Advance(At(milliseconds(110)), milliseconds(62), 1), milliseconds(62));
}

TEST(CpuClock, IsAtMostOneTickPerThreadAheadOfTheKernelsFigure) {
  CpuClock clock(milliseconds(4));
  clock.Advance(At(milliseconds(100)), milliseconds(50), 1);
  EXPECT_EQ(clock.Advance(At(milliseconds(200)), milliseconds(50), 1), milliseconds(54));
}

TEST(CpuClock, IsAheadByNoMoreThanAStayOfATargetThatRests) {
  CpuClock clock(milliseconds(4));
  clock.ExpectShortStays(microseconds(50));
  clock.Advance(At(milliseconds(100)), milliseconds(50), 1);
  EXPECT_EQ(clock.Advance(At(milliseconds(200)), milliseconds(54), 1), microseconds(54'050));
  EXPECT_EQ(clock.Advance(At(milliseconds(201)), milliseconds(54), 1), microseconds(54'050));
}

TEST(CpuClock, ExpectsNoShortStaysOfATargetThatNeverRests) {
  CpuClock clock(milliseconds(4));
  clock.ExpectShortStays(microseconds(50));
  clock.Advance(At(milliseconds(100)), milliseconds(50), 1);
  clock.Advance(At(milliseconds(200)), milliseconds(148), 1);
  EXPECT_EQ(clock.Advance(At(milliseconds(201)), milliseconds(148), 1), milliseconds(151));
}

TEST(CpuClock, BelievesTheKernelOnceTheTargetHasLeftTheCpu) {
  CpuClock clock(milliseconds(4));
  clock.Advance(At(milliseconds(100)), milliseconds(50), 1);
  clock.Advance(At(milliseconds(103)), milliseconds(50), 1);
  EXPECT_EQ(clock.Advance(At(milliseconds(104)), microseconds(51'500), 0), microseconds(51'500));
}

TEST(CpuClock, GoesOnFromWhereItIsByAnExactClock) {
  CpuClock clock(milliseconds(4));
  clock.Advance(At(milliseconds(100)), milliseconds(50), 1);
  EXPECT_EQ(clock.ahead(), std::nullopt);
  EXPECT_EQ(clock.Follow(At(milliseconds(101)), milliseconds(7), 1), milliseconds(50));
  EXPECT_EQ(clock.ahead(), milliseconds(43));
  EXPECT_EQ(clock.Follow(At(milliseconds(110)), milliseconds(9), 0), milliseconds(52));
  EXPECT_EQ(clock.running_threads(), 0);
}

}  // namespace cpu_clock_test
}  // namespace tmprof::abit
