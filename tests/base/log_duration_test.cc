// SPDX-License-Identifier: Apache-2.0

#include "base/log_duration.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace tmprof {
namespace log_duration_test {

using std::chrono::nanoseconds;

// 2^(1/32) - 1: half a step of 16 per octave, as the header promises.
const double kWorstError = std::exp2(1.0 / 32) - 1;

double RelativeError(std::int64_t ns) {
  const double exact = static_cast<double>(ns) * 1e-9;
  return std::abs(LogDuration::FromNanoseconds(nanoseconds(ns)).seconds() - exact) / exact;
}

TEST(LogDuration, KeepsZeroExactly) {
  EXPECT_EQ(LogDuration::FromNanoseconds(nanoseconds(0)).code(), 0);
  EXPECT_EQ(LogDuration().seconds(), 0.0);
  EXPECT_EQ(LogDuration::FromNanoseconds(nanoseconds(-5)), LogDuration());
}

TEST(LogDuration, TellsOneNanosecondFromNothing) {
  const auto one = LogDuration::FromNanoseconds(nanoseconds(1));
  EXPECT_EQ(one.code(), 1);
  EXPECT_DOUBLE_EQ(one.seconds(), 1e-9);
}

TEST(LogDuration, KeepsPowersOfTwoExactly) {
  for (int octave = 0; octave < 63; ++octave) {
    const auto coded = LogDuration::FromNanoseconds(nanoseconds(std::int64_t{1} << octave));
    EXPECT_EQ(coded.code(), 1 + 16 * octave);
    EXPECT_DOUBLE_EQ(coded.seconds(), std::ldexp(1e-9, octave));
  }
}

TEST(LogDuration, ErrsByNoMoreThanHalfAStepAnywhere) {
  for (std::int64_t ns = 1; ns <= 100'000; ++ns) {
    ASSERT_LE(RelativeError(ns), kWorstError + 1e-12) << ns;
  }
  std::mt19937_64 random(20261120);
  for (int i = 0; i < 100'000; ++i) {
    const auto ns = static_cast<std::int64_t>((random() >> 1) >> (random() % 63)) | 1;
    ASSERT_LE(RelativeError(ns), kWorstError + 1e-12) << ns;
  }
  EXPECT_LE(RelativeError(std::numeric_limits<std::int64_t>::max()), kWorstError + 1e-12);
}

TEST(LogDuration, NeverOrdersALongerTimeBeforeAShorter) {
  LogDuration last;
  for (std::int64_t ns = 0; ns <= 200'000; ++ns) {
    const auto coded = LogDuration::FromNanoseconds(nanoseconds(ns));
    ASSERT_GE(coded, last) << ns;
    ASSERT_GE(coded.seconds(), last.seconds()) << ns;
    last = coded;
  }
}

TEST(LogDuration, SurvivesTheTripThroughItsCode) {
  for (std::uint16_t code = 0; code <= 1025; ++code) {
    EXPECT_EQ(LogDuration::FromCode(code).code(), code);
  }
}

TEST(LogDuration, CodesItsOwnValueAsItself) {
  // Up to 2^62 ns; a nanosecond grid is finer than a step from 64 ns (code 97) on.
  for (std::uint16_t code = 97; code <= 1 + 16 * 62; ++code) {
    const double seconds = LogDuration::FromCode(code).seconds();
    EXPECT_EQ(LogDuration::FromNanoseconds(nanoseconds(std::llround(seconds * 1e9))).code(), code);
  }
}

TEST(LogDuration, ReadsACodeBeyondTheLastAsTheLast) {
  EXPECT_EQ(LogDuration::FromCode(1026), LogDuration::FromCode(1025));
  EXPECT_EQ(LogDuration::FromCode(65535).code(), 1025);
  EXPECT_DOUBLE_EQ(LogDuration::FromCode(65535).seconds(), std::ldexp(1e-9, 64));
}

}  // namespace log_duration_test
}  // namespace tmprof
