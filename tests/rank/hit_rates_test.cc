// SPDX-License-Identifier: Apache-2.0
// Hit rates of programs whose access rates are known, from what a scanner sees of them.

#include "rank/hit_rates.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "rank/hit_rate_curve.h"
#include "rank/hit_rate_teller.h"
#include "rank/rank_model.h"
#include "rank/rate_fit.h"
#include "rank/rated_rows.h"
#include "tests/rank/profiles.h"
#include "tests/rank/shared_memory.h"
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
  const Ranker::PageScores pages = ranker.ScoreByPage(RankSource::kReferences);
  const Scores& scores = pages.score;
  std::vector<std::size_t> rows(scores.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  std::ranges::stable_sort(rows, std::greater(), [&](std::size_t row) { return scores[row]; });
  std::vector<double> ranked;
  std::ranges::transform(rows, std::back_inserter(ranked),
                         [&](std::size_t row) { return rates[pages.key[row].vpn.value()]; });
  return ranked;
}

HitRates AtAnEighth(const Ranker& ranker) {
  const std::vector<PageCount> capacities{
      PageCount(ranker.ScoreByPage(RankSource::kReferences).key.size() / 8)};
  return ranker.HitRatesAt(RankSource::kReferences, capacities, /*unknown=*/{})[0];
}

// A ranking has these hit rates at an eighth of the pages: estimated, and in truth.
struct Told {
  Told(const Ranker& ranker, const Rates& rates)
      : ranked(RatesByRank(ranker, rates)),
        best(ShareOfTheBest(ranked, ranked.size() / 8)),
        attained(ShareOfTheFirst(ranked, ranked.size() / 8)),
        hit(AtAnEighth(ranker)) {}

  // A row of a table of docs/design/hit-rates.md.
  std::string Row() const {
    return fmt::format("{:.3f} | {:.3f} [{:.3f}, {:.3f}] | {:.3f} | {:.3f} [{:.3f}, {:.3f}] |",
                       best, hit.oracle->value, hit.oracle->low, hit.oracle->high, attained,
                       hit.attainable->value, hit.attainable->low, hit.attainable->high);
  }
  // Returns how many of the two intervals hold the truth.
  int Held() const {
    return (hit.oracle->low <= best && best <= hit.oracle->high) +
           (hit.attainable->low <= attained && attained <= hit.attainable->high);
  }

  std::vector<double> ranked;
  double best;
  double attained;
  HitRates hit;
};

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
        const Told told(ranker, rates);
        ASSERT_TRUE(told.hit.oracle && told.hit.attainable);
        std::cout << fmt::format("| {} | {:.0f} % | {} | {}\n", name, 100 * visited, visits,
                                 told.Row());
        oracle_off += (told.hit.oracle->value - told.best) / kRuns;
        attainable_off += (told.hit.attainable->value - told.attained) / kRuns;
        all += 2;
        held += told.Held();
      }
      EXPECT_NEAR(oracle_off, 0, 0.05) << name << ", " << visited << ", " << visits;
      EXPECT_NEAR(attainable_off, 0, 0.05) << name << ", " << visited << ", " << visits;
    }
  }
  EXPECT_GE(held, 0.85 * all) << "of " << all;
}

// Three processes map all of the pages, each at an address of its own.
TEST(HitRatesMonteCarlo, AreNearTheTruthOfSharedMemory) {
  int all = 0;
  int held = 0;
  for (const auto& [name, rates] : {std::pair("zipf", simulation::Zipf(kPages, kAccessRate)),
                                    {"hotset", simulation::Hotset(kPages, kAccessRate)},
                                    {"half idle", simulation::HalfIdle(kPages, kAccessRate)}}) {
    for (std::uint32_t seed = 0; seed < 2; ++seed) {
      Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
      for (int visit = 0; visit < 2; ++visit) {
        EpochProfile epoch = Epoch(static_cast<std::uint64_t>(visit), {});
        for (std::uint32_t id = 0; id < 3; ++id) {
          const double activity = std::exp2(static_cast<double>(id) - 1);
          Rates of_process = rates;
          for (double& rate : of_process) rate *= activity;
          const std::uint64_t address = (id + 1) * 2 * kPages;
          Target target = Maps(id, {Shared(address, kPages)});
          target.cpu_time = std::chrono::milliseconds(100);
          epoch.targets.push_back(target);
          const EpochProfile alone = simulation::ToEpoch(
              simulation::Observe(of_process, LadderWithFastTries(1),
                                  seed * 100 + 10 * id + static_cast<unsigned>(visit)),
              visit);
          for (std::size_t i = 0; i < alone.pages.size(); ++i) {
            PageRecord record = RecordAt(alone.pages, i);
            record.key = Key(id, address + record.key.vpn.value());
            Append(epoch.pages, record);
          }
        }
        ranker.Absorb(epoch);
      }
      const Told told(ranker, rates);
      ASSERT_TRUE(told.hit.oracle && told.hit.attainable);
      EXPECT_EQ(told.hit.pages, PageCount(kPages)) << "each page counts once";
      std::cout << fmt::format("| shared {} | {}\n", name, told.Row());
      EXPECT_NEAR(told.hit.oracle->value, told.best, 0.05) << name;
      EXPECT_NEAR(told.hit.attainable->value, told.attained, 0.05) << name;
      all += 2;
      held += told.Held();
    }
  }
  EXPECT_GE(held, 0.85 * all) << "of " << all;
}

// Some blocks are hotter than others: one in six by a factor of e, one in six colder by as much.
Rates WithHotterBlocks(Rates rates, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> heat(0, 1);
  double factor = 1;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    if (i % 512 == 0) factor = std::exp(heat(random));
    rates[i] *= factor;
  }
  return rates;
}

// Half of the blocks are looked at, and an eighth of all pages is chosen, from these alone. Its
// share is .4 or .5 as chance has it: the hottest page of zipf alone has a tenth of the accesses.
TEST(HitRatesMonteCarlo, SpeakForPagesOfWhichNothingIsKnown) {
  constexpr std::uint32_t kSeeds = 8;
  int all = 0;
  int held_oracles = 0;
  int held_attainable = 0;
  for (const bool hotter_blocks : {false, true}) {
    for (const auto& [name, rates] : {std::pair("zipf", simulation::Zipf(kPages, kAccessRate)),
                                      {"hotset", simulation::Hotset(kPages, kAccessRate)},
                                      {"half idle", simulation::HalfIdle(kPages, kAccessRate)}}) {
      double off = 0;
      double width = 0;
      for (std::uint32_t seed = 1; seed <= kSeeds; ++seed) {
        const Rates placed = hotter_blocks ? WithHotterBlocks(rates, 1000 + seed) : rates;
        EpochProfile epoch =
            simulation::ToEpoch(simulation::Observe(placed, LadderWithFastTries(0.5), seed), 0);
        epoch.targets = {{.id = TargetId(0),
                          .cpu_time = std::chrono::milliseconds(100),
                          .resident_pages = PageCount(kPages)}};
        Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
        ranker.Absorb(epoch);
        const std::vector<PageCount> capacities{PageCount(kPages / 8)};
        const HitRates hit = ranker.HitRatesAt(RankSource::kReferences, capacities,
                                               ranker.PagesUnknown(RankSource::kReferences))[0];
        ASSERT_TRUE(hit.oracle && hit.attainable);
        EXPECT_EQ(hit.pages, PageCount(kPages));
        EXPECT_EQ(hit.unknown, PageCount(kPages / 2));
        const double whole = std::accumulate(placed.begin(), placed.end(), 0.0);
        const std::vector<double> ranked = RatesByRank(ranker, placed);
        const double attained =
            std::accumulate(ranked.begin(), ranked.begin() + kPages / 8, 0.0) / whole;
        const double best = ShareOfTheBest(placed, kPages / 8);
        ++all;
        held_oracles += hit.oracle->low <= best && best <= hit.oracle->high;
        held_attainable += hit.attainable->low <= attained && attained <= hit.attainable->high;
        off += (hit.attainable->value - attained) / kSeeds;
        width += (hit.attainable->high - hit.attainable->low) / kSeeds;
      }
      std::cout << fmt::format("{}{}: {:+.3f} off, {:.3f} wide\n", name,
                               hotter_blocks ? ", some blocks hotter" : "", off, width);
      EXPECT_NEAR(off, 0, 0.05) << name;
      // Pages of hotset are of two kinds, and each block has some of both.
      EXPECT_LE(width, name == std::string("hotset") ? 0.25 : 0.45) << name;
    }
  }
  EXPECT_GE(held_oracles, 0.85 * all) << "of " << all;
  EXPECT_GE(held_attainable, 0.85 * all) << "of " << all;
}

TEST(HitRatesMonteCarlo, HoldTheTruthIfFewOfThePagesAreTried) {
  int all = 0;
  int held = 0;
  for (const auto& [name, rates] : {std::pair("zipf", simulation::Zipf(kPages, kAccessRate)),
                                    {"hotset", simulation::Hotset(kPages, kAccessRate)},
                                    {"half idle", simulation::HalfIdle(kPages, kAccessRate)}}) {
    for (const int visits : {1, 2, 4, 8}) {
      for (std::uint32_t seed = 0; seed < 3; ++seed) {
        Scenario scenario = LadderWithFastTries(1);
        scenario.fast_part = 0.1;
        const Told told(Recorded(rates, scenario, visits, seed), rates);
        ASSERT_TRUE(told.hit.oracle && told.hit.attainable);
        std::cout << fmt::format("| {} | a tenth tried | {} | {}\n", name, visits, told.Row());
        all += 2;
        held += told.Held();
      }
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

// Half of the blocks are visited in each epoch. Parallel to the capacities: the true hit rate of
// history, and the estimated one.
struct JudgedHistories {
  std::vector<double> really;
  std::vector<HitRates> told;
};
using Change = std::function<void(EpochProfile&, unsigned seed)>;
constexpr std::size_t kHalf = kPages / 512 / 2;  // of the blocks
JudgedHistories JudgeHistories(
    const Rates& rates, const std::vector<PageCount>& capacities, unsigned seed,
    const Change& change = nullptr,
    const std::function<std::size_t(int epoch)>& blocks = [](int) { return kHalf; }) {
  constexpr int kEpochs = 10;
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                       capacities);
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  simulation::Rotation rotation(kPages);
  JudgedHistories histories{.really = std::vector<double>(capacities.size()), .told = {}};
  for (int e = 0; e < kEpochs; ++e) {
    const std::vector<double> ranked = RatesByRank(ranker, rates);
    for (std::size_t i = 0; e > 0 && i < capacities.size(); ++i) {
      const auto pages = static_cast<std::ptrdiff_t>(capacities[i].value());
      histories.really[i] += std::accumulate(ranked.begin(), ranked.begin() + pages, 0.0) /
                             kAccessRate / (kEpochs - 1);
    }
    Scenario scenario = LadderWithFastTries(1);
    scenario.blocks = rotation.Next(blocks(e));
    EpochProfile epoch = simulation::ToEpoch(
        simulation::Observe(rates, scenario, seed + static_cast<unsigned>(e)), e);
    epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::milliseconds(100)}};
    if (change) change(epoch, seed + static_cast<unsigned>(e));
    teller.Absorb(epoch);
    ranker.Absorb(epoch);
  }
  histories.told = teller.Tell();
  return histories;
}

TEST(HitRatesMonteCarlo, JudgeHistoryByEvidenceThatDidNotRankIt) {
  constexpr unsigned kRuns = 4;
  const std::vector<PageCount> capacities{PageCount(kPages / 8), PageCount(kPages / 32)};
  for (const auto& [name, rates] : {std::pair("zipf", simulation::Zipf(kPages, kAccessRate)),
                                    {"hotset", simulation::Hotset(kPages, kAccessRate)}}) {
    std::vector<double> errors(capacities.size());
    for (unsigned run = 0; run < kRuns; ++run) {
      const auto [really, told] = JudgeHistories(rates, capacities, 70 + 100 * run);
      for (std::size_t i = 0; i < capacities.size(); ++i) {
        ASSERT_TRUE(told[i].history.has_value());
        errors[i] += (told[i].history->value - really[i]) / kRuns;
        EXPECT_LE(told[i].history->low, really[i]) << name << ", " << i;
        EXPECT_GE(told[i].history->high, really[i]) << name << ", " << i;
        EXPECT_GE(told[i].history->high, told[i].attainable->high) << name << ", " << i;
        std::printf("| %s | %.3f | %.3f [%.3f, %.3f] |\n", name, really[i], told[i].history->value,
                    told[i].history->low, told[i].history->high);
      }
    }
    for (const double error : errors) EXPECT_NEAR(error, 0, 0.05) << name;
  }
}

enum class Began { kTold, kUntold };

// Every block has had a visit before the epoch, too. The pages that this had not found within 64 ms
// were watched for another second.
void AddOlderVisits(const Rates& rates, Began began, EpochProfile& epoch, unsigned seed) {
  constexpr double kSeconds = 1;
  std::mt19937_64 random(seed);
  const PageColumns before = std::exchange(epoch.pages, {});
  std::size_t row = 0;
  for (std::uint64_t page = 0; page < kPages; ++page) {
    PageRecord record{.key = {TargetId(0), Vpn(page)}};
    if (row < before.size() && before.vpn[row] == Vpn(page)) record = RecordAt(before, row++);
    if (began == Began::kTold) {
      record.new_first_accesses = record.first_accesses;
      record.new_time_at_risk = record.time_at_risk;
      record.new_later_read_time = record.later_read_time;
    }
    ++record.looks;
    std::exponential_distribution<double> next_access(rates[page]);
    if (next_access(random) <= 64e-3) {
      ++record.references;
    } else {
      const bool found = next_access(random) <= kSeconds;
      const auto sum = [](LogDuration one, double more) {
        return LogDuration::FromNanoseconds(
            std::chrono::nanoseconds(std::llround(1e9 * (one.seconds() + more))));
      };
      record.references += found;
      record.first_accesses += found;
      record.time_at_risk = sum(record.time_at_risk, found ? kSeconds / 2 : kSeconds);
      if (found) record.later_read_time = sum(record.later_read_time, kSeconds);
    }
    Append(epoch.pages, record);
  }
}

// Older visits, if they are known, neither widen the interval nor move it.
TEST(HitRatesMonteCarlo, JudgeHistoryByNewVisitsAlone) {
  const std::vector<PageCount> capacities{PageCount(kPages / 8)};
  struct Case {
    const char* name;
    Rates rates;
    double widest;
  };
  const std::vector<Case> cases{{"zipf", simulation::Zipf(kPages, kAccessRate), 0.35},
                                {"hotset", simulation::Hotset(kPages, kAccessRate), 0.2}};
  for (const auto& [name, rates, widest] : cases) {
    SCOPED_TRACE(name);
    const auto judged = [&](Began began) {
      return JudgeHistories(rates, capacities, 40, [&](EpochProfile& epoch, unsigned seed) {
        AddOlderVisits(rates, began, epoch, seed);
      });
    };
    const auto [really, told] = judged(Began::kTold);
    ASSERT_TRUE(told[0].history.has_value());
    const HitRate& history = *told[0].history;
    EXPECT_NEAR(history.value, really[0], 0.07);
    EXPECT_LE(history.low, really[0]);
    EXPECT_GE(history.high, really[0]);
    EXPECT_LT(history.high - history.low, widest);
    std::printf("| %s | %.3f | %.3f [%.3f, %.3f] |\n", name, really[0], history.value, history.low,
                history.high);
    const std::vector<HitRates> untold = judged(Began::kUntold).told;
    ASSERT_TRUE(untold[0].history.has_value());
    EXPECT_EQ(untold[0].history->low, 0);
    EXPECT_EQ(untold[0].history->high, 1);
  }
}

// The second epoch has a first pass over all pages, before which an eighth of them was known. Later
// epochs visit as few as the first.
TEST(HitRatesMonteCarlo, JudgeHistoryByEachEpochHoweverManyPagesItVisits) {
  const std::vector<PageCount> capacities{PageCount(kPages / 8)};
  const auto [really, told] =
      JudgeHistories(simulation::Hotset(kPages, kAccessRate), capacities, 40, nullptr,
                     [](int epoch) { return epoch == 1 ? 2 * kHalf : kHalf / 4; });
  ASSERT_TRUE(told[0].history.has_value());
  EXPECT_NEAR(told[0].history->value, really[0], 0.05);
}

// All visits of these epochs began before them.
TEST(HitRates, GiveNoHistoryByOlderVisits) {
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                       std::vector<PageCount>{PageCount(64)});
  for (std::uint64_t index = 0; index < 4; ++index) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = 0; vpn < 16'384; ++vpn)
      records.push_back(Visited(vpn, vpn % 16 == 0, std::chrono::milliseconds(8)));
    EpochProfile epoch = Epoch(index, records);
    epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::seconds(1)}};
    if (index > 0) {
      epoch.pages.new_visits = {.first_accesses = std::vector<std::uint32_t>(16'384),
                                .time_at_risk = std::vector<LogDuration>(16'384),
                                .later_time = std::vector<LogDuration>(16'384)};
    }
    teller.Absorb(epoch);
  }
  EXPECT_FALSE(teller.Tell()[0].history.has_value());
}

// Visits of a target whose CPU clock cannot be read have no times.
TEST(HitRates, GiveHistoryByAllVisitsIfNoneIsTimed) {
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                       std::vector<PageCount>{PageCount(64)});
  for (std::uint64_t index = 0; index < 4; ++index) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = 0; vpn < 16'384; ++vpn) {
      records.push_back(Visited(vpn, 0, std::chrono::milliseconds(0)));
      records.back().references = vpn % 16 == 0;
    }
    EpochProfile epoch = Epoch(index, records);
    epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::seconds(1)}};
    epoch.pages.new_visits = {.first_accesses = std::vector<std::uint32_t>(16'384),
                              .time_at_risk = std::vector<LogDuration>(16'384),
                              .later_time = std::vector<LogDuration>(16'384)};
    teller.Absorb(epoch);
  }
  EXPECT_TRUE(teller.Tell()[0].history.has_value());
}

TEST(HitRatesMonteCarlo, GivesNoHistoryIfItsFirstReadsGiveNoHitRates) {
  const std::vector<PageCount> capacities{PageCount(kPages / 8)};
  const Rates rates = simulation::Zipf(kPages, kAccessRate);
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                       capacities);
  simulation::Rotation rotation(kPages);
  for (int e = 0; e < 6; ++e) {
    Scenario scenario = Ladder(1);  // without fast tries
    scenario.blocks = rotation.Next(kPages / 512 / 2);
    EpochProfile epoch =
        simulation::ToEpoch(simulation::Observe(rates, scenario, 90 + static_cast<unsigned>(e)), e);
    epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::milliseconds(100)}};
    teller.Absorb(epoch);
  }
  const HitRates told = teller.Tell()[0];
  ASSERT_TRUE(told.history.has_value() && told.attainable.has_value());
  EXPECT_FALSE(told.attainable->is_told());
  EXPECT_FALSE(told.history->is_told());
  EXPECT_GE(told.history->high, 0.72) << "what this ranking really gets";
}

TEST(HitRates, HistoryIsUnknownBeforeASecondEpoch) {
  const std::vector<PageCount> capacities{PageCount(1)};
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                       capacities);
  teller.Absorb(Epoch(0, {Visited(7, 1, std::chrono::milliseconds(1))}));
  EXPECT_FALSE(teller.Tell()[0].history.has_value());
}

TEST(HitRates, AreNotToldForOnePageSeenOnce) {
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  ranker.Absorb(Epoch(0, {Visited(7, 1, std::chrono::milliseconds(1))}));
  const std::vector<PageCount> capacities{PageCount(1)};
  const HitRates hit = ranker.HitRatesAt(RankSource::kReferences, capacities, /*unknown=*/{})[0];
  EXPECT_FALSE(hit.oracle->is_told());
  EXPECT_FALSE(hit.attainable->is_told());
}

TEST(HitRates, AreUnknownWhereNoAccessedBitWasRead) {
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  PageRecord sampled = Counts(7, 0, 1);
  sampled.looks = 0;
  ranker.Absorb(Epoch(0, {sampled}));
  const std::vector<PageCount> capacities{PageCount(1)};
  const HitRates hit = ranker.HitRatesAt(RankSource::kCombined, capacities, /*unknown=*/{})[0];
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
  const std::vector<HitRates> hit =
      ranker.HitRatesAt(RankSource::kReferences, capacities, /*unknown=*/{});
  EXPECT_EQ(hit[0].pages, PageCount(4096));
  EXPECT_GT(hit[0].oracle->value, 0.99);
  EXPECT_GT(hit[0].attainable->value, 0.99);
  EXPECT_DOUBLE_EQ(hit[1].oracle->value, 1);
}

TEST(HitRates, AreUnknownOfProgramsThatUsedNoCpuTime) {
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  std::vector<PageRecord> records;
  for (std::uint64_t vpn = 0; vpn < 4096; ++vpn) {
    records.push_back(Visited(vpn, 1, std::chrono::milliseconds(1)));
  }
  EpochProfile epoch = Epoch(0, records);
  epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::nanoseconds(0)}};
  ranker.Absorb(epoch);
  const std::vector<PageCount> capacities{PageCount(512)};
  const HitRates hit = ranker.HitRatesAt(RankSource::kReferences, capacities, /*unknown=*/{})[0];
  EXPECT_EQ(hit.pages, PageCount(4096));
  EXPECT_FALSE(hit.oracle.has_value());
  EXPECT_FALSE(hit.attainable.has_value());
}

// Equal pages of two targets, of which the one that ran before is idle in the last epoch.
TEST(HitRates, AttainableAreOfThePagesThatTheRankingChooses) {
  constexpr std::uint64_t kEach = 2048;
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  const auto absorb = [&](std::uint64_t index, std::chrono::milliseconds first,
                          std::chrono::milliseconds second) {
    std::vector<PageRecord> records;
    for (const std::uint32_t target : {0u, 1u}) {
      for (std::uint64_t vpn = 0; vpn < kEach; ++vpn) {
        PageRecord record = Visited(vpn, 1, std::chrono::milliseconds(vpn % 2 == 0 ? 4 : 12));
        record.key = Key(target, vpn);
        records.push_back(record);
      }
    }
    EpochProfile epoch = Epoch(index, records);
    epoch.targets = {{.id = TargetId(0), .cpu_time = first},
                     {.id = TargetId(1), .cpu_time = second}};
    ranker.Absorb(epoch);
  };
  absorb(0, std::chrono::milliseconds(900), std::chrono::milliseconds(100));
  absorb(1, std::chrono::milliseconds(1), std::chrono::milliseconds(100));
  const Scores scores = ranker.Score(RankSource::kReferences);
  ASSERT_LT(scores[0], scores[kEach]);  // the ranking puts the second target first

  const std::vector<PageCount> capacities{PageCount(kEach), PageCount(2 * kEach)};
  const std::vector<HitRates> hit =
      ranker.HitRatesAt(RankSource::kReferences, capacities, /*unknown=*/{});
  // 900 ms and nearly 200 ms of CPU time are remembered.
  EXPECT_NEAR(hit[0].oracle->value, 0.82, 0.03);
  EXPECT_NEAR(hit[0].attainable->value, 0.18, 0.03);
  EXPECT_NEAR(hit[1].attainable->value, 1, 1e-9);
}

// Three processes map the same 4096 pages. Half of these were looked at in two of them.
TEST(HitRates, CountUnknownPagesOnceThatSeveralProcessesMap) {
  EpochProfile epoch = Epoch(0, {});
  for (const std::uint32_t id : {0u, 1u, 2u}) {
    const std::uint64_t address = (id + 1) * 8192;
    Target target = Maps(id, {Shared(address, 4096)});
    target.cpu_time = std::chrono::seconds(1);
    target.resident_pages = PageCount(4096);
    epoch.targets.push_back(target);
    for (std::uint64_t page = 0; id < 2 && page < 2048; ++page) {
      PageRecord record = Visited(address + page, 1, std::chrono::milliseconds(4));
      record.key = Key(id, address + page);
      Append(epoch.pages, record);
    }
  }
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  ranker.Absorb(epoch);
  const std::vector<PageCount> capacities{PageCount(1024), PageCount(4096)};
  const std::vector<HitRates> hit = ranker.HitRatesAt(RankSource::kReferences, capacities,
                                                      ranker.PagesUnknown(RankSource::kReferences));
  EXPECT_EQ(hit[0].pages, PageCount(4096));
  EXPECT_EQ(hit[0].unknown, PageCount(2048));
  EXPECT_NEAR(hit[0].attainable->value, 0.25, 0.01);
  EXPECT_NEAR(hit[1].attainable->value, 0.5, 0.01) << "there is room for all, but who are they?";
  EXPECT_NEAR(hit[1].oracle->value, 1, 0.01);
  const HitRates known = ranker.HitRatesAt(RankSource::kReferences, capacities, /*unknown=*/{})[1];
  EXPECT_EQ(known.pages, PageCount(2048));
  EXPECT_NEAR(known.attainable->value, 1, 0.01);
}

// A second process, of which nothing is known, has as much memory and runs as long.
TEST(HitRates, SpeakForProcessesOfWhichNoPageIsKnown) {
  std::vector<PageRecord> records;
  for (std::uint64_t vpn = 0; vpn < 4096; ++vpn)
    records.push_back(Visited(vpn, 1, std::chrono::milliseconds(4)));
  EpochProfile epoch = Epoch(0, records);
  for (const std::uint32_t id : {0u, 1u})
    epoch.targets.push_back({.id = TargetId(id),
                             .cpu_time = std::chrono::seconds(1),
                             .resident_pages = PageCount(4096)});
  HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                       std::vector<PageCount>{PageCount(4096)});
  teller.Absorb(epoch);
  epoch.index = 1;
  teller.Absorb(epoch);
  const HitRates hit = teller.Tell()[0];
  EXPECT_EQ(hit.unknown, PageCount(4096));
  EXPECT_NEAR(hit.oracle->value, 0.5, 0.03);
  EXPECT_NEAR(hit.attainable->value, 0.5, 0.03);
  EXPECT_FALSE(hit.attainable->is_told()) << "the other may be far hotter or colder";
  EXPECT_FALSE(hit.oracle->is_told());
}

// The 512 pages of a block are alike, which shows nothing about other blocks.
TEST(HitRates, OneBlockGivesNoHitRatesForMore) {
  std::vector<PageRecord> records;
  for (std::uint64_t vpn = 0; vpn < 512; ++vpn)
    records.push_back(Visited(vpn, 1, std::chrono::milliseconds(4)));
  EpochProfile epoch = Epoch(0, records);
  epoch.targets = {
      {.id = TargetId(0), .cpu_time = std::chrono::seconds(1), .resident_pages = PageCount(8192)}};
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  ranker.Absorb(epoch);
  const std::vector<PageCount> capacities{PageCount(512)};
  const HitRates hit = ranker.HitRatesAt(RankSource::kReferences, capacities,
                                         ranker.PagesUnknown(RankSource::kReferences))[0];
  EXPECT_FALSE(hit.attainable->is_told());
  EXPECT_FALSE(hit.oracle->is_told());
  EXPECT_TRUE(
      ranker.HitRatesAt(RankSource::kReferences, capacities, /*unknown=*/{})[0].oracle->is_told());
}

// Each page of a process that shares nothing counts whole, however many processes share others.
TEST(HitRates, CountUnknownPagesOfAProcessThatSharesNothingWhole) {
  EpochProfile epoch = Epoch(0, {});
  const auto add = [&](Target target, std::uint64_t address, std::uint64_t looked_at,
                       std::uint64_t resident) {
    target.cpu_time = std::chrono::seconds(1);
    target.resident_pages = PageCount(resident);
    for (std::uint64_t page = 0; page < looked_at; ++page) {
      PageRecord record = Visited(address + page, 1, std::chrono::milliseconds(4));
      record.key = Key(target.id.value(), address + page);
      Append(epoch.pages, record);
    }
    epoch.targets.push_back(target);
  };
  for (const std::uint32_t id : {0u, 1u, 2u, 3u})
    add(Maps(id, {Shared((id + 1) * 8192, 4096)}), (id + 1) * 8192, 4096, 4096);
  add({.id = TargetId(4)}, 1 << 20, 2048, 6144);
  // It has touched a hundredth of what it maps, and has as many pages of its own.
  add(Maps(5, {Shared(6 * 8192, 4096)}), 6 * 8192, 40, 80);
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  ranker.Absorb(epoch);
  const std::vector<UnknownPages> unknown = ranker.PagesUnknown(RankSource::kReferences);
  ASSERT_EQ(unknown.size(), 1u);
  EXPECT_EQ(unknown[0].target, TargetId(4));
  EXPECT_EQ(unknown[0].pages, 4096);
  EXPECT_FALSE(unknown[0].are_as_all);
}

// A process that has exited has no memory any more, unless all have exited.
TEST(HitRates, CountNoUnknownPagesOfAProcessThatHasExited) {
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  const auto unknown_after = [&](std::uint64_t index, std::vector<bool> exited) {
    EpochProfile epoch = Epoch(index, {Visited(7, 1, std::chrono::milliseconds(4))});
    for (std::uint32_t id = 0; id < exited.size(); ++id) {
      Target target{.id = TargetId(id), .exited = exited[id], .cpu_time = std::chrono::seconds(1)};
      if (!exited[id]) target.resident_pages = PageCount(100);
      epoch.targets.push_back(target);
    }
    ranker.Absorb(epoch);
    const std::vector<PageCount> capacities{PageCount(1)};
    return ranker
        .HitRatesAt(RankSource::kReferences, capacities,
                    ranker.PagesUnknown(RankSource::kReferences))[0]
        .unknown.value();
  };
  EXPECT_EQ(unknown_after(0, {false, false}), 199u);
  EXPECT_EQ(unknown_after(1, {false, true}), 99u);
  EXPECT_EQ(unknown_after(2, {true}), 99u);
}

// History is judged by pages that were looked at.
TEST(HitRates, HistoryIsNotToldIfMuchIsUnknown) {
  const auto history = [](std::uint64_t resident) {
    HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                         std::vector<PageCount>{PageCount(1024)});
    for (std::uint64_t index = 0; index < 3; ++index) {
      std::vector<PageRecord> records;
      for (std::uint64_t vpn = 0; vpn < 16'384; ++vpn) {
        records.push_back(vpn % 16 == 0 ? Visited(vpn, 1, std::chrono::milliseconds(8))
                                        : Visited(vpn, 0, std::chrono::seconds(1)));
      }
      EpochProfile epoch = Epoch(index, records);
      epoch.targets = {{.id = TargetId(0),
                        .cpu_time = std::chrono::seconds(1),
                        .resident_pages = PageCount(resident)}};
      teller.Absorb(epoch);
    }
    return teller.Tell()[0].history.value();
  };
  EXPECT_TRUE(history(16'384).is_told());
  EXPECT_TRUE(history(17'000).is_told());
  EXPECT_FALSE(history(20'000).is_told());
}

// A page that has changed for sure counts by what was seen since, and its older evidence not at
// all.
TEST(HitRates, PagesThatChangedForSureDependOnNoOlderEvidence) {
  RateKinds sorter;
  const auto kind = [&](double seconds) {
    return sorter.Add({.first_accesses = 4,
                       .seconds_at_risk = 4 * seconds,
                       .seconds_to_read = 2 * seconds,
                       .square_seconds_to_read = seconds * seconds});
  };
  const std::uint32_t slow = kind(0.5);
  const std::uint32_t fast = kind(0.001);
  const auto rated = [&](std::uint32_t before, float chance) {
    RatedRows rows;
    for (std::uint64_t vpn = 0; vpn < 8192; ++vpn) {
      RatedRow row{.key = Key(0, vpn), .pages = 1, .kind = slow};
      row.cpu_seconds = row.remembered_cpu_seconds = 1;
      if (vpn % 16 == 0) {
        row.kind = before;
        row.kind_since = fast;
        row.chance = chance;
      }
      rows.rows.push_back(row);
    }
    RateKinds all = sorter;
    rows.kinds = std::move(all).Take();
    return rows;
  };
  const std::vector<PageCount> capacities{PageCount(1024)};
  const HitRates changed = HitRatesOf(rated(slow, 1), capacities)[0];
  const HitRates always = HitRatesOf(rated(fast, 0), capacities)[0];
  EXPECT_NEAR(changed.oracle->value, always.oracle->value, 1e-9);
  EXPECT_NEAR(changed.oracle->low, always.oracle->low, 1e-9);
  EXPECT_NEAR(changed.attainable->value, always.attainable->value, 1e-9);
}

// All pages have 10 accesses a second: the first read after 0.25 ms finds next to none of them.
TEST(HitRatesMonteCarlo, HitRatesOfASlowProgramGetBetterWithMoreEvidence) {
  const Rates rates(kPages, 10.0);
  const HitRate once = *AtAnEighth(Recorded(rates, Ladder(1), 1, 3)).oracle;
  const HitRate often = *AtAnEighth(Recorded(rates, Ladder(1), 8, 3)).oracle;
  for (const HitRate& rate : {once, often}) {
    EXPECT_LE(rate.low, 0.125);
    EXPECT_GE(rate.high, 0.125);
  }
  EXPECT_LT(often.high - often.low, 0.5 * (once.high - once.low));
  EXPECT_TRUE(often.is_told());
}

// A scanner's time to a first access of each page in turn, if all have this rate.
RateKinds KindsAtOneRate(double rate, std::uint32_t pages) {
  RateKinds sorter;
  for (std::uint32_t i = 0; i < pages; ++i) {
    const double seconds = std::max(0.125e-3, -std::log1p(-(i + 0.5) / pages) / rate);
    sorter.Add({.first_accesses = 1, .seconds_at_risk = seconds});
  }
  return sorter;
}

TEST(FitRates, FindsNoUntoldRatesWhereTheReadsResolveAll) {
  for (const double rate : {1.0, 10.0, 300.0}) {
    EXPECT_TRUE(FitRates(KindsAtOneRate(rate, 8192).Take()).untold.empty()) << rate;
  }
  EXPECT_FALSE(FitRates(KindsAtOneRate(50e3, 8192).Take()).untold.empty());
}

// Pages of 50 000 accesses a second are found by first reads that come 0.25 to 0.5 ms after the
// clear. A tenth of the pages were tried within 64 us, of which such a rate finds 96 %.
TEST(FitRates, TakesNoPageForSlowerBecauseFirstReadsCameLate) {
  RateKinds sorter;
  for (int page = 0; page < 4000; ++page) {
    const double middle = 0.125e-3 * (1 + page % 10 / 9.0);
    RateEvidence seen{.first_read_finds = 6, .first_read_seconds = 6 * middle};
    if (page % 10 == 0) {
      seen.fast_looks = 2;
      seen.fast_found = page % 250 == 0 ? 1 : 2;
      seen.fast_seconds = 128e-6;
    }
    sorter.Add(seen);
  }
  const std::vector<RateKind> kinds = std::move(sorter).Take();
  const RateFit fit = FitRates(kinds);
  double rates = 0;
  double pages = 0;
  for (std::uint32_t k = 0; k < kinds.size(); ++k) {
    rates += kinds[k].pieces * fit.mixture.Mean(k, fit.mixture.rates());
    pages += kinds[k].pieces;
  }
  EXPECT_GT(rates / pages, 25'000);
}

TEST(FitRates, FindsNoUntoldRatesIfEnoughPagesWereTried) {
  for (const int tried : {100, 300}) {
    RateKinds sorter = KindsAtOneRate(50e3, 8192);
    for (int i = 0; i < tried; ++i) {
      sorter.Add({.first_read_finds = 1,
                  .first_read_seconds = 125e-6,
                  .fast_looks = 2,
                  .fast_found = 1,
                  .fast_seconds = 2 * 16e-6});
    }
    const RateFit fit = FitRates(std::move(sorter).Take());
    EXPECT_EQ(fit.untold.empty(), tried == 300) << tried;
  }
}

// One of two tries found the page within 64 us.
void TryFast(PageRecord& record) {
  record.fast_looks = 2;
  record.fast_found = 1;
  record.fast_time = LogDuration::FromNanoseconds(std::chrono::microseconds(128));
}

HitRates OfOneEpoch(const std::vector<PageRecord>& records, std::uint64_t capacity) {
  Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
  ranker.Absorb(Epoch(0, records));
  const std::vector<PageCount> capacities{PageCount(capacity)};
  return ranker.HitRatesAt(RankSource::kReferences, capacities, /*unknown=*/{})[0];
}

// Tries of 64 us found half of the fast pages that were tried. The more were tried, the fewer of
// the others can be far faster.
TEST(HitRates, HaveNarrowerIntervalsTheMoreFastPagesWereTried) {
  const auto oracle = [](std::uint64_t tried) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = 0; vpn < 30'000; ++vpn) {
      const bool is_fast = vpn % 10 == 0;
      PageRecord record = Visited(vpn, 4, std::chrono::microseconds(is_fast ? 500 : 40'000));
      if (is_fast) {
        record.first_read_finds = 4;
        record.first_read_time = LogDuration::FromNanoseconds(std::chrono::microseconds(1000));
      }
      if (is_fast && vpn / 10 % (3'000 / tried) == 0) TryFast(record);
      records.push_back(record);
    }
    return *OfOneEpoch(records, 300).oracle;
  };
  const HitRate few = oracle(150);
  const HitRate many = oracle(3'000);
  EXPECT_NEAR(few.value, many.value, 0.03);
  EXPECT_GT(few.high, many.high + 0.01);
}

// Pages are tried after the visit whose first read found them, here in the epoch that follows.
TEST(HitRates, HistoryCountsFastTriesWithTheVisitThatTheyFollow) {
  const auto history = [](bool are_tried) {
    HitRateTeller teller(Ranker::DefaultOptions(RankModel::kRate), RankSource::kReferences,
                         std::vector<PageCount>{PageCount(3'000)});
    for (std::uint64_t index = 0; index < 6; ++index) {
      std::vector<PageRecord> records;
      for (std::uint64_t vpn = 0; vpn < 30'000; ++vpn) {
        const bool is_fast = vpn % 10 == 0;
        if (index % 2 == 1) {
          PageRecord record{.key = {TargetId(0), Vpn(vpn)}};
          if (is_fast && are_tried) TryFast(record);
          // A page that an older visit still watches.
          if (vpn == 1) record = Visited(vpn, 0, std::chrono::milliseconds(40));
          if (record.fast_looks + record.looks > 0) records.push_back(record);
          continue;
        }
        PageRecord record = Visited(vpn, 4, std::chrono::microseconds(is_fast ? 500 : 40'000));
        if (is_fast) {
          record.first_read_finds = 4;
          record.first_read_time = LogDuration::FromNanoseconds(std::chrono::microseconds(1000));
        }
        record.new_first_accesses = record.first_accesses;
        record.new_time_at_risk = record.time_at_risk;
        records.push_back(record);
      }
      EpochProfile epoch = Epoch(index, records);
      epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::seconds(1)}};
      if (!epoch.pages.new_visits) {
        epoch.pages.new_visits = {.first_accesses = std::vector<std::uint32_t>(records.size()),
                                  .time_at_risk = std::vector<LogDuration>(records.size()),
                                  .later_time = std::vector<LogDuration>(records.size())};
      }
      teller.Absorb(epoch);
    }
    return teller.Tell()[0].history.value();
  };
  const HitRate untried = history(false);
  const HitRate tried = history(true);
  EXPECT_LT(tried.high - tried.low, 0.5 * (untried.high - untried.low))
      << tried.low << " " << tried.high << " " << untried.low << " " << untried.high;
}

struct Part {
  std::uint64_t span;
  std::uint32_t pages;  // records
  std::chrono::microseconds at_risk;
  bool tried = false;
};

// Parts of a program, each record of them found once, after so much time.
HitRates OfParts(const std::vector<Part>& parts, std::uint64_t capacity) {
  std::vector<PageRecord> records;
  std::uint64_t vpn = 0;
  for (const Part& part : parts) {
    for (std::uint32_t i = 0; i < part.pages; ++i, vpn += part.span) {
      PageRecord record = Visited(vpn, 1, part.at_risk);
      record.span = PageCount(part.span);
      if (part.tried) TryFast(record);
      records.push_back(record);
    }
  }
  return OfOneEpoch(records, capacity);
}

// A page of 10 accesses a second, and one that each first read found.
constexpr Part kSlowPages{1, 30000, std::chrono::milliseconds(100)};
constexpr Part kFastPages{1, 300, std::chrono::microseconds(125)};

TEST(HitRates, AreNotToldOfUntriedPagesAtTheFirstReadsLimit) {
  EXPECT_FALSE(OfParts({kFastPages, kSlowPages}, 100).oracle->is_told());
}

TEST(HitRates, AreToldOfPagesThatTheFirstReadMisses) {
  const HitRates hit = OfParts(
      {{1, 1, std::chrono::microseconds(125)}, {1, 300, std::chrono::milliseconds(3)}, kSlowPages},
      3000);
  EXPECT_TRUE(hit.oracle->is_told()) << hit.oracle->low << " " << hit.oracle->high;
}

TEST(HitRates, LimitsTheRatesOfBasePagesApartFromASlowHugePage) {
  RateKinds sorter = KindsAtOneRate(300, 8192);
  sorter.Add({.pages = 512, .first_accesses = 1, .seconds_at_risk = 2.0 / 512});
  for (const UntoldRates& untold : FitRates(std::move(sorter).Take()).untold) {
    EXPECT_EQ(untold.entry_pages, 512);
  }
}

// Two visits in an epoch: an accident after 0.25 ms, then nothing in 64 ms, nor in two tries.
TEST(RateOfPages, ThatNoFastTryFoundIsThatOfTheirReads) {
  const auto score = [](std::uint32_t looks) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = 0; vpn < 2000; ++vpn) {
      const bool fast = vpn < 1000;
      PageRecord record = Visited(vpn, 1, std::chrono::microseconds(fast ? 125 : 64125));
      if (fast || looks > 0) {
        record.fast_looks = fast ? 2 : looks;
        record.fast_found = fast ? 2 : 0;
        record.fast_time =
            LogDuration::FromNanoseconds(std::chrono::microseconds(64) * record.fast_looks);
      }
      records.push_back(record);
    }
    Ranker ranker(Ranker::DefaultOptions(RankModel::kRate));
    ranker.Absorb(Epoch(0, records));
    return ranker.Score(RankSource::kReferences)[1500];
  };
  EXPECT_NEAR(score(2), score(0), 0.1 * score(0));
  EXPECT_LT(score(2), 40);  // 1 / 64 ms is 16 a second
}

}  // namespace hit_rates_test
}  // namespace tmprof
