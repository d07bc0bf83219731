// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/misses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace tmprof::workload {
namespace misses_test {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kAccesses = 4'000'000;

TEST(LruCache, LosesTheLineUsedLongestAgo) {
  LruCache cache(16 * 64);  // one set
  for (std::uint64_t line = 0; line < 16; ++line) EXPECT_FALSE(cache.Access(line));
  EXPECT_TRUE(cache.Access(0));
  EXPECT_FALSE(cache.Access(16));
  EXPECT_TRUE(cache.Access(0));
  EXPECT_FALSE(cache.Access(1));
  EXPECT_TRUE(cache.Access(16));
}

TEST(LruCache, HasItsSizeInWholeSets) {
  EXPECT_EQ(LruCache(1 << 20).lines(), 16'384u);
  EXPECT_EQ(LruCache(100).lines(), 16u);
}

TEST(SimulateMisses, AUniformPatternMissesWithThePartThatHasNoRoom) {
  const SimulatedMisses misses =
      SimulateMisses(Heat(UniformPattern(1024), 1), kPage, 1024 * kPage / 4, 1, kAccesses);
  EXPECT_NEAR(misses.per_access, 0.75, 0.005);
  ASSERT_EQ(misses.bands.size(), 1u);
  EXPECT_EQ(misses.bands[0].spans, 1024u);
  EXPECT_EQ(misses.bands[0].share, 1);
}

TEST(SimulateMisses, APatternThatFitsHasNoMisses) {
  EXPECT_LT(SimulateMisses(Heat(UniformPattern(64), 1), kPage, 1 << 20, 1, kAccesses).per_access,
            1e-6);
}

// Expects Che's approximation: a line stays for as long as it takes to fill the cache with others.
TEST(SimulateMisses, HotPagesHaveASmallerShareOfMissesThanOfAccesses) {
  constexpr double kSpans = 1024;
  constexpr double kHot = 64;
  constexpr double kLlcLines = 256 * 64;
  double turn_over = 0;
  const auto hits = [&](double share, double spans) {
    return 1 - std::exp(-turn_over * share / (spans * 64));
  };
  const auto held = [&] {
    return 64 * (kHot * hits(0.9, kHot) + (kSpans - kHot) * hits(0.1, kSpans - kHot));
  };
  while (held() < kLlcLines) turn_over += 100;
  const double hot = 0.9 * (1 - hits(0.9, kHot));
  const double cold = 0.1 * (1 - hits(0.1, kSpans - kHot));
  const SimulatedMisses misses =
      SimulateMisses(Heat(HotsetPattern(1024, 64, 0.9), 1), kPage, 256 * kPage, 1, kAccesses);
  EXPECT_NEAR(misses.per_access, hot + cold, 0.01);
  ASSERT_EQ(misses.bands.size(), 2u);
  EXPECT_EQ(misses.bands[0].spans, 960u) << "the hot pages are in the cache";
  EXPECT_NEAR(misses.bands[1].share, hot / (hot + cold), 0.01);
  ASSERT_EQ(misses.of_span.size(), 2u) << "in the pattern's order, the hot pages first";
  EXPECT_DOUBLE_EQ(misses.of_span[0], misses.bands[1].share / kHot);
  EXPECT_DOUBLE_EQ(misses.of_span[1], misses.bands[0].share / (kSpans - kHot));
}

}  // namespace misses_test
}  // namespace tmprof::workload
