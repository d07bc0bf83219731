// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_worth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "rank/hit_rate_teller.h"
#include "rank/memory_weights.h"
#include "rank/rank_model.h"
#include "rank/total_ranker.h"
#include "tests/rank/profiles.h"
#include "tests/rank/shared_memory.h"

namespace tmprof {
namespace memory_worth_test {

constexpr std::size_t kPages = 4'096;

// Rates spread over five decades.
std::vector<double> Rates() {
  std::vector<double> rates(kPages);
  for (std::size_t i = 0; i < kPages; ++i)
    rates[i] = 0.1 * std::pow(1e5, static_cast<double>(i) / (kPages - 1));
  return rates;
}

// Samples of pages that miss the cache so often; `samples` in all.
std::vector<SampledPages> Sample(const std::vector<double>& rates,
                                 const std::vector<double>& misses, int samples,
                                 std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::discrete_distribution<std::size_t> page(misses.begin(), misses.end());
  std::vector<SampledPages> seen;
  for (const double rate : rates) seen.push_back({.rate = rate, .pages = 1, .seconds = 1});
  for (int i = 0; i < samples; ++i) ++seen[page(random)].samples;
  return seen;
}

std::vector<double> MissesOf(const std::vector<double>& rates,
                             const std::function<double(double)>& of_rate) {
  std::vector<double> misses;
  for (const double rate : rates) misses.push_back(of_rate(rate));
  return misses;
}

// The share of the misses that the best eighth of the pages has.
double Served(const std::vector<double>& by, const std::vector<double>& misses) {
  std::vector<std::size_t> order(by.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t i) { return by[i]; });
  double hit = 0;
  for (std::size_t i = 0; i < order.size() / 8; ++i) hit += misses[order[i]];
  return hit / std::accumulate(misses.begin(), misses.end(), 0.0);
}

std::vector<double> WorthOf(const MemoryWorth& worth, const std::vector<SampledPages>& seen) {
  std::vector<double> by;
  for (const SampledPages& each : seen) by.push_back(worth.OfPages(each).mean);
  return by;
}

// A page that rests for less than a tenth of a second stays in the cache.
double MissesBehindACache(double rate) { return rate * std::exp(-rate / 10); }

TEST(MemoryWorth, IsInProportionToRatesWhereAllAccessesMiss) {
  const std::vector<double> rates = Rates();
  const MemoryWorth worth(Sample(rates, rates, 100'000, 1));
  EXPECT_NEAR(worth.OfRate(1'000) / worth.OfRate(100), 10, 2);
  EXPECT_NEAR(worth.OfRate(100) / worth.OfRate(10), 10, 2);
  const double all = std::accumulate(rates.begin(), rates.end(), 0.0);
  EXPECT_NEAR(worth.OfRate(1'000) * all / (1'000 * 100'000), 1, 0.1);
}

TEST(MemoryWorth, FallsWhereFastPagesStayInTheCache) {
  const std::vector<double> rates = Rates();
  const MemoryWorth worth(Sample(rates, MissesOf(rates, MissesBehindACache), 10'000, 1));
  EXPECT_GT(worth.OfRate(10), 3 * worth.OfRate(1));
  EXPECT_GT(worth.OfRate(10), 10 * worth.OfRate(1'000));
}

TEST(MemoryWorth, ThreeHundredSamplesRankNearlyAsWellAsTheTruth) {
  const std::vector<double> rates = Rates();
  const std::vector<double> misses = MissesOf(rates, MissesBehindACache);
  const double best = Served(misses, misses);
  EXPECT_LT(Served(rates, misses), 0.01) << "the fastest pages miss least";
  double served = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const std::vector<SampledPages> seen = Sample(rates, misses, 300, seed);
    served += Served(WorthOf(MemoryWorth(seen), seen), misses) / 10;
  }
  EXPECT_GT(served, 0.85 * best);
}

TEST(MemoryWorth, ExpectsAsManySamplesAsThereAre) {
  // Few pages have most samples: a class of them has many rates.
  std::vector<double> rates;
  for (std::size_t i = 1; i <= kPages; ++i) rates.push_back(1e4 / static_cast<double>(i));
  const std::vector<SampledPages> seen = Sample(rates, rates, 2'000, 1);
  const MemoryWorth worth(seen);
  double expected = 0;
  for (const double rate : rates) expected += worth.OfRate(rate);
  EXPECT_NEAR(expected, 2'000, 60);
}

TEST(MemoryWorth, DrawsScatterAboutTheFit) {
  const std::vector<double> rates = Rates();
  const MemoryWorth worth(Sample(rates, rates, 1'000, 1));
  std::mt19937_64 random(3);
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 400;
  for (int i = 0; i < kDraws; ++i) {
    const double off = std::log(worth.Draw(random).OfRate(5'000) / worth.OfRate(5'000));
    sum += off;
    squares += off * off;
  }
  const double sd = std::sqrt(squares / kDraws);
  EXPECT_NEAR(sum / kDraws, 0, 0.05);
  // Some 500 samples are of the pages about that rate; neighbours are evidence about it, too.
  EXPECT_GT(sd, 0.02);
  EXPECT_LT(sd, 0.2);
}

TEST(MemoryWorth, KnowsOnePage) {
  const std::vector<SampledPages> seen = {{.rate = 7, .pages = 1, .seconds = 2, .samples = 100}};
  EXPECT_NEAR(MemoryWorth(seen).OfRate(7), 50, 1);
  std::mt19937_64 random(3);
  EXPECT_NEAR(MemoryWorth(seen).Draw(random).OfRate(7), 50, 25);
}

TEST(MemoryWorth, APageOfItsOwnKindIsKnownByItsOwnSamples) {
  // One page in eight misses, and rates do not show which.
  const std::vector<double> rates(kPages, 100.0);
  std::vector<double> misses(kPages, 0.0);
  for (std::size_t i = 0; i < kPages; i += 8) misses[i] = 1;
  const std::vector<SampledPages> seen = Sample(rates, misses, 10'000, 1);
  EXPECT_GT(Served(WorthOf(MemoryWorth(seen), seen), misses), 0.99);
}

TEST(MemoryWorth, OwnSamplesSayLittleWherePagesOfARateAreAlike) {
  const std::vector<double> rates(kPages, 100.0);
  const MemoryWorth worth(Sample(rates, rates, 4 * kPages, 1));
  for (const double samples : {0.0, 12.0}) {
    const SampledPages page{.rate = 100, .pages = 1, .seconds = 1, .samples = samples};
    EXPECT_NEAR(worth.OfPages(page).mean, 4, 0.5);
  }
}

TEST(MemoryWorth, APageFoundAccessedAtNoTimeIsLikeTheSlowest) {
  std::vector<double> rates = Rates();
  std::fill_n(rates.begin(), kPages / 2, 0.0);
  const MemoryWorth worth(Sample(rates, rates, 10'000, 1));
  EXPECT_LT(worth.OfRate(0), worth.OfRate(rates[kPages / 2 + 1]) * 1.01);
  EXPECT_GE(worth.OfRate(0), 0);
  EXPECT_LT(worth.OfRate(0), 0.1 * worth.OfRate(10'000));
}

TEST(MemoryWorth, LargeSpansCountByTheirPages) {
  std::vector<SampledPages> seen;
  for (int i = 0; i < 64; ++i) {
    seen.push_back({.rate = 10, .pages = 512, .seconds = 2, .samples = 1'024});
    seen.push_back({.rate = 1'000, .pages = 1, .seconds = 2, .samples = 40});
  }
  const MemoryWorth worth(seen);
  EXPECT_NEAR(worth.OfRate(10), 1, 0.1);
  EXPECT_NEAR(worth.OfRate(1'000), 20, 2);
  EXPECT_NEAR(worth.OfPages(seen.front()).mean, 1, 0.1);
}

EpochProfile Sampled(std::uint64_t index, const std::vector<PageRecord>& records) {
  EpochProfile epoch = Epoch(index, records);
  epoch.sources.push_back({.name = "ibs",
                           .role = SourceRole::kSamples,
                           .state = SourceState::kActive,
                           .samples_of = SampleSubject::kMemory});
  return epoch;
}

// 64 pages that are accessed a thousand times a second, and as many that are ten times.
std::vector<PageRecord> FastAndSlow(std::uint32_t target, std::uint32_t samples_of_fast,
                                    std::uint32_t samples_of_slow) {
  std::vector<PageRecord> records;
  for (std::uint64_t vpn = 0; vpn < 128; ++vpn) {
    const bool is_fast = vpn < 64;
    PageRecord record =
        Visited(vpn, 10, is_fast ? std::chrono::milliseconds(10) : std::chrono::seconds(1),
                is_fast ? samples_of_fast : samples_of_slow);
    record.key.target = TargetId(target);
    records.push_back(record);
  }
  return records;
}

Scores ScoreOf(const EpochProfile& epoch, RankSource source) {
  Ranker ranker({.model = RankModel::kRate});
  ranker.Absorb(epoch);
  return ranker.Score(source);
}

TEST(RankByMemory, PutsSlowPagesFirstThatMissWhereFastOnesDoNot) {
  const EpochProfile epoch = Sampled(0, FastAndSlow(0, 0, 2));
  const Scores accesses = ScoreOf(epoch, RankSource::kReferences);
  EXPECT_GT(accesses[0], 10 * accesses[127]);
  const Scores memory = ScoreOf(epoch, RankSource::kMemory);
  EXPECT_GT(memory[127], 5 * memory[0]);
  EXPECT_NEAR(memory[127], 2, 0.3) << "samples in the epoch";
}

TEST(RankByMemory, LearnsForEachTargetItsOwnWorth) {
  std::vector<PageRecord> records = FastAndSlow(0, 0, 2);
  for (const PageRecord& record : FastAndSlow(1, 2, 0)) records.push_back(record);
  const Scores memory = ScoreOf(Sampled(0, records), RankSource::kMemory);
  EXPECT_GT(memory[127], 5 * memory[0]);
  EXPECT_GT(memory[128], 5 * memory[255]);
}

TEST(RankByMemory, GoesByAccessesWhileThereAreFewSamples) {
  std::vector<PageRecord> records = FastAndSlow(0, 0, 0);
  records[127].load_samples = static_cast<std::uint32_t>(MemoryWorth::kFewestSamples) - 1;
  const EpochProfile epoch = Sampled(0, records);
  const Scores accesses = ScoreOf(epoch, RankSource::kReferences);
  const Scores memory = ScoreOf(epoch, RankSource::kMemory);
  EXPECT_NEAR(memory[0] / memory[64], accesses[0] / accesses[64],
              0.01 * accesses[0] / accesses[64]);
  EXPECT_NEAR(std::accumulate(memory.begin(), memory.end(), 0.0), 29.5, 0.5)
      << "samples, of which half a one is added";
}

// FastAndSlow() in an epoch with a sampler of that subject, and a cache of that size.
Scores ScoreWithCache(std::vector<PageRecord> records, std::optional<std::uint64_t> llc_bytes,
                      SampleSubject subject, std::optional<PageCount> resident = std::nullopt) {
  EpochProfile epoch = Sampled(0, records);
  epoch.sources.front().samples_of = subject;
  epoch.targets = {{.id = TargetId(0), .resident_pages = resident}};
  Ranker ranker({.model = RankModel::kRate, .llc_bytes = llc_bytes});
  ranker.Absorb(epoch);
  EXPECT_TRUE(ranker.TellsMemory() || !llc_bytes);
  const Scores scores = ranker.Score(RankSource::kMemory);
  TotalRanker total(RankModel::kRate, llc_bytes);
  total.Absorb(epoch);
  const Scores of_trace = total.Score(RankSource::kMemory);
  EXPECT_EQ(of_trace[0] > of_trace[64], scores[0] > scores[64]) << "they rank alike";
  return scores;
}

constexpr std::uint64_t kMiB = 1 << 20;

TEST(RankByMemory, AModelOfTheCacheKeepsFastPagesBackWithoutSamples) {
  const std::vector<PageRecord> records = FastAndSlow(0, 0, 0);
  const Scores accesses = ScoreOf(Sampled(0, records), RankSource::kReferences);
  EXPECT_GT(accesses[0], 10 * accesses[127]);
  // It has room for all but a quarter of the 512 KiB.
  const Scores memory = ScoreWithCache(records, kMiB * 3 / 8, SampleSubject::kMemory);
  EXPECT_GT(memory[127], memory[0]);
  EXPECT_EQ(ScoreWithCache(records, kMiB, SampleSubject::kMemory)[127], 0) << "all has room";
  const Scores without = ScoreWithCache(records, std::nullopt, SampleSubject::kMemory);
  EXPECT_GT(without[0], 10 * without[127]);
}

TEST(RankByMemory, SamplesOfTimeAreNoneOfMemory) {
  const Scores memory = ScoreWithCache(FastAndSlow(0, 40, 0), kMiB * 3 / 8, SampleSubject::kTime);
  EXPECT_GT(memory[127], memory[0]) << "time is spent on the fast pages, which are in the cache";
  const Scores sampled =
      ScoreWithCache(FastAndSlow(0, 40, 0), kMiB * 3 / 8, SampleSubject::kMemory);
  EXPECT_GT(sampled[0], 5 * sampled[127]) << "samples of misses say more than a model";
}

TEST(RankByMemory, PagesThatWereNotLookedAtUseTheCacheToo) {
  // With 100 times as many pages, a cache of 100 times the size has room for an equal part.
  const std::vector<PageRecord> records = FastAndSlow(0, 0, 0);
  const Scores all = ScoreWithCache(records, kMiB * 3 / 8, SampleSubject::kMemory, PageCount(128));
  const Scores part =
      ScoreWithCache(records, 100 * kMiB * 3 / 8, SampleSubject::kMemory, PageCount(12'800));
  EXPECT_NEAR(part[0], all[0], 1e-6 * all[0]);
  EXPECT_NEAR(part[127], all[127], 1e-6 * all[127]);
}

TEST(RankByMemory, HitRatesSpeakForPagesOfWhichNothingIsKnown) {
  const auto rates = [](std::optional<PageCount> resident) {
    EpochProfile epoch = Sampled(0, FastAndSlow(0, 0, 0));
    epoch.targets = {{.id = TargetId(0), .resident_pages = resident}};
    HitRateTeller teller({.model = RankModel::kRate, .llc_bytes = kMiB * 3 / 8},
                         RankSource::kMemory, std::vector<PageCount>{PageCount(128)});
    teller.Absorb(epoch);
    return teller.Tell()[0];
  };
  const HitRates known = rates(PageCount(128));
  ASSERT_TRUE(known.attainable);
  EXPECT_NEAR(known.attainable->value, 1, 0.01);
  EXPECT_TRUE(known.attainable->is_told());
  const HitRates half = rates(PageCount(256));
  ASSERT_TRUE(half.attainable && half.oracle);
  EXPECT_EQ(half.unknown, PageCount(128));
  EXPECT_FALSE(half.attainable->is_told()) << "128 pages do not tell what others are like";
  EXPECT_FALSE(half.oracle->is_told());
  EXPECT_FALSE(rates(PageCount(128 * 20)).attainable->is_told());
  EXPECT_NEAR(half.attainable->value, 0.5, 0.01);
  EXPECT_GT(half.oracle->value, 0.5) << "the best placement chooses among all";
}

// FastAndSlow() of two targets that ran for a second each.
EpochProfile OfTwoTargets(std::uint32_t samples_of_slow) {
  std::vector<PageRecord> records = FastAndSlow(0, 0, samples_of_slow);
  for (const PageRecord& record : FastAndSlow(1, 0, samples_of_slow)) records.push_back(record);
  EpochProfile epoch = Sampled(0, records);
  epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::seconds(1)},
                   {.id = TargetId(1), .cpu_time = std::chrono::seconds(1)}};
  return epoch;
}

TEST(RankByMemory, ATargetThatRestsStillUsesTheCache) {
  const auto score = [](bool rests, bool is_there) {
    EpochProfile epoch = OfTwoTargets(0);
    if (!is_there) epoch.pages = Sampled(0, FastAndSlow(0, 0, 0)).pages;
    Ranker::Options options = Ranker::DefaultOptions(RankModel::kRate);
    options.llc_bytes = kMiB * 3 / 8;
    Ranker ranker(options);
    ranker.Absorb(epoch);
    EpochProfile next = Sampled(1, FastAndSlow(0, 0, 0));
    next.targets = {{.id = TargetId(0), .cpu_time = std::chrono::seconds(1)},
                    {.id = TargetId(1), .cpu_time = std::chrono::seconds(rests ? 0 : 1)}};
    ranker.Absorb(next);
    return ranker.Score(RankSource::kMemory);
  };
  const double beside_one_that_rests = score(true, true)[0];
  EXPECT_NEAR(beside_one_that_rests, score(false, true)[0], 0.2 * beside_one_that_rests);
  EXPECT_GT(beside_one_that_rests, 1.5 * score(true, false)[0]) << "alone it has more of the cache";
  EXPECT_EQ(score(true, true)[255], 0) << "it has no accesses";
}

TEST(RankByMemory, PagesOfATargetThatHasExitedAreNotCounted) {
  const EpochProfile epoch = OfTwoTargets(2);
  for (const std::optional<std::uint64_t> llc_bytes :
       {std::optional<std::uint64_t>(), std::optional(kMiB / 8)}) {
    Ranker::Options options = Ranker::DefaultOptions(RankModel::kRate);
    options.llc_bytes = llc_bytes;
    // If samples decide, only the slow pages count.
    const PageCount capacity(llc_bytes ? 128 : 64);
    HitRateTeller teller(options, RankSource::kMemory, std::vector<PageCount>{capacity});
    EpochProfile both = epoch;
    if (llc_bytes) both.sources.front().samples_of = SampleSubject::kTime;
    teller.Absorb(both);
    EXPECT_LT(teller.Tell()[0].attainable->value, 0.9) << "half of the pages that count";
    EpochProfile one = Sampled(1, FastAndSlow(0, 0, 2));
    one.sources = both.sources;
    one.targets = {{.id = TargetId(0), .cpu_time = std::chrono::seconds(1)}};
    teller.Absorb(one);
    EXPECT_GT(teller.Tell()[0].attainable->value, 0.97) << "all that are left";
  }
}

TEST(RankByMemory, BothRankersTellTheErrorsOfTheRateAndOfTheModel) {
  EpochProfile epoch = Sampled(0, FastAndSlow(0, 0, 0));
  Ranker ranker({.model = RankModel::kRate, .llc_bytes = kMiB * 3 / 8});
  TotalRanker total(RankModel::kRate, kMiB * 3 / 8);
  ranker.Absorb(epoch);
  total.Absorb(epoch);
  const Estimates now = ranker.Estimate(RankSource::kMemory);
  const Estimates whole = total.Estimate(RankSource::kMemory);
  for (const std::size_t row : {0UL, 127UL}) {
    EXPECT_NEAR(now.score[row], whole.score[row], 0.1 * now.score[row]);
    EXPECT_NEAR(now.relative_sd[row], whole.relative_sd[row], 0.1 * now.relative_sd[row]);
  }
}

TEST(RankByMemory, SamplesOfTimeBeforeThoseOfMissesKeepItFromBeingTold) {
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  EpochProfile clock = Sampled(0, FastAndSlow(0, 2, 0));
  clock.sources.front().samples_of = SampleSubject::kTime;
  ranker.Absorb(clock);
  EpochProfile misses = Sampled(1, FastAndSlow(0, 0, 2));
  misses.sources.front().accesses_per_sample = 16384;
  ranker.Absorb(misses);
  EXPECT_FALSE(ranker.TellsMemory());
  Ranker of_misses(Ranker::DefaultOptions(RankModel::kRate));
  of_misses.Absorb(misses);
  EXPECT_TRUE(of_misses.TellsMemory());
}

TEST(RankByMemory, TellsHitRatesByAModelOfTheCacheWithoutHistory) {
  EpochProfile epoch = Sampled(0, FastAndSlow(0, 40, 0));
  epoch.sources.front().samples_of = SampleSubject::kTime;
  Ranker::Options options = Ranker::DefaultOptions(RankModel::kRate);
  options.llc_bytes = kMiB * 3 / 8;
  const std::vector<PageCount> capacities = {PageCount(64)};
  HitRateTeller teller(options, RankSource::kMemory, capacities);
  teller.Absorb(epoch);
  epoch.start = epoch.end;
  epoch.end += std::chrono::seconds(1);
  teller.Absorb(epoch);
  const HitRates told = teller.Tell()[0];
  ASSERT_TRUE(told.attainable);
  EXPECT_GT(told.attainable->high - told.attainable->low, 0.1) << "the model has not been told all";
  EXPECT_FALSE(told.history) << "samples of time judge nothing";
}

TEST(RankByMemory, PagesOfWhichNoBitWasReadAreRankedByTheirSamples) {
  std::vector<PageRecord> records = FastAndSlow(0, 0, 2);
  records.push_back({.key = Key(0, 500), .load_samples = 3});
  records.push_back({.key = Key(0, 501), .load_samples = 30});
  records.push_back({.key = Key(0, 502), .accesses = AccessCounts{.loads = 7, .llc_misses = 7}});
  Ranker ranker({.model = RankModel::kRate});
  ranker.Absorb(Sampled(0, records));
  const Estimates estimates = ranker.Estimate(RankSource::kMemory);
  EXPECT_GT(estimates.score[128], 0);
  EXPECT_GT(estimates.score[129], estimates.score[128]);
  EXPECT_EQ(estimates.score[130], 0) << "nobody knows";
  EXPECT_TRUE(std::isinf(estimates.relative_sd[130]));
  EXPECT_NEAR(estimates.score[0], ScoreOf(Sampled(0, FastAndSlow(0, 0, 2)), RankSource::kMemory)[0],
              0.05)
      << "they do not tell what a rate is worth";
}

TEST(RankByMemory, ATargetThatRestsHasNoScoreAndOthersKeepTheirs) {
  std::vector<PageRecord> records = FastAndSlow(0, 0, 2);
  for (const PageRecord& record : FastAndSlow(1, 2, 0)) records.push_back(record);
  EpochProfile epoch = Sampled(0, records);
  epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::seconds(0)},
                   {.id = TargetId(1), .cpu_time = std::chrono::seconds(1)}};
  Ranker ranker({.model = RankModel::kRate});
  ranker.Absorb(epoch);
  const Estimates estimates = ranker.Estimate(RankSource::kMemory);
  const Scores& memory = estimates.score;
  EXPECT_TRUE(std::isinf(estimates.relative_sd[0]));
  EXPECT_EQ(memory[0], 0);
  EXPECT_EQ(memory[127], 0);
  EXPECT_GT(memory[128], 5 * memory[255]);
}

TEST(RankByMemory, TargetsWithFewSamplesShareOneWorth) {
  std::vector<PageRecord> records = FastAndSlow(0, 0, 2);
  for (const PageRecord& record : FastAndSlow(1, 0, 0)) records.push_back(record);
  records.back().load_samples = 1;
  const Scores memory = ScoreOf(Sampled(0, records), RankSource::kMemory);
  EXPECT_GT(memory[255], 5 * memory[128]);
}

// Sums of scores over the pages of FastAndSlow(), by target and half.
std::map<std::pair<std::uint32_t, bool>, double> SumsOfHalves(const EvidenceTable& table,
                                                              const Scores& scores) {
  std::map<std::pair<std::uint32_t, bool>, double> sums;
  for (std::size_t row = 0; row < table.size(); ++row)
    sums[{table.key[row].target.value(), table.key[row].vpn < Vpn(64)}] += scores[row];
  return sums;
}

// Two processes map the same pages. Both look alike, but the sampler saw the second one alone.
EpochProfile SharedFastAndSlow() {
  std::vector<PageRecord> records = FastAndSlow(0, 0, 0);
  for (const PageRecord& record : FastAndSlow(1, 0, 4)) records.push_back(record);
  EpochProfile epoch = Sampled(0, records);
  for (const std::uint32_t id : {0u, 1u}) {
    epoch.targets.push_back(Maps(id, {Shared(0, 128)}));
    epoch.targets.back().cpu_time = std::chrono::seconds(1);
  }
  return epoch;
}

TEST(RankByMemory, APageOfSeveralProcessesIsWeighedByTheSamplesOfAll) {
  Ranker ranker({.model = RankModel::kRate});
  ranker.Absorb(SharedFastAndSlow());
  TotalRanker total(RankModel::kRate);
  total.Absorb(SharedFastAndSlow());
  for (const auto& [table, scores] : {std::pair(ranker.table(), ranker.Score(RankSource::kMemory)),
                                      std::pair(total.table(), total.Score(RankSource::kMemory))}) {
    const auto sums = SumsOfHalves(table, scores);
    for (const std::uint32_t id : {0u, 1u}) {
      EXPECT_GT(sums.at({id, false}), 5 * sums.at({id, true})) << id;
      EXPECT_NEAR(sums.at({id, false}), 64 * 4 / 2, 20) << "half of the samples each";
    }
  }
}

TEST(RankByMemory, AddsUpOverTheEpochsOfAWholeTrace) {
  TotalRanker total(RankModel::kRate);
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch)
    total.Absorb(Sampled(epoch, FastAndSlow(0, 0, 2)));
  const Scores memory = total.Score(RankSource::kMemory);
  EXPECT_NEAR(memory[127], 8, 1) << "samples";
  EXPECT_GT(memory[127], 5 * memory[0]);
  Scores by_step(memory.size());
  for (const StepEstimates& step : total.EstimateOverTime(RankSource::kMemory)) {
    for (std::size_t row = 0; row < by_step.size(); ++row) by_step[row] += step.score[row];
  }
  for (std::size_t row = 0; row < by_step.size(); ++row)
    EXPECT_NEAR(by_step[row], memory[row], 0.01 * memory[row]);
}

TEST(RankByMemory, ScoresAreAccessesWhereASamplerTellsWhatASampleStandsFor) {
  EpochProfile epoch = Sampled(0, FastAndSlow(0, 0, 2));
  const double samples = ScoreOf(epoch, RankSource::kMemory)[127];
  TotalRanker of_samples(RankModel::kRate);
  of_samples.Absorb(epoch);
  for (SourceStatus& source : epoch.sources) {
    if (source.role == SourceRole::kSamples) source.accesses_per_sample = 16384;
  }
  Ranker ranker({.model = RankModel::kRate});
  TotalRanker total(RankModel::kRate);
  ranker.Absorb(epoch);
  total.Absorb(epoch);
  EXPECT_NEAR(ranker.Score(RankSource::kMemory)[127], 16384 * samples, 1e-6 * 16384 * samples);
  const double of_trace = of_samples.Score(RankSource::kMemory)[127];
  EXPECT_NEAR(total.Score(RankSource::kMemory)[127], 16384 * of_trace, 1e-6 * 16384 * of_trace);
  // The next epoch has no sampler: what was learned goes on in the same unit.
  EpochProfile gated = Sampled(1, FastAndSlow(0, 0, 0));
  for (SourceStatus& source : gated.sources) source.accesses_per_sample.reset();
  Ranker remembers(Ranker::DefaultOptions(RankModel::kRate));
  remembers.Absorb(epoch);
  remembers.Absorb(gated);
  EXPECT_GT(remembers.Score(RankSource::kMemory)[127], 1000);
}

TEST(RankByMemory, PagesOfATargetThatRestsAreNotChosen) {
  std::vector<PageRecord> records = FastAndSlow(0, 0, 2);
  for (const PageRecord& record : FastAndSlow(1, 0, 2)) records.push_back(record);
  EpochProfile epoch = Sampled(0, records);
  epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::seconds(1)},
                   {.id = TargetId(1), .cpu_time = std::chrono::seconds(1)}};
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kMemory,
                       std::vector<PageCount>{PageCount(256)});
  teller.Absorb(epoch);
  EXPECT_NEAR(teller.Tell()[0].attainable->value, 1, 0.01);
  EpochProfile rests = Sampled(1, FastAndSlow(0, 0, 2));
  rests.targets = epoch.targets;
  rests.targets[1].cpu_time = std::chrono::seconds(0);
  teller.Absorb(rests);
  EXPECT_LT(teller.Tell()[0].attainable->value, 0.8);
  EXPECT_NEAR(teller.Tell()[0].oracle->value, 1, 0.01);
}

TEST(RankByMemory, HitRatesAreNotToldByFewSamples) {
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kMemory,
                       std::vector<PageCount>{PageCount(64)});
  std::vector<PageRecord> records = FastAndSlow(0, 0, 0);
  records[127].load_samples = 10;
  teller.Absorb(Sampled(0, records));
  EXPECT_FALSE(teller.Tell()[0].oracle);
  EXPECT_FALSE(teller.Tell()[0].history) << "nothing was chosen before";
  records[0].load_samples = 10;
  teller.Absorb(Sampled(1, records));
  const HitRates rates = teller.Tell()[0];
  ASSERT_TRUE(rates.history);
  EXPECT_EQ(rates.history->value, 0.5) << "the fast pages were chosen";
  EXPECT_FALSE(rates.history->is_told()) << "20 samples";
  EXPECT_FALSE(rates.oracle);
}

TEST(RankByMemory, HistoryIsJudgedByTheSamplesOfALaterEpochAlone) {
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kMemory,
                       std::vector<PageCount>{PageCount(64), PageCount(128)});
  teller.Absorb(Sampled(0, FastAndSlow(0, 0, 8)));  // the slow pages are chosen
  std::vector<PageRecord> records = FastAndSlow(0, 1, 3);
  records.push_back({.key = Key(0, 500), .load_samples = 64});  // unknown before
  teller.Absorb(Sampled(1, records));
  const std::vector<HitRates> rates = teller.Tell();
  EXPECT_NEAR(rates[0].history->value, 3.0 / 5, 1e-9);
  EXPECT_NEAR(rates[1].history->value, 4.0 / 5, 1e-9);
  EXPECT_LT(rates[0].history->low, 3.0 / 5);
  EXPECT_GT(rates[0].history->high, 3.0 / 5);
}

TEST(RankByMemory, TellsHowSureItIs) {
  Ranker ranker({.model = RankModel::kRate});
  ranker.Absorb(Sampled(0, FastAndSlow(0, 8, 2)));
  const Estimates estimates = ranker.Estimate(RankSource::kMemory);
  for (std::size_t row = 0; row < estimates.score.size(); ++row) {
    EXPECT_GT(estimates.relative_sd[row], 0);
    EXPECT_LT(estimates.relative_sd[row], 1);
  }
}

}  // namespace memory_worth_test
}  // namespace tmprof
