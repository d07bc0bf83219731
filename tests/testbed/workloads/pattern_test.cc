// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace tmprof::workload {
namespace pattern_test {

// Draws with `draws` evenly spaced fractions: what a table does with all of [0, 1), without chance.
std::vector<double> SharesOverTheUnitInterval(const AliasTable& table, std::size_t choices,
                                              std::uint64_t draws) {
  std::vector<double> shares(choices);
  const std::uint64_t step = UINT64_MAX / draws;
  for (std::uint64_t i = 0; i < draws; ++i) {
    shares[table.Draw(Fraction(i * step + step / 2))] += 1.0 / static_cast<double>(draws);
  }
  return shares;
}

// The weight of each span by adding up the ranges.
std::vector<double> SpanWeights(const Heat& heat, std::uint64_t phase) {
  std::vector<double> weights;
  for (const SpanRange& range : heat.Ranges(heat.AtPhase(phase))) {
    const auto spans = static_cast<double>(range.end - range.start);
    weights.insert(weights.end(), range.end - range.start, range.weight / spans);
  }
  return weights;
}

std::set<std::uint64_t> SpansAbove(double weight, const std::vector<double>& weights) {
  std::set<std::uint64_t> spans;
  for (std::uint64_t i = 0; i < weights.size(); ++i) {
    if (weights[i] > weight) spans.insert(i);
  }
  return spans;
}

TEST(Fraction, TakesTheWholePartAndKeepsTheRest) {
  Fraction fraction(0xc000000000000000);  // 0.75
  EXPECT_EQ(fraction.Take(5), 3u);        // 3.75
  EXPECT_EQ(fraction.Take(4), 3u);        // 0.75 × 4 = 3.0
  EXPECT_EQ(fraction.bits(), 0u);
}

TEST(AliasTable, GivesEachChoiceItsWeight) {
  const std::vector<double> weights = {5, 0, 1, 3, 0.25, 0.75, 6};
  const AliasTable table(weights);
  const std::vector<double> shares = SharesOverTheUnitInterval(table, weights.size(), 1 << 20);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    // Each of the at most 7 columns is cut once: the error is below 7 draws.
    EXPECT_NEAR(shares[i], weights[i] / 16, 7.0 / (1 << 20)) << i;
  }
}

TEST(AliasTable, NeverDrawsAChoiceOfWeightZero) {
  const AliasTable table({0, 1, 0});
  EXPECT_NEAR(SharesOverTheUnitInterval(table, 3, 1000)[1], 1, 1e-9);
  EXPECT_EQ(table.Draw(Fraction(0)), 1u);
  EXPECT_EQ(table.Draw(Fraction(UINT64_MAX)), 1u);
}

TEST(AliasTable, AlwaysDrawsTheOnlyChoice) {
  const AliasTable table({0.1});
  EXPECT_EQ(table.Draw(Fraction(0)), 0u);
  EXPECT_EQ(table.Draw(Fraction(UINT64_MAX)), 0u);
}

TEST(Shuffle, VisitsEachValueOnce) {
  for (const std::uint64_t count : {1u, 2u, 3u, 7u, 8u, 1000u, 4096u, 4097u}) {
    const Shuffle shuffle(count, 7);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < count; ++i) seen.insert(shuffle(i));
    EXPECT_EQ(seen.size(), count);
    EXPECT_EQ(*seen.rbegin(), count - 1);
  }
}

TEST(Shuffle, SpreadsARunOverTheWholeRange) {
  constexpr std::uint64_t kCount = 131072;  // pages of 512 MiB
  constexpr std::uint64_t kRun = kCount / 16;
  constexpr std::uint64_t kBlock = 512;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    for (const std::uint64_t offset : {std::uint64_t{0}, kRun, 2 * kRun}) {
      const Shuffle shuffle(kCount, seed);
      std::vector<int> in_block(kCount / kBlock);
      std::vector<bool> taken(kCount);
      for (std::uint64_t i = 0; i < kRun; ++i) {
        const std::uint64_t at = shuffle(offset + i);
        ++in_block[at / kBlock];
        taken[at] = true;
      }
      // 32 of 512 expected, with a standard deviation of 5.5 if it were random.
      EXPECT_GE(*std::ranges::min_element(in_block), 32 - 33) << seed;
      EXPECT_LE(*std::ranges::max_element(in_block), 32 + 33) << seed;
      // Neighbours that are both taken: 1/16 of 8192 pairs expected, standard deviation 22.
      int neighbours = 0;
      for (std::uint64_t i = 1; i < kCount; ++i) neighbours += taken[i - 1] && taken[i];
      EXPECT_NEAR(neighbours, 512, 6 * 22) << seed;
    }
  }
}

TEST(Shuffle, DependsOnTheSeed) {
  const Shuffle one(4096, 1);
  const Shuffle two(4096, 2);
  int same = 0;
  for (std::uint64_t i = 0; i < 4096; ++i) same += one(i) == two(i);
  EXPECT_LT(same, 41);  // 1 expected by chance
}

TEST(Heat, RangesCoverTheFootprintExactlyAndTheirWeightsSumToOne) {
  const Pattern patterns[] = {UniformPattern(1000),    HotsetPattern(1000, 62, 0.9),
                              ZipfPattern(1000, 0.99), StepsPattern(1000, 8),
                              ZipfPattern(1, 0.5),     HalfIdlePattern(1000, 0.99)};
  for (const Pattern& pattern : patterns) {
    const Heat heat(pattern, 3);
    for (const std::uint64_t phase : {0u, 1u, 7u, 8u, 100u}) {
      std::uint64_t covered = 0;
      double weight = 0;
      for (const SpanRange& range : heat.Ranges(heat.AtPhase(phase))) {
        EXPECT_EQ(range.start, covered);
        EXPECT_LT(range.start, range.end);
        covered = range.end;
        weight += range.weight;
      }
      EXPECT_EQ(covered, pattern.spans());
      EXPECT_NEAR(weight, 1, 1e-12);
    }
  }
}

TEST(Heat, JoinsNeighboursOfEqualHeat) {
  Pattern pattern = HotsetPattern(16, 2, 0.5);
  pattern.shuffled = false;
  const Heat heat(pattern, 1);
  const std::vector<SpanRange> ranges = heat.Ranges(heat.AtPhase(1));
  ASSERT_EQ(ranges.size(), 3u);
  EXPECT_EQ(ranges[1].start, 2u);
  EXPECT_EQ(ranges[1].end, 4u);
  EXPECT_DOUBLE_EQ(ranges[0].weight, 0.5 * 2 / 14);
  EXPECT_DOUBLE_EQ(ranges[1].weight, 0.5);
  EXPECT_DOUBLE_EQ(ranges[2].weight, 0.5 * 12 / 14);
}

TEST(Heat, DrawsEachSpanAsOftenAsItsRangesSay) {
  constexpr std::uint64_t kSpans = 500;
  constexpr double kDraws = 1e6;
  for (const Pattern& pattern :
       {UniformPattern(kSpans), HotsetPattern(kSpans, 31, 0.9), ZipfPattern(kSpans, 0.99)}) {
    const Heat heat(pattern, 5);
    const std::vector<double> weights = SpanWeights(heat, 2);
    std::vector<double> drawn(kSpans);
    Random random(11);
    for (int i = 0; i < static_cast<int>(kDraws); ++i) {
      Fraction rest(0);
      drawn[heat.Draw(heat.AtPhase(2), random, rest)] += 1;
    }
    for (std::size_t span = 0; span < kSpans; ++span) {
      const double expected = weights[span] * kDraws;
      EXPECT_NEAR(drawn[span], expected, 6 * std::sqrt(expected)) << span;
    }
  }
}

TEST(Heat, LeavesARestThatIsUniformWithinTheSpan) {
  const Heat heat(HotsetPattern(500, 31, 0.9), 5);
  std::vector<double> words(8);
  Random random(11);
  for (int i = 0; i < 80000; ++i) {
    Fraction rest(0);
    heat.Draw(heat.AtPhase(0), random, rest);
    words[rest.Take(words.size())] += 1;
  }
  for (const double count : words) EXPECT_NEAR(count, 10000, 600);
}

TEST(HotsetPattern, PutsTheShareOnTheHotSpansAndMovesToFreshOnes) {
  const Heat heat(HotsetPattern(1024, 64, 0.9), 1);
  const std::set<std::uint64_t> first = SpansAbove(1.0 / 1024, SpanWeights(heat, 0));
  const std::set<std::uint64_t> second = SpansAbove(1.0 / 1024, SpanWeights(heat, 1));
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(second.size(), 64u);
  std::vector<std::uint64_t> both;
  std::ranges::set_intersection(first, second, std::back_inserter(both));
  EXPECT_TRUE(both.empty());
  double hot_share = 0;
  for (const std::uint64_t span : first) hot_share += SpanWeights(heat, 0)[span];
  EXPECT_NEAR(hot_share, 0.9, 1e-12);
}

TEST(ZipfPattern, FollowsThePowerLawWithinTheWidthOfItsBands) {
  constexpr std::uint64_t kSpans = 131072;
  constexpr double kSkew = 0.99;
  double total = 0;
  for (std::uint64_t rank = 1; rank <= kSpans; ++rank) {
    total += std::pow(static_cast<double>(rank), -kSkew);
  }
  Pattern pattern = ZipfPattern(kSpans, kSkew);
  pattern.shuffled = false;
  const std::vector<double> weights = SpanWeights(Heat(pattern, 1), 0);
  for (std::uint64_t rank = 1; rank <= kSpans; ++rank) {
    const double expected = std::pow(static_cast<double>(rank), -kSkew) / total;
    EXPECT_NEAR(weights[rank - 1], expected, expected * (rank <= 256 ? 1e-9 : 0.0125)) << rank;
  }
}

TEST(HalfIdlePattern, AccessesHalfOfThePagesNextToNever) {
  for (const std::uint64_t spans : {2u, 1001u, 4096u}) {
    Pattern pattern = HalfIdlePattern(spans, 0.99);
    pattern.shuffled = false;
    EXPECT_EQ(pattern.spans(), spans);
    const Heat heat(pattern, 1);
    const std::vector<SpanRange> first = heat.Ranges(heat.AtPhase(0));
    EXPECT_EQ(first.back().end - first.back().start, spans / 2);
    EXPECT_NEAR(first.back().weight, 1e-9, 1e-10);
    const std::vector<SpanRange> later = heat.Ranges(heat.AtPhase(3));
    EXPECT_EQ(later.back().start, first.back().start) << "phases are alike";
  }
}

TEST(ZipfPattern, KeepsItsTableSmall) {
  EXPECT_LT(ZipfPattern(1048576, 0.99).bands.size(), 700u);  // pages of 4 GiB
}

TEST(StepsPattern, UsesOneObjectAtATimeInAddressOrder) {
  const Heat heat(StepsPattern(64, 8), 1);
  for (std::uint64_t phase = 0; phase < 8; ++phase) {
    const std::set<std::uint64_t> used = SpansAbove(0, SpanWeights(heat, phase));
    EXPECT_EQ(used.size(), 8u);
    EXPECT_EQ(*used.begin(), phase * 8);
    EXPECT_EQ(*used.rbegin(), phase * 8 + 7);
  }
}

}  // namespace pattern_test
}  // namespace tmprof::workload
