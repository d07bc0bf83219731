// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "base/shared_pages.h"

namespace tmprof {
namespace memory_weights_test {

// Rows of a target whose stack is used all the time, and of what it reads now and then.
std::vector<MemoryRow> StackAndTable(double seconds, double samples_of_table) {
  std::vector<MemoryRow> rows(
      8, {.target = TargetId(0), .seen = {.rate = 8'000, .pages = 1, .seconds = seconds}});
  for (int page = 0; page < 512; ++page)
    rows.push_back({.target = TargetId(0), .seen = {.rate = 20, .pages = 1, .seconds = seconds}});
  rows.back().seen.samples = samples_of_table;
  return rows;
}

constexpr double kLlcBytes = 512 * 1024;  // a quarter of the table

TEST(MemoryWeightsTest, ACacheIsModelledWithoutSamples) {
  const std::vector<MemoryRow> rows = StackAndTable(0, 0);
  const MemoryWeights told(rows, {.units_per_sample = 16384, .llc_bytes = kLlcBytes});
  EXPECT_EQ(told.basis(), MemoryBasis::kCacheModel);
  const double of_table = told.Of(rows.back()).mean;
  EXPECT_GT(of_table, 5) << "accesses to memory in a second";
  EXPECT_LT(of_table, 20);
  EXPECT_LT(told.Of(rows.front()).mean / of_table, 8'000 / 20 / 4)
      << "the stack stays in the cache for the most part";
  EXPECT_GT(told.Of(rows.front()).relative_sd, 0.3) << "how evenly lines are used is unknown";
}

TEST(MemoryWeightsTest, PairsOfSamplesTellHowEvenlyLinesAreUsed) {
  const std::vector<MemoryRow> rows = StackAndTable(0, 0);
  const auto stack = [&](double pairs, double of_one_line) {
    const MemoryWeights told(
        rows, {.llc_bytes = kLlcBytes,
               .pairs = {.samples = 2'000, .pairs = pairs, .of_one_line = of_one_line}});
    EXPECT_EQ(told.basis(), MemoryBasis::kCacheModel);
    return told.Of(rows.front());
  };
  const MemoryWeights::Weight untold = stack(0, 0);
  const MemoryWeights::Weight even = stack(400, 6);
  const MemoryWeights::Weight uneven = stack(400, 140);
  EXPECT_LT(uneven.mean, even.mean / 100) << "where a third are of one line, that line is all";
  EXPECT_LT(uneven.relative_sd, untold.relative_sd);
  EXPECT_NEAR(stack(2, 0).mean, untold.mean, 0.2 * untold.mean) << "two pairs tell next to nothing";
  EXPECT_LT(stack(40'000, 14'000).mean, 1.5 * uneven.mean) << "more pairs say no less";
}

// The misses of a second of CPU time if lines are used so evenly.
double MissesExpected(const std::vector<MemoryRow>& rows, double evenness) {
  std::vector<CachedPages> pages;
  for (const MemoryRow& row : rows) pages.push_back({.rate = row.seen.rate, .pages = 1});
  const auto model = CacheModel::Make(pages, kLlcBytes, evenness);
  double misses = 0;
  for (const CachedPages& each : pages)
    misses += each.pages * each.rate * model->PartToMemory(each.rate);
  return misses;
}

TEST(MemoryWeightsTest, CountedMissesTellHowEvenlyLinesAreUsed) {
  const std::vector<MemoryRow> rows = StackAndTable(0, 0);
  constexpr double kSeconds = 10;
  const double even = MissesExpected(rows, 128);
  const double uneven = MissesExpected(rows, 1.0 / 32);
  ASSERT_GT(even, 30 * uneven) << "the count can decide";
  const auto told = [&](std::optional<double> per_second) {
    MemoryScale scale{.llc_bytes = kLlcBytes};
    if (per_second) scale.counted = {.misses = kSeconds * *per_second, .cpu_seconds = kSeconds};
    const MemoryWeights weights(rows, scale);
    EXPECT_EQ(weights.basis(), MemoryBasis::kCacheModel);
    return weights;
  };
  const auto stack_to_table = [&](const MemoryWeights& weights) {
    return weights.Of(rows.front()).mean / weights.Of(rows.back()).mean;
  };
  const double uncounted = stack_to_table(told(std::nullopt));
  EXPECT_GT(stack_to_table(told(uneven)), 2 * uncounted);
  EXPECT_LT(stack_to_table(told(even)), uncounted / 2);
  EXPECT_GT(stack_to_table(told(4 * uneven)), 2 * uncounted) << "a total may be off by so much";
  // A second of counting is worth as much as ten: the model's own error is far larger.
  const MemoryWeights short_count(
      rows, {.llc_bytes = kLlcBytes, .counted = CountedMisses{.misses = even, .cpu_seconds = 1}});
  EXPECT_NEAR(stack_to_table(short_count), stack_to_table(told(even)), 0.01);
}

TEST(MemoryWeightsTest, CountedMissesAreSharedOut) {
  const std::vector<MemoryRow> rows = StackAndTable(0, 0);
  for (const double llc_bytes : {kLlcBytes, 1e9}) {
    const MemoryWeights told(rows, {.units_per_sample = 16384,
                                    .llc_bytes = llc_bytes,
                                    .counted = CountedMisses{.misses = 5e6, .cpu_seconds = 100}});
    double all = 0;
    for (const MemoryRow& row : rows) all += told.Of(row).mean;
    EXPECT_NEAR(all, 50'000, 500) << llc_bytes << ": rates are rounded";
    EXPECT_EQ(told.basis(),
              llc_bytes == kLlcBytes ? MemoryBasis::kCacheModel : MemoryBasis::kProportion)
        << "the cache does not hold all, whatever its size is said to be";
  }
}

// Two processes of 1 s each map a file, whose clock runs at the pace of both.
TEST(MemoryWeightsTest, CountedMissesAreOfTheCpuTimeOfProcessesAlone) {
  std::vector<MemoryRow> rows;
  for (const TargetId target : {TargetId(0), TargetId(1), SharedPages::kFirstFile}) {
    for (MemoryRow row : StackAndTable(0, 0)) {
      row.target = target;
      row.speed = target == SharedPages::kFirstFile ? 2 : 1;
      rows.push_back(row);
    }
  }
  for (const double llc_bytes : {2 * kLlcBytes, 1e9}) {
    const MemoryWeights told(rows, {.llc_bytes = llc_bytes,
                                    .counted = CountedMisses{.misses = 5e6, .cpu_seconds = 100}});
    double all = 0;  // in the 2 s of both processes
    for (const MemoryRow& row : rows) all += row.speed * told.Of(row).mean;
    EXPECT_NEAR(all, 2 * 50'000, 2 * 500) << llc_bytes << ": rates are rounded";
  }
}

TEST(MemoryWeightsTest, AHiddenAccessIsNotAmongTheCountedMisses) {
  std::vector<MemoryRow> rows = StackAndTable(0, 0);
  for (std::size_t i = 0; i < rows.size(); i += 2) rows[i].hidden = 0.75;
  for (const double llc_bytes : {kLlcBytes, 1e9}) {
    const MemoryWeights told(rows, {.llc_bytes = llc_bytes,
                                    .counted = CountedMisses{.misses = 5e6, .cpu_seconds = 100}});
    double all = 0;
    for (const MemoryRow& row : rows) all += told.Of(row).mean;
    EXPECT_NEAR(all, 50'000, 500) << llc_bytes << ": rates are rounded";
    EXPECT_NEAR(told.Of(rows[510]).mean / told.Of(rows[511]).mean, 0.25, 1e-9);
  }
}

TEST(MemoryWeightsTest, FewSamplesAreOfAccessesThatAreNotHidden) {
  constexpr double kSeconds = 10;
  std::vector<MemoryRow> rows = StackAndTable(kSeconds, 9);
  for (std::size_t i = 0; i < rows.size(); i += 2) rows[i].hidden = 0.75;
  for (const std::optional<double> llc_bytes :
       {std::optional(kLlcBytes), std::optional<double>()}) {
    const MemoryWeights told(rows, {.units_per_sample = 1'000, .llc_bytes = llc_bytes});
    double expected = 0;
    for (MemoryRow row : rows) {
      row.seen.samples = row.seen.seconds = 0;
      expected += told.Of(row).mean;
    }
    EXPECT_NEAR(expected, 9.5 * 1'000 / kSeconds, 1) << llc_bytes.has_value();
  }
}

TEST(MemoryWeightsTest, FillingTheCacheOnceTakesNoMissesThatTell) {
  const std::vector<MemoryRow> rows = StackAndTable(0, 0);
  const auto basis = [&](double misses) {
    return MemoryWeights(rows, {.llc_bytes = 1e9,
                                .counted = CountedMisses{.misses = misses, .cpu_seconds = 10}})
        .basis();
  };
  EXPECT_EQ(basis(64.0 * 520), MemoryBasis::kAllCached);
  EXPECT_EQ(basis(64.0 * 520 + 1), MemoryBasis::kProportion);
}

TEST(MemoryWeightsTest, ACountThatNoModelExpectsStillLeavesOne) {
  const std::vector<MemoryRow> rows = StackAndTable(0, 0);
  for (const double misses : {0.0, 1e30}) {
    const MemoryWeights told(rows, {.llc_bytes = kLlcBytes,
                                    .counted = CountedMisses{.misses = misses, .cpu_seconds = 10}});
    EXPECT_EQ(told.basis(), MemoryBasis::kCacheModel);
    EXPECT_TRUE(std::isfinite(told.Of(rows.back()).mean));
    EXPECT_GT(told.Of(rows.back()).mean, 0);
  }
}

TEST(MemoryWeightsTest, PairsThatNoModelExpectsStillLeaveOne) {
  const std::vector<MemoryRow> rows = StackAndTable(0, 0);
  const MemoryWeights told(
      rows, {.llc_bytes = kLlcBytes, .pairs = {.samples = 1e6, .pairs = 1e6, .of_one_line = 1e6}});
  EXPECT_EQ(told.basis(), MemoryBasis::kCacheModel);
  EXPECT_TRUE(std::isfinite(told.Of(rows.back()).mean));
  EXPECT_GT(told.Of(rows.back()).mean, 0);
}

TEST(MemoryWeightsTest, EachAccessIsWorthTheSameWhereNoCacheIsKnown) {
  const std::vector<MemoryRow> rows = StackAndTable(0, 0);
  const MemoryWeights told(rows);
  EXPECT_EQ(told.basis(), MemoryBasis::kProportion);
  EXPECT_NEAR(told.Of(rows.front()).mean, 8'000, 1e-6);
  EXPECT_NEAR(told.Of(rows.back()).mean, 20, 1e-6);
}

TEST(MemoryWeightsTest, NoAccessReachesMemoryWhereTheCacheHoldsAll) {
  const std::vector<MemoryRow> rows = StackAndTable(0, 0);
  const MemoryWeights told(rows, {.llc_bytes = 1e9});
  EXPECT_EQ(told.basis(), MemoryBasis::kAllCached);
  EXPECT_EQ(told.Of(rows.front()).mean, 0);
  EXPECT_TRUE(std::isinf(told.Of(rows.front()).relative_sd));
}

TEST(MemoryWeightsTest, ASampleOfAMissShowsThatTheCacheDoesNotHoldAll) {
  const std::vector<MemoryRow> rows = StackAndTable(10, 1);
  const MemoryWeights told(rows, {.llc_bytes = 1e9});
  EXPECT_EQ(told.basis(), MemoryBasis::kProportion);
  EXPECT_GT(told.Of(rows.front()).mean, 0);
}

TEST(MemoryWeightsTest, FewSamplesScaleWhatTheModelExpects) {
  constexpr double kSeconds = 10;
  const std::vector<MemoryRow> rows = StackAndTable(kSeconds, 9);
  const MemoryWeights told(rows, {.units_per_sample = 1'000, .llc_bytes = kLlcBytes});
  ASSERT_EQ(told.basis(), MemoryBasis::kCacheModel);
  double expected = 0;
  for (const MemoryRow& row : rows) {
    MemoryRow unsampled = row;
    unsampled.seen.samples = unsampled.seen.seconds = 0;
    expected += told.Of(unsampled).mean;
  }
  EXPECT_NEAR(expected, 9.5 * 1'000 / kSeconds, 1);
}

TEST(MemoryWeightsTest, EnoughSamplesTellMoreThanAModel) {
  const std::vector<MemoryRow> rows = StackAndTable(10, 30);
  EXPECT_EQ(MemoryWeights(rows, {.llc_bytes = kLlcBytes}).basis(), MemoryBasis::kSamples);
}

TEST(MemoryWeightsTest, ATargetThatHardlyRunsLeavesTheCacheToTheOthers) {
  std::vector<MemoryRow> rows;
  for (const double speed : {1.0, 1e-4}) {
    for (int page = 0; page < 256; ++page)
      rows.push_back({.target = TargetId(speed == 1 ? 0 : 1),
                      .seen = {.rate = 1'000, .pages = 1},
                      .speed = speed});
  }
  // It has room for the pages of the one.
  const MemoryWeights told(rows, {.llc_bytes = 280 * 4096.0});
  ASSERT_EQ(told.basis(), MemoryBasis::kCacheModel);
  EXPECT_GT(told.Of(rows.back()).mean, 3 * told.Of(rows.front()).mean)
      << "by then its lines have gone";
}

TEST(MemoryWeightsTest, OneDrawOfTheModelHoldsForAllTargets) {
  std::vector<MemoryRow> rows = StackAndTable(0, 0);
  for (MemoryRow row : StackAndTable(0, 0)) {
    row.target = TargetId(1);
    rows.push_back(row);
  }
  const MemoryWeights told(rows, {.llc_bytes = kLlcBytes});
  std::mt19937_64 random(1);
  double least = 1e9;
  double most = 0;
  for (int draw = 0; draw < 50; ++draw) {
    const MemoryWeights drawn = told.Draw(random);
    const double stack = drawn.Of(rows.front()).mean;
    EXPECT_EQ(drawn.Of({.target = TargetId(1), .seen = rows.front().seen}).mean, stack);
    EXPECT_EQ(drawn.WorthOf(TargetId(0)).ShapeOf({}), drawn.WorthOf(TargetId(1)).ShapeOf({}));
    least = std::min(least, stack);
    most = std::max(most, stack);
  }
  EXPECT_GT(most, 2 * least);
}

// The weights of rows that are merged are those that all rows by themselves lead to.
TEST(MemoryWeightsTest, RowsMergedByRateLearnWhatAllRowsTell) {
  std::mt19937_64 random(3);
  std::vector<MemoryRow> rows;
  std::vector<SampledPages> seen;
  for (int page = 0; page < 8192; ++page) {
    const double rate =
        page % 97 == 0 ? 0 : std::exp2(std::uniform_real_distribution(0.0, 12.0)(random));
    const double seconds = page % 2 == 0 ? 10.0 : 7.3 + 0.001 * (page % 5);
    const double pages = page % 64 == 0 ? 512 : 1;
    const double samples =
        std::poisson_distribution<int>(0.02 * pages * seconds / (1 + rate / 100))(random);
    seen.push_back({.rate = rate, .pages = pages, .seconds = seconds, .samples = samples});
    rows.push_back({.target = TargetId(0), .seen = seen.back()});
  }
  const MemoryWeights merged(rows);
  ASSERT_EQ(merged.basis(), MemoryBasis::kSamples);
  const MemoryWorth naive(seen);
  for (const double rate : {0.0, 1.5, 10.0, 100.0, 1000.0, 4000.0}) {
    const SampledPages page{.rate = rate, .pages = 1, .seconds = 10, .samples = 0};
    const double expected = naive.OfPages(page).mean;
    EXPECT_NEAR(merged.Of({.target = TargetId(0), .seen = page}).mean, expected, 0.02 * expected)
        << rate;
  }
}

TEST(MemoryWeightsTest, AnAccessIsOneToMemoryWhileNoSamplerWasOn) {
  const std::vector<MemoryRow> rows = {
      {.target = TargetId(0), .seen = {.rate = 300, .pages = 1, .seconds = 0}}};
  EXPECT_NEAR(MemoryWeights(rows, {.units_per_sample = 16384}).Of(rows[0]).mean, 300, 1e-6);
  const std::vector<MemoryRow> watched = {
      {.target = TargetId(0), .seen = {.rate = 300, .pages = 1, .seconds = 10}}};
  EXPECT_NEAR(MemoryWeights(watched, {.units_per_sample = 16384}).Of(watched[0]).mean,
              0.5 * 16384 / 10, 20)
      << "half a sample in ten seconds";
}

}  // namespace memory_weights_test
}  // namespace tmprof
