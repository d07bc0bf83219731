// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/rank/simulation.h"

namespace tmprof {
namespace rate_model_test {

using simulation::Accuracy;
using simulation::Rates;
using simulation::Scenario;

constexpr std::size_t kPages = 131072;  // 512 MiB
constexpr double kAccessRate = 27e6;    // facts: the hotset's rate in the ladder's measurements
constexpr std::uint32_t kSeed = 11;

const Rates& HotRates() {
  static const Rates rates = simulation::Hotset(kPages, kAccessRate);
  return rates;
}
const Rates& ZipfRates() {
  static const Rates rates = simulation::Zipf(kPages, kAccessRate);
  return rates;
}

struct Case {
  std::string name;
  const Rates& (*rates)();
  Scenario scenario;
};

struct CaseAccuracy {
  Accuracy references, samples, sum, gamma, combined;
};

CaseAccuracy RunCase(const Case& c) {
  const Rates& rates = c.rates();
  const simulation::Observation seen = simulation::Observe(rates, c.scenario, kSeed);
  const auto judge = [&](const std::vector<double>& score) {
    return simulation::Judge(rates, seen, score);
  };
  const CaseAccuracy a{judge(simulation::ReferencesOnly(seen)),
                       judge(simulation::SamplesOnly(seen)), judge(simulation::Sum(seen)),
                       judge(simulation::GammaPoisson(seen)), judge(simulation::Combined(seen))};
  // The table of docs/design/estimator.md.
  std::printf("| %s", c.name.c_str());
  for (const Accuracy& one : {a.references, a.samples, a.sum, a.gamma, a.combined}) {
    std::printf(" | %.2f / %.2f", one.recall_sixteenth, one.coverage_eighth);
  }
  std::printf(" |\n");
  return a;
}

constexpr double kNoise = 0.02;  // noise of these figures from seed to seed

Scenario Sampled(double visited, int visits, double samples_per_second) {
  return {.visited = visited, .visits = visits, .samples_per_second = samples_per_second};
}

TEST(RateModelMonteCarlo, MergingHonestSourcesIsNeverWorseThanTheBestOfThem) {
  for (const Case& c : {Case{"hotset, 1 visit, 500/s", HotRates, Sampled(1, 1, 500)},
                        Case{"hotset, 1 visit, 1000/s", HotRates, Sampled(1, 1, 1000)},
                        Case{"hotset, 2 visits, 500/s", HotRates, Sampled(1, 2, 500)},
                        Case{"hotset, 30 % visited, 1000/s", HotRates, Sampled(.3, 1, 1000)},
                        Case{"zipf, 1 visit, 1000/s", ZipfRates, Sampled(1, 1, 1000)},
                        Case{"zipf, 2 visits, 1000/s", ZipfRates, Sampled(1, 2, 1000)},
                        Case{"zipf, 30 % visited, 1000/s", ZipfRates, Sampled(.3, 1, 1000)}}) {
    SCOPED_TRACE(c.name);
    const CaseAccuracy a = RunCase(c);
    for (const Accuracy& other : {a.references, a.samples, a.sum, a.gamma}) {
      EXPECT_GE(a.combined.recall_sixteenth, other.recall_sixteenth - kNoise);
      EXPECT_GE(a.combined.coverage_eighth, other.coverage_eighth - kNoise);
    }
  }
}

TEST(RateModelMonteCarlo, TwoVisitsAndSamplesFindNineTenthsOfTheHotset) {
  EXPECT_GE(RunCase({"hotset, 2 visits, 1000/s", HotRates, Sampled(1, 2, 1000)})
                .combined.recall_sixteenth,
            0.9);
}

// facts, the ladder's table: .81 after one clear, coverage of zipf's top 1/8 .90 of ideal.
TEST(RateModelMonteCarlo, BitsAloneDoAsWellAsTheMeasuredLadder) {
  const CaseAccuracy hot = RunCase({"hotset, 1 visit, no sampler", HotRates, Sampled(1, 1, 0)});
  EXPECT_NEAR(hot.combined.recall_sixteenth, 0.81, 0.05);
  EXPECT_NEAR(hot.combined.recall_sixteenth, hot.references.recall_sixteenth, kNoise);
  EXPECT_NEAR(
      RunCase({"zipf, 1 visit, no sampler", ZipfRates, Sampled(1, 1, 0)}).combined.coverage_eighth,
      0.90, 0.03);
}

// facts, clock sampling: zipf over 65 536 pages, top 1/8: 34 % of the pages from 9 700 samples.
TEST(RateModelMonteCarlo, SamplesAloneAreRankedByTheirNumber) {
  for (const auto rates : {HotRates, ZipfRates}) {
    const CaseAccuracy a =
        RunCase({rates == HotRates ? "hotset, samples only" : "zipf, samples only", rates,
                 Sampled(0, 1, 1000)});
    EXPECT_DOUBLE_EQ(a.combined.recall_sixteenth, a.sum.recall_sixteenth);
    EXPECT_DOUBLE_EQ(a.combined.coverage_eighth, a.sum.coverage_eighth);
  }
}

TEST(RateModelMonteCarlo, SamplesThatMisleadLoseTheirSay) {
  const auto uniform = [](const Rates& rates) {
    return [&rates](std::size_t page) { return 1 / rates[page]; };
  };
  // facts: a cache-resident region with 90 % of the accesses gets 7 % of the samples.
  const auto cached = [](std::size_t page) {
    return HotRates()[page] > 1000 ? 0.07 / 0.93 / 9 : 1.0;
  };
  Scenario blind = Sampled(1, 1, 1000);
  blind.bias = uniform(HotRates());
  Scenario blind_zipf = Sampled(1, 1, 1000);
  blind_zipf.bias = uniform(ZipfRates());
  Scenario hot_in_cache = Sampled(1, 1, 1000);
  hot_in_cache.bias = cached;
  for (const Case& c : {Case{"hotset, 1 visit, samples blind to rates", HotRates, blind},
                        Case{"zipf, 1 visit, samples blind to rates", ZipfRates, blind_zipf},
                        Case{"hotset, 1 visit, hot pages cached", HotRates, hot_in_cache}}) {
    SCOPED_TRACE(c.name);
    const CaseAccuracy a = RunCase(c);
    EXPECT_GE(a.combined.recall_sixteenth, a.references.recall_sixteenth - kNoise);
    EXPECT_GE(a.combined.coverage_eighth, a.references.coverage_eighth - kNoise);
  }
}

TEST(RateModelMonteCarlo, OneBitPerSecondLeavesTheRankingToTheSamples) {
  Scenario plain = Sampled(1, 8, 1000);
  plain.reads_s = {1.0};
  plain.stop_at_half = false;
  for (const auto rates : {HotRates, ZipfRates}) {
    const CaseAccuracy a = RunCase(
        {rates == HotRates ? "hotset, one bit a second" : "zipf, one bit a second", rates, plain});
    EXPECT_GE(a.combined.recall_sixteenth, a.samples.recall_sixteenth - kNoise);
    EXPECT_GE(a.combined.coverage_eighth, a.samples.coverage_eighth - kNoise);
  }
}

RateEstimates EstimateMany(const std::vector<RateEvidence>& evidence) {
  return EstimateRates(evidence);
}

TEST(RateModel, NoEvidenceGivesNoEstimates) {
  EXPECT_TRUE(EstimateMany({}).accesses_per_second.empty());
}

// 1000 pages with 100 first accesses in 2 seconds each: the rate is 50/s and known to 10 %.
TEST(RateModel, WellWatchedPagesGetTheRateThatWasSeen) {
  const RateEstimates estimates = EstimateMany(
      std::vector<RateEvidence>(1000, {.pages = 1, .first_accesses = 100, .seconds_at_risk = 2}));
  EXPECT_NEAR(estimates.accesses_per_second[0], 50, 10);
  EXPECT_LE(estimates.relative_sd[0], 0.25);
}

// A span of 512 pages is accessed 100 times in 2 s: its pages have 50 / 512 a second each. One
// session ended at 64 us, with one find of two tries. Another ended at 16 us, after two finds at 64
// us. The likeliest rate is 24 800/s by these six tries, and 17 350/s by the last four alone.
RateEvidence TwoSessions() {
  return {.first_read_finds = 2,
          .first_read_seconds = 250e-6,
          .fast_looks = 4,
          .fast_found = 2,
          .fast_seconds = 160e-6,
          .fast_earlier = 2,
          .fast_earlier_seconds = 128e-6};
}

TEST(RateModel, TriesThatLedToShorterOnesCount) {
  const std::vector<RateEvidence> pages(1000, TwoSessions());
  EXPECT_NEAR(EstimateRates(pages).accesses_per_second[0], 24'800, 3'000);
  RateEvidence without = TwoSessions();
  without.fast_earlier = without.fast_earlier_seconds = 0;
  const std::vector<RateEvidence> last_alone(1000, without);
  EXPECT_NEAR(EstimateRates(last_alone).accesses_per_second[0], 17'350, 2'200);
}

TEST(RateModel, ClocksThatRunTwiceAsFastHalveTheRatesOfTries) {
  RateEvidence scaled = TwoSessions();
  scaled.ScaleTimes(2);
  const std::vector<RateEvidence> pages(1000, scaled);
  EXPECT_NEAR(EstimateRates(pages).accesses_per_second[0], 12'400, 1'500);
}

// Pages of 20 000 accesses a second, half of which are tried at 64 us alone, and the others at 16
// us, too. They are in the cache: they get an eighth of the samples that their accesses are worth.
TEST(RateModel, PagesThatWereTriedAreNotTakenForSlowBecauseTheyAreInTheCache) {
  std::vector<RateEvidence> pages(
      900, {.first_accesses = 10, .seconds_at_risk = 0.05, .samples = 2, .seconds_watched = 10});
  for (int page = 0; page < 100; ++page) {
    RateEvidence hot{.first_read_finds = 9,
                     .first_read_seconds = 9 * 200e-6,
                     .fast_looks = 2,
                     .samples = 25,
                     .seconds_watched = 10};
    if (page < 49) {
      hot.fast_earlier = 2;
      hot.fast_earlier_seconds = 2 * 60e-6;
      hot.fast_found = page < 26;
      hot.fast_seconds = 2 * 15e-6;
    } else {
      hot.fast_found = page < 91;
      hot.fast_seconds = 2 * 60e-6;
    }
    pages.push_back(hot);
  }
  const RateEstimates estimates = EstimateRates(pages);
  double sum = 0;
  for (std::size_t page = 900; page < 1000; ++page) sum += estimates.accesses_per_second[page];
  EXPECT_NEAR(sum / 100, 20'000, 5'000);
  EXPECT_LT(estimates.response.exponent, 0.8);
}

TEST(RateModel, ASpansRateIsSharedByItsPages) {
  const RateEstimates estimates = EstimateMany(
      std::vector<RateEvidence>(1000, {.pages = 512, .first_accesses = 100, .seconds_at_risk = 2}));
  EXPECT_NEAR(estimates.accesses_per_second[0], 50.0 / 512, 10.0 / 512);
}

TEST(RateModel, EarlierFirstAccessesAndMoreSamplesAreHotter) {
  std::vector<RateEvidence> evidence;
  for (int i = 0; i < 300; ++i) {
    const double fast = i % 3 == 0 ? 0.01 : 1;
    evidence.push_back({.first_accesses = 5,
                        .seconds_at_risk = 5 * fast,
                        .samples = std::round(2 / fast) / 10,
                        .seconds_watched = 10});
  }
  evidence.push_back(
      {.first_accesses = 5, .seconds_at_risk = .5, .samples = 1, .seconds_watched = 10});
  evidence.push_back(
      {.first_accesses = 5, .seconds_at_risk = .5, .samples = 9, .seconds_watched = 10});
  evidence.push_back(
      {.first_accesses = 5, .seconds_at_risk = .1, .samples = 9, .seconds_watched = 10});
  const std::vector<double> rate = EstimateMany(evidence).accesses_per_second;
  EXPECT_LT(rate[300], rate[301]);
  EXPECT_LT(rate[301], rate[302]);
}

TEST(RateModel, MoreVisitsMakeAnEstimateMoreCertain) {
  std::vector<RateEvidence> evidence;
  for (int i = 0; i < 500; ++i) {
    evidence.push_back({.first_accesses = 1, .seconds_at_risk = std::exp2(i % 10 - 5)});
  }
  evidence.push_back({.first_accesses = 20, .seconds_at_risk = 20});
  const RateEstimates estimates = EstimateMany(evidence);
  EXPECT_LT(estimates.relative_sd[500], estimates.relative_sd[5]);
}

// Taken for proportion of 1, the samples that did not come would outweigh all bits.
// A daemon that swaps pages asks for a quarter more (mover/move_planner.h).
TEST(RateModel, EqualPagesHardlySeemToDiffer) {
  constexpr std::size_t kEqualPages = 4096;
  std::mt19937_64 random(kSeed);
  for (const int visits : {1, 4, 16, 64}) {
    for (const double rate : {600.0, 680.0, 760.0}) {  // between the points of any grid
      SCOPED_TRACE(fmt::format("{} visits, {} accesses a second", visits, rate));
      std::exponential_distribution<double> first_access(rate);
      std::vector<RateEvidence> evidence(kEqualPages);
      for (RateEvidence& page : evidence) {
        page.first_accesses = visits;
        for (int visit = 0; visit < visits; ++visit) page.seconds_at_risk += first_access(random);
      }
      std::vector<double> estimates = EstimateRates(evidence).accesses_per_second;
      std::ranges::sort(estimates);
      EXPECT_LT(estimates[kEqualPages * 95 / 100], 1.25 * estimates[kEqualPages * 5 / 100]);
    }
  }
}

TEST(RateModel, ASamplerThatNeverSampledSaysNothing) {
  std::vector<RateEvidence> unwatched;
  for (int page = 0; page < 64; ++page)
    unwatched.push_back({.first_accesses = 3, .seconds_at_risk = page < 4 ? 0.005 : 0.15});
  std::vector<RateEvidence> watched = unwatched;
  for (RateEvidence& page : watched) page.seconds_watched = 10;
  const RateEstimates without = EstimateRates(unwatched);
  const RateEstimates with = EstimateRates(watched);
  ASSERT_GT(without.accesses_per_second.front(), 10 * without.accesses_per_second.back());
  for (std::size_t i = 0; i < watched.size(); ++i)
    EXPECT_DOUBLE_EQ(with.accesses_per_second[i], without.accesses_per_second[i]);
}

TEST(RateModel, ExtremeEvidenceStaysFiniteAndPositive) {
  std::vector<RateEvidence> evidence = {
      {.first_accesses = 1e9, .seconds_at_risk = 1e-9},
      {.first_accesses = 0, .seconds_at_risk = 1e12},
      {.first_accesses = 1, .seconds_at_risk = 1, .samples = 4e9, .seconds_watched = 1e-9},
      {.pages = 4294967295.0, .first_accesses = 1, .seconds_at_risk = 1e10},
      {.samples = 5, .seconds_watched = 0},
      {.samples = 1e-6, .seconds_watched = 1}};
  const RateEstimates estimates = EstimateMany(evidence);
  for (std::size_t i = 0; i < evidence.size(); ++i) {
    EXPECT_TRUE(std::isfinite(estimates.accesses_per_second[i])) << i;
    EXPECT_GT(estimates.accesses_per_second[i], 0) << i;
    EXPECT_TRUE(std::isfinite(estimates.relative_sd[i])) << i;
  }
}

// One page of a region is watched at a time, so that its time at risk is a share of that. Each
// region has a size of its own, which says nothing about how fast the ladder's first read is.
TEST(RateModel, RegionsOfManySizesShareTheLadderOfTheirPages) {
  std::vector<RateEvidence> evidence;
  for (int i = 0; i < 100; ++i) {
    const double cold_pages = 1'000 + i;
    const double hot_pages = 5'000 + i;
    evidence.push_back(
        {.pages = cold_pages, .first_accesses = 4, .seconds_at_risk = 20 / cold_pages});
    evidence.push_back(
        {.pages = hot_pages, .first_accesses = 400, .seconds_at_risk = 0.5 / hot_pages});
  }
  const RateEstimates estimates = EstimateRates(evidence);
  for (std::size_t i = 0; i < evidence.size(); i += 2) {
    EXPECT_NEAR(estimates.accesses_per_second[i], 0.2, 0.1);
    EXPECT_NEAR(estimates.accesses_per_second[i + 1], 800, 200);
    EXPECT_LT(estimates.relative_sd[i], 1);
  }
}

}  // namespace rate_model_test
}  // namespace tmprof
