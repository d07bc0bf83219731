// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/clock/clock_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

namespace tmprof {
namespace clock_events_test {

// The outcome of readings that come one after another, and how many were asked for.
struct Asked {
  Result<double> least;
  std::size_t readings = 0;
};

Asked LeastOf(std::vector<Result<double>> readings) {
  Asked asked;
  asked.least = LeastSampleCost([&] { return readings.at(asked.readings++); });
  return asked;
}

Result<double> NoSample() { return Fail(Error{.attempt = "measure", .object = "own thread"}); }

TEST(LeastSampleCost, BelievesAPlausibleReadingAtOnce) {
  const Asked asked = LeastOf({60'000.0, 10.0});
  EXPECT_EQ(asked.least, 60'000.0);
  EXPECT_EQ(asked.readings, 1u);
}

TEST(LeastSampleCost, ReadsAgainWhereAReadingIsTooHigh) {
  const Asked asked = LeastOf({900'000.0, 40'000.0, 10.0});
  EXPECT_EQ(asked.least, 40'000.0);
  EXPECT_EQ(asked.readings, 2u);
}

TEST(LeastSampleCost, TakesTheLeastOfThreeAndNoMoreThanASampleCanCost) {
  EXPECT_EQ(LeastOf({900'000.0, 200'000.0, 250'000.0}).least, 200'000.0);
  const Asked asked = LeastOf({900'000.0, 800'000.0, 700'000.0});
  EXPECT_EQ(asked.least, kMostNsPerSample);
  EXPECT_EQ(asked.readings, 3u);
}

TEST(LeastSampleCost, IsNotRefusedForOneReadingWithoutASample) {
  EXPECT_EQ(LeastOf({NoSample(), 50'000.0}).least, 50'000.0);
  EXPECT_EQ(LeastOf({NoSample(), 400'000.0, NoSample()}).least, kMostNsPerSample);
  EXPECT_FALSE(LeastOf({NoSample(), NoSample(), NoSample()}).least.has_value());
}

TEST(LeastSampleCost, IsRefusedAtOnceWhereTheSystemRefuses) {
  const Asked asked = LeastOf({Fail(Refused("map perf ring", "cpu-clock", EPERM)), 50'000.0});
  ASSERT_FALSE(asked.least.has_value());
  EXPECT_EQ(asked.least.error().system_error, EPERM);
  EXPECT_EQ(asked.readings, 1u);
}

}  // namespace clock_events_test
}  // namespace tmprof
