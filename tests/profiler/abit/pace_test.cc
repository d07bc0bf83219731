// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/pace.h"

#include <gtest/gtest.h>

namespace tmprof::abit {
namespace pace_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// A look at each millisecond; `cpu` returns the CPU time by then.
void Look(Pace& pace, int from, int to, nanoseconds (*cpu)(int), std::uint32_t threads,
          nanoseconds longest_stay) {
  for (int at = from; at <= to; ++at) {
    pace.See(MonotonicTime(milliseconds(at)),
             {.cpu = cpu(at), .threads = threads, .longest_stay = longest_stay});
  }
}

TEST(Pace, ForetellsAProgramThatAlwaysRunsToTheMoment) {
  Pace pace;
  const auto tenth = [](int at) { return nanoseconds(milliseconds(at)) / 10; };
  Look(pace, 0, 1000, tenth, 0, milliseconds(1));
  EXPECT_GT(pace.Takes(milliseconds(10), 1), milliseconds(100));
  const auto always = [](int at) { return nanoseconds(milliseconds(at - 900)); };
  Look(pace, 1001, 3000, always, 1, milliseconds(4));
  EXPECT_NEAR(static_cast<double>(pace.Takes(milliseconds(10), 1).count()), 10e6, 1e5);
}

TEST(Pace, CountsAStayThatHasNotEndedYet) {
  Pace pace;
  Look(pace, 0, 300, [](int at) { return nanoseconds(milliseconds(at)); }, 1, milliseconds(4));
  EXPECT_EQ(pace.stay(), milliseconds(300));
  Look(pace, 301, 320, [](int) { return nanoseconds(milliseconds(300)); }, 0, milliseconds(5));
  EXPECT_EQ(pace.stay(), milliseconds(5));
}

// It runs for a tenth of the time: half as long again is allowed for.
TEST(Pace, AllowsForTheShareThatAProgramRests) {
  Pace pace;
  Look(
      pace, 0, 2000, [](int at) { return nanoseconds(milliseconds(at)) / 10; }, 0, milliseconds(1));
  EXPECT_NEAR(static_cast<double>(pace.Takes(milliseconds(10), 0).count()), 150e6, 1e6);
}

TEST(Pace, ExpectsAProgramToGoOnAsBefore) {
  Pace pace;
  const auto fourth = [](int at) { return nanoseconds(milliseconds(at)) / 4; };
  Look(pace, 0, 2000, fourth, 0, nanoseconds(0));
  EXPECT_NEAR(static_cast<double>(pace.Likely(milliseconds(10)).count()), 40e6, 1e6);
}

TEST(Pace, ExpectsAProgramThatRestsToRunSuddenly) {
  Pace pace;
  Look(pace, 0, 2000, [](int) { return nanoseconds(0); }, 0, nanoseconds(0));
  EXPECT_EQ(pace.Likely(milliseconds(10)), milliseconds(160));
}

TEST(Pace, ForetellsNothingOfAProgramThatHasStopped) {
  Pace pace;
  Look(pace, 0, 100, [](int at) { return nanoseconds(milliseconds(at)); }, 1, milliseconds(4));
  EXPECT_FALSE(pace.rests(MonotonicTime(milliseconds(110))));
  EXPECT_TRUE(pace.rests(MonotonicTime(milliseconds(200))));
}

}  // namespace pace_test
}  // namespace tmprof::abit
