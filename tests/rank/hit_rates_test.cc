// SPDX-License-Identifier: Apache-2.0
// Hit rates of programs whose access rates are known, from what a scanner sees of them.

#include "rank/hit_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

#include "rank/hit_rate_teller.h"
#include "rank/rank_model.h"
#include "tests/rank/profiles.h"
#include "tests/rank/simulation.h"

namespace tmprof {
namespace hit_rates_test {

using simulation::Rates;
using simulation::Scenario;

constexpr std::size_t kPages = 32768;
constexpr double kAccessRate = 10e6;

// Each visit in an epoch of its own, in which the target uses next to no CPU time.
Ranker Recorded(const Rates& rates, Scenario scenario, int visits, std::uint32_t seed) {
  std::vector<std::size_t> blocks(kPages / 512);
  std::iota(blocks.begin(), blocks.end(), std::size_t{0});
  blocks.resize(static_cast<std::size_t>(scenario.visited * static_cast<double>(blocks.size())));
  scenario.blocks = blocks;  // pages are shuffled: the first blocks are as good as any
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  for (int visit = 0; visit < visits; ++visit) {
    EpochProfile epoch = simulation::ToEpoch(
        simulation::Observe(rates, scenario, seed * 100 + static_cast<unsigned>(visit)), visit);
    epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::milliseconds(100)}};
    ranker.Absorb(epoch);
  }
  return ranker;
}

Scenario Ladder(double visited) {
  return {.visited = visited, .reads_s = {.25e-3, 1e-3, 4e-3, 16e-3, 64e-3}};
}
Scenario LadderWithFastTries(double visited) {
  Scenario scenario = Ladder(visited);
  scenario.fast_s = {64e-6, 16e-6, 4e-6};
  return scenario;
}

double ShareOfTheFirst(const std::vector<double>& rates, std::size_t pages) {
  const auto end = rates.begin() + static_cast<std::ptrdiff_t>(pages);
  return std::accumulate(rates.begin(), end, 0.0) /
         std::accumulate(rates.begin(), rates.end(), 0.0);
}

double ShareOfTheBest(std::vector<double> rates, std::size_t pages) {
  std::ranges::sort(rates, std::greater());
  return ShareOfTheFirst(rates, pages);
}

// The rates of all pages seen, those that are ranked best first.
std::vector<double> RatesByRank(const Ranker& ranker, const Rates& rates) {
  const Scores scores = ranker.Score(RankSource::kReferences);
  std::vector<std::size_t> rows(scores.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::ranges::stable_sort(rows, std::greater(), [&](std::size_t row) { return scores[row]; });
  std::vector<double> ranked;
  std::ranges::transform(rows, std::back_inserter(ranked), [&](std::size_t row) {
    return rates[ranker.table().key[row].vpn.value()];
  });
  return ranked;
}

HitRates AtAnEighth(const Ranker& ranker) {
  const std::vector<PageCount> capacities{PageCount(ranker.table().size() / 8)};
  return ranker.HitRatesAt(RankSource::kReferences, capacities)[0];
}

TEST(HitRatesMonteCarlo, AreNearTheTruthWithFastTriesFromOneVisitOn) {
  int all = 0;
  int held = 0;
  for (const auto& [name, rates] : {std::pair("zipf", simulation::Zipf(kPages, kAccessRate)),
                                    {"hotset", simulation::Hotset(kPages, kAccessRate)},
                                    {"half idle", simulation::HalfIdle(kPages, kAccessRate)}}) {
    for (const auto& [visited, visits] : {std::pair(0.3, 1), {1.0, 1}, {1.0, 2}, {1.0, 8}}) {
      constexpr int kRuns = 2;
      double oracle_off = 0;
      double attainable_off = 0;
      for (std::uint32_t seed = 0; seed < kRuns; ++seed) {
        const Ranker ranker = Recorded(rates, LadderWithFastTries(visited), visits, seed);
        const std::vector<double> ranked = RatesByRank(ranker, rates);
        const double best = ShareOfTheBest(ranked, ranked.size() / 8);
        const double attained = ShareOfTheFirst(ranked, ranked.size() / 8);
        const HitRates hit = AtAnEighth(ranker);
        ASSERT_TRUE(hit.oracle && hit.attainable);
        // The table of docs/accuracy.md.
        std::printf("| %s | %.0f %% | %d | %.3f | %.3f [%.3f, %.3f] | %.3f | %.3f [%.3f, %.3f] |\n",
                    name, 100 * visited, visits, best, hit.oracle->value, hit.oracle->low,
                    hit.oracle->high, attained, hit.attainable->value, hit.attainable->low,
                    hit.attainable->high);
        oracle_off += (hit.oracle->value - best) / kRuns;
        attainable_off += (hit.attainable->value - attained) / kRuns;
        all += 2;
        held += hit.oracle->low <= best && best <= hit.oracle->high;
        held += hit.attainable->low <= attained && attained <= hit.attainable->high;
      }
      EXPECT_NEAR(oracle_off, 0, 0.05) << name << ", " << visited << ", " << visits;
      EXPECT_NEAR(attainable_off, 0, 0.05) << name << ", " << visited << ", " << visits;
    }
  }
  EXPECT_GE(held, 0.85 * all) << "of " << all;
}

TEST(HitRatesMonteCarlo, AreNotToldWhereRatesAboveTheFirstReadsLimitDecide) {
  const Rates rates = simulation::Zipf(kPages, kAccessRate);
  for (const int visits : {1, 8}) {
    const HitRates hit = AtAnEighth(Recorded(rates, Ladder(1), visits, 0));
    EXPECT_FALSE(hit.oracle->is_told()) << visits;
    EXPECT_LE(hit.oracle->low, 0.8);
    EXPECT_GE(hit.oracle->high, 0.8);
  }
}

TEST(HitRatesMonteCarlo, JudgeHistoryByEvidenceThatDidNotRankIt) {
  constexpr int kEpochs = 10;
  const std::vector<PageCount> capacities{PageCount(kPages / 8), PageCount(kPages / 32)};
  for (const auto& [name, rates] : {std::pair("zipf", simulation::Zipf(kPages, kAccessRate)),
                                    {"hotset", simulation::Hotset(kPages, kAccessRate)}}) {
    HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                         capacities);
    Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
    simulation::Rotation rotation(kPages);
    std::vector<double> really(capacities.size());
    for (int e = 0; e < kEpochs; ++e) {
      const std::vector<double> ranked = RatesByRank(ranker, rates);
      for (std::size_t i = 0; e > 0 && i < capacities.size(); ++i) {
        const auto pages = static_cast<std::ptrdiff_t>(capacities[i].value());
        really[i] += std::accumulate(ranked.begin(), ranked.begin() + pages, 0.0) / kAccessRate /
                     (kEpochs - 1);
      }
      Scenario scenario = LadderWithFastTries(1);
      scenario.blocks = rotation.Next(kPages / 512 / 2);
      EpochProfile epoch = simulation::ToEpoch(
          simulation::Observe(rates, scenario, 70 + static_cast<unsigned>(e)), e);
      epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::milliseconds(100)}};
      teller.Absorb(epoch);
      ranker.Absorb(epoch);
    }
    const std::vector<HitRates> told = teller.Tell();
    for (std::size_t i = 0; i < capacities.size(); ++i) {
      ASSERT_TRUE(told[i].history.has_value());
      EXPECT_NEAR(told[i].history->value, really[i], 0.07) << name << ", " << i;
      EXPECT_LE(told[i].history->low, really[i]) << name << ", " << i;
      EXPECT_GE(told[i].history->high, really[i]) << name << ", " << i;
      std::printf("| %s | %.3f | %.3f [%.3f, %.3f] |\n", name, really[i], told[i].history->value,
                  told[i].history->low, told[i].history->high);
    }
  }
}

TEST(HitRates, OfHistoryAreUnknownBeforeASecondEpoch) {
  const std::vector<PageCount> capacities{PageCount(1)};
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                       capacities);
  teller.Absorb(Epoch(0, {Visited(7, 1, std::chrono::milliseconds(1))}));
  EXPECT_FALSE(teller.Tell()[0].history.has_value());
}

TEST(HitRates, OfOnePageSeenOnceAreNotTold) {
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  ranker.Absorb(Epoch(0, {Visited(7, 1, std::chrono::milliseconds(1))}));
  const std::vector<PageCount> capacities{PageCount(1)};
  const HitRates hit = ranker.HitRatesAt(RankSource::kReferences, capacities)[0];
  EXPECT_FALSE(hit.oracle->is_told());
  EXPECT_FALSE(hit.attainable->is_told());
}

TEST(HitRates, AreUnknownWhereNoAccessedBitWasRead) {
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  PageRecord sampled = Counts(7, 0, 1);
  sampled.looks = 0;
  ranker.Absorb(Epoch(0, {sampled}));
  const std::vector<PageCount> capacities{PageCount(1)};
  const HitRates hit = ranker.HitRatesAt(RankSource::kCombined, capacities)[0];
  EXPECT_EQ(hit.pages, PageCount(1));
  EXPECT_FALSE(hit.oracle.has_value());
  EXPECT_FALSE(hit.attainable.has_value());
}

TEST(HitRates, SpeakForThePagesThatWereNeverFoundAccessed) {
  std::vector<PageRecord> records;
  for (std::uint64_t vpn = 0; vpn < 4096; ++vpn) {
    records.push_back(vpn % 2 == 0
                          ? Visited(vpn, 1, std::chrono::milliseconds(vpn % 4 == 0 ? 1 : 2))
                          : Visited(vpn, 0, std::chrono::seconds(1)));
  }
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  ranker.Absorb(Epoch(0, records));
  const std::vector<PageCount> capacities{PageCount(2048), PageCount(4096)};
  const std::vector<HitRates> hit = ranker.HitRatesAt(RankSource::kReferences, capacities);
  EXPECT_EQ(hit[0].pages, PageCount(4096));
  EXPECT_GT(hit[0].oracle->value, 0.99);
  EXPECT_GT(hit[0].attainable->value, 0.99);
  EXPECT_DOUBLE_EQ(hit[1].oracle->value, 1);
}

}  // namespace hit_rates_test
}  // namespace tmprof
