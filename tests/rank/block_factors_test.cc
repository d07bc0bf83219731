// SPDX-License-Identifier: Apache-2.0

#include "rank/block_factors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace tmprof {
namespace block_factors_test {

constexpr std::uint64_t kBlocks = 64;
constexpr std::uint64_t kPagesOfBlock = 128;

// Pages of rates over four decades, in each block alike. `worth`: samples of one, relative to its
// rate.
template <typename Worth>
std::vector<MemoryRow> Sampled(double samples, std::uint64_t seed, Worth worth) {
  std::vector<MemoryRow> rows;
  std::vector<double> weight;
  for (std::uint64_t block = 0; block < kBlocks; ++block) {
    for (std::uint64_t page = 0; page < kPagesOfBlock; ++page) {
      const double rate =
          std::pow(10, 4 * static_cast<double>(page) / static_cast<double>(kPagesOfBlock));
      rows.push_back({.target = TargetId(0),
                      .seen = {.rate = rate, .pages = 1, .seconds = 1},
                      .block = block});
      weight.push_back(rate * worth(block));
    }
  }
  std::mt19937_64 random(seed);
  std::discrete_distribution<std::size_t> page(weight.begin(), weight.end());
  for (int i = 0; i < samples; ++i) ++rows[page(random)].seen.samples;
  return rows;
}

double Alike(std::uint64_t /*block*/) { return 1; }
bool IsWorthMore(std::uint64_t block) { return block % 4 == 0; }
double EighthUnlessFourth(std::uint64_t block) { return IsWorthMore(block) ? 1 : 0.125; }

TEST(BlockFactors, AreOneWherePagesFollowTheirRates) {
  int changed = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const double samples : {100.0, 1'000.0, 10'000.0}) {
      std::vector<MemoryRow> rows = Sampled(samples, seed, Alike);
      LearnBlockFactors(rows);
      changed +=
          std::ranges::any_of(rows, [](const MemoryRow& row) { return row.seen.factor != 1; });
    }
  }
  EXPECT_LE(changed, 3) << "of 60";
}

TEST(BlockFactors, TellBlocksThatAreWorthMoreThanTheirRates) {
  std::vector<MemoryRow> rows = Sampled(3'000, 1, EighthUnlessFourth);
  LearnBlockFactors(rows);
  for (const MemoryRow& row : rows) {
    if (row.seen.samples > 0) continue;
    if (IsWorthMore(*row.block)) {
      EXPECT_GT(row.seen.factor, 2);
    } else {
      EXPECT_LT(row.seen.factor, 0.8);
    }
  }
}

// Share of the accesses to memory that the best eighth of the pages has.
double Served(const std::vector<MemoryRow>& rows) {
  const MemoryWeights weights(rows);
  std::vector<std::pair<double, double>> by;  // weight, accesses to memory
  double all = 0;
  for (const MemoryRow& row : rows) {
    by.emplace_back(weights.Of(row).mean, row.seen.rate * EighthUnlessFourth(*row.block));
    all += by.back().second;
  }
  std::ranges::stable_sort(by, std::greater(), &std::pair<double, double>::first);
  double served = 0;
  for (std::size_t i = 0; i < by.size() / 8; ++i) served += by[i].second;
  return served / all;
}

TEST(BlockFactors, RankBetter) {
  double without = 0;
  double with = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    std::vector<MemoryRow> rows = Sampled(300, seed, EighthUnlessFourth);
    without += Served(rows) / 8;
    LearnBlockFactors(rows);
    with += Served(rows) / 8;
  }
  EXPECT_GT(with, without + 0.05);
}

TEST(BlockFactors, KeepTheNumberOfExpectedSamples) {
  std::vector<MemoryRow> rows = Sampled(3'000, 1, EighthUnlessFourth);
  LearnBlockFactors(rows);
  const MemoryWeights weights(rows);
  double expected = 0;
  for (const MemoryRow& row : rows) expected += weights.Of(row).mean;
  EXPECT_NEAR(expected, 3'000, 150);
}

TEST(BlockFactors, APagesOwnSamplesAreNoneOfItsNeighbours) {
  std::vector<MemoryRow> rows = Sampled(3'000, 1, EighthUnlessFourth);
  rows[kPagesOfBlock].seen.samples = 400;  // the slowest page of block 1
  LearnBlockFactors(rows);
  EXPECT_GT(rows[kPagesOfBlock + 1].seen.factor, 3 * rows[kPagesOfBlock].seen.factor);
}

TEST(BlockFactors, AreOneWithFewSamplesWithoutBlocksAndForOtherTargets) {
  std::vector<MemoryRow> few = Sampled(29, 1, EighthUnlessFourth);
  std::vector<MemoryRow> spans = Sampled(3'000, 1, EighthUnlessFourth);
  for (MemoryRow& row : spans) row.block = std::nullopt;
  for (std::vector<MemoryRow>* rows : {&few, &spans}) {
    LearnBlockFactors(*rows);
    for (const MemoryRow& row : *rows) EXPECT_EQ(row.seen.factor, 1);
  }
  // Two programs have one block number each, and differ in what their pages are worth.
  std::vector<MemoryRow> two;
  for (std::uint32_t target = 0; target < 2; ++target) {
    for (int page = 0; page < 100; ++page) {
      two.push_back({.target = TargetId(target),
                     .seen = {.rate = 10, .pages = 1, .seconds = 1, .samples = target * 4.0},
                     .block = 7});
    }
  }
  LearnBlockFactors(two);
  for (const MemoryRow& row : two) EXPECT_EQ(row.seen.factor, 1);
}

TEST(BlockFactors, ASpanThatIsInSeveralBlocksIsInNone) {
  EXPECT_EQ(BlockOf({TargetId(0), Vpn(1'535)}, 1), 2u);
  EXPECT_EQ(BlockOf({TargetId(0), Vpn(1'536)}, 512), 3u);
  EXPECT_EQ(BlockOf({TargetId(0), Vpn(1'536)}, 1'024), std::nullopt);
  EXPECT_EQ(BlockOf({TargetId(0), Vpn(400)}, 300), std::nullopt);
}

}  // namespace block_factors_test
}  // namespace tmprof
