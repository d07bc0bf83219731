// SPDX-License-Identifier: Apache-2.0

#include "rank/total_ranker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "rank/rate_model.h"
#include "tests/rank/profiles.h"
#include "tests/rank/simulation.h"

namespace tmprof {
namespace total_ranker_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

TEST(TotalRanker, SumsCountsHoweverLongAgo) {
  TotalRanker ranker(RankModel::kSum);
  ranker.Absorb(Epoch(0, {Counts(1, 3, 0)}));
  ranker.Absorb(Epoch(9, {Counts(1, 4, 1)}));
  EXPECT_THAT(ranker.Score(RankSource::kCombined), ElementsAre(8));
}

TEST(TotalRanker, CountedMissesRefuteACacheForAllPages) {
  const auto is_refuted = [](std::optional<std::uint64_t> llc_bytes, std::uint64_t misses) {
    TotalRanker ranker(RankModel::kRate, llc_bytes);
    EpochProfile epoch =
        simulation::ToEpoch(simulation::Observe(simulation::Zipf(512, 20'000), {}, 1), 0);
    epoch.sources.push_back({.name = "clock",
                             .role = SourceRole::kSamples,
                             .state = SourceState::kActive,
                             .samples_of = SampleSubject::kTime,
                             .details = {{"llc_load_misses", misses}}});
    ranker.Absorb(epoch);
    return ranker.CacheIsRefuted();
  };
  EXPECT_TRUE(is_refuted(1 << 30, 10'000'000));
  EXPECT_FALSE(is_refuted(1 << 30, 0));
  EXPECT_FALSE(is_refuted(64 << 10, 10'000'000)) << "it has no room for all";
  EXPECT_FALSE(is_refuted(std::nullopt, 10'000'000));
}

// A span of 8 pages with 16 references splits: pages 2 and 5 come back as records of their own.
// They take 2 references each, and what lies between and around stays as spans of 2, 2 and 2 pages.
TEST(Spans, ThatSplitHandTheirEvidenceToTheirPages) {
  TotalRanker ranker(RankModel::kSum);
  ranker.Absorb(Epoch(0, {Counts(16, 16, 0, 8)}));
  ranker.Absorb(Epoch(1, {Counts(18, 1, 0), Counts(21, 0, 0)}));
  EXPECT_THAT(ranker.table().key,
              ElementsAre(Key(0, 16), Key(0, 18), Key(0, 19), Key(0, 21), Key(0, 22)));
  EXPECT_THAT(ranker.table().span_pages, ElementsAre(2, 1, 2, 1, 2));
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(4, 2 + 1, 4, 2, 4));
}

// Pages 15, 16, 18 and 23 become a span [16, 24): it takes those inside, and 15 stays alone.
TEST(Spans, ThatCollapseTakeTheEvidenceOfTheirPages) {
  TotalRanker ranker(RankModel::kSum);
  ranker.Absorb(Epoch(0, {Counts(15, 1, 0), Counts(16, 2, 0), Counts(18, 3, 0), Counts(23, 4, 0),
                          Counts(24, 5, 0)}));
  ranker.Absorb(Epoch(1, {Counts(16, 1, 0, 8)}));
  EXPECT_THAT(ranker.table().key, ElementsAre(Key(0, 15), Key(0, 16), Key(0, 24)));
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(1, 1 + 2 + 3 + 4, 5));
}

// A span [0, 8) with 8 references met by one of [4, 12): half of it moves over.
TEST(Spans, ThatOverlapInPartShareByPages) {
  TotalRanker ranker(RankModel::kSum);
  ranker.Absorb(Epoch(0, {Counts(0, 8, 0, 8)}));
  ranker.Absorb(Epoch(1, {Counts(4, 1, 0, 8)}));
  EXPECT_THAT(ranker.table().span_pages, ElementsAre(4, 8));
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(4, 4 + 1));
}

TEST(Spans, SpansOfDifferentTargetsNeverMix) {
  TotalRanker ranker(RankModel::kSum);
  PageRecord other = Counts(0, 5, 0, 8);
  other.key.target = TargetId(1);
  ranker.Absorb(Epoch(0, {Counts(0, 8, 0, 8), other}));
  other.key.vpn = Vpn(4);
  ranker.Absorb(Epoch(1, {other}));
  EXPECT_THAT(ranker.table().key, ElementsAre(Key(0, 0), Key(1, 0), Key(1, 4)));
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(8, 2.5, 5 + 2.5));
}

// Splitting and joining must lose nothing, whatever the bounds.
TEST(Spans, KeepTheTotalEvidenceThroughAnySequenceOfBounds) {
  TotalRanker ranker(RankModel::kSum);
  double total = 0;
  std::uint64_t state = 1;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = 0; vpn < 64;) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const std::uint64_t span = 1 + (state >> 40) % 9;
      if ((state >> 50) % 3 != 0) {
        records.push_back(Counts(vpn, static_cast<std::uint32_t>((state >> 33) % 7), 0, span));
        total += records.back().references;
      }
      vpn += span;
    }
    ranker.Absorb(Epoch(epoch, records));
    const EvidenceTable& table = ranker.table();
    for (std::size_t i = 1; i < table.size(); ++i) {
      ASSERT_LE(table.key[i - 1].vpn + PageCount(table.span_pages[i - 1]), table.key[i].vpn);
    }
    const Scores scores = ranker.Score(RankSource::kReferences);
    ASSERT_NEAR(std::accumulate(scores.begin(), scores.end(), 0.0), total, 1e-6);
  }
}

TEST(TotalRanker, KeepsOneSampleOfAGiantSpan) {
  TotalRanker ranker(RankModel::kSum);
  PageRecord giant = Counts(0, 0, 1, 262'144);
  giant.looks = 0;
  ranker.Absorb(Epoch(0, {giant}));
  ranker.Absorb(Epoch(1, {}));
  ASSERT_EQ(ranker.table().size(), 1u);
  EXPECT_EQ(ranker.Score(RankSource::kSamples), Scores{1});
}

// Three first accesses in 3 ms or in 300 ms of a second's CPU time: 1000 or 10 accesses.
PageRecord Hot(std::uint64_t vpn) { return Visited(vpn, 3, milliseconds(3)); }
PageRecord Cold(std::uint64_t vpn) { return Visited(vpn, 3, milliseconds(300)); }

// Hot pages from 0 on, pages that are hot in the first half only from 100 on, cold ones from 200
// on; every `rotation`-th of each is visited in an epoch. Over n epochs: 1000 n, 505 n, 10 n
// accesses.
Scores ScoresOfAShift(std::uint64_t epochs, std::uint64_t rotation) {
  TotalRanker ranker(RankModel::kRate);
  for (std::uint64_t e = 0; e < epochs; ++e) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = 0; vpn < 300; ++vpn) {
      if (vpn % rotation != e % rotation) continue;
      const bool hot = vpn < 100 || (vpn < 200 && e < epochs / 2);
      records.push_back(hot ? Hot(vpn) : Cold(vpn));
    }
    ranker.Absorb(Epoch(e, records));
  }
  EXPECT_EQ(ranker.table().size(), 300u);
  return ranker.Score(RankSource::kReferences);
}

// Pooled, first accesses over time at risk would be 3 n / (3 ms n / 2 + 300 ms n / 2): 19.8 a
// second.
TEST(TotalRanker, APageHotHalfTheTimeHasHalfTheAccesses) {
  const Scores scores = ScoresOfAShift(12, 1);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(scores[i], 12'000, 1'200);
    EXPECT_NEAR(scores[100 + i], 6'060, 600);
    EXPECT_NEAR(scores[200 + i], 120, 30);
  }
}

TEST(TotalRanker, CarriesEvidenceOverEpochsWithoutAVisit) {
  const Scores scores = ScoresOfAShift(24, 4);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_NEAR(scores[i], 24'000, 2'400);
    EXPECT_NEAR(scores[100 + i], 12'120, 3'000);  // it was last seen hot up to 3 s before the shift
    EXPECT_NEAR(scores[200 + i], 240, 240);
  }
}

// Scores of 24 busy epochs with a shift in the middle. The target rests for `rest` epochs between
// the 9th and the 10th; a quarter of the pages is visited in a busy epoch.
Scores ScoresWithARest(std::uint64_t rest) {
  TotalRanker ranker(RankModel::kRate);
  std::uint64_t busy = 0;
  for (std::uint64_t e = 0; e < 24 + rest; ++e) {
    const bool rests = e >= 9 && e < 9 + rest;
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = busy % 4; vpn < 300 && !rests; vpn += 4) {
      const bool hot = vpn < 100 || (vpn < 200 && busy < 12);
      records.push_back(hot ? Hot(vpn) : Cold(vpn));
    }
    EpochProfile epoch = Epoch(e, records);
    epoch.targets = {{.id = TargetId(0), .cpu_time = seconds(rests ? 0 : 1)}};
    ranker.Absorb(epoch);
    busy += rests ? 0 : 1;
  }
  return ranker.Score(RankSource::kReferences);
}

TEST(TotalRanker, TakesNoRateForChangedWhileItsProgramRests) {
  const Scores busy = ScoresWithARest(0);
  const Scores with_rest = ScoresWithARest(6);
  ASSERT_EQ(busy.size(), with_rest.size());
  for (std::size_t i = 0; i < busy.size(); ++i) {
    EXPECT_NEAR(with_rest[i], busy[i], 1e-3 * busy[i]) << i;
  }
}

// The epochs of 200 s are added up in steps.
TEST(TotalRanker, TellsPhasesOfALongTraceApart) {
  const Scores scores = ScoresOfAShift(200, 1);
  EXPECT_NEAR(scores[50], 200'000, 20'000);
  EXPECT_NEAR(scores[150], 101'000, 10'000);
  EXPECT_NEAR(scores[250], 2'000, 500);
}

TEST(TotalRanker, PoolsAllEvidenceWhereRatesHold) {
  TotalRanker ranker(RankModel::kRate);
  for (std::uint64_t e = 0; e < 8; ++e) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = 0; vpn < 300; ++vpn) {
      records.push_back(vpn < 100 ? Hot(vpn) : Cold(vpn));
    }
    ranker.Absorb(Epoch(e, records));
  }
  std::vector<RateEvidence> pooled;
  for (const Evidence& evidence : ranker.table().evidence) {
    pooled.push_back({.first_accesses = evidence.first_accesses,
                      .seconds_at_risk = evidence.page_seconds_at_risk});
  }
  const RateEstimates rates = EstimateRates(pooled);
  const Estimates estimates = ranker.Estimate(RankSource::kReferences);
  for (std::size_t i = 0; i < 300; ++i) {
    EXPECT_NEAR(estimates.score[i], 8 * rates.accesses_per_second[i], 1e-6 * estimates.score[i]);
    EXPECT_NEAR(estimates.relative_sd[i], rates.relative_sd[i], 1e-6);
  }
}

// Both targets' pages show 1000 accesses a CPU second; target 1 has run for a second in all.
TEST(TotalRanker, CountsATargetsAccessesByItsCpuTimeWhileItIsListed) {
  TotalRanker ranker(RankModel::kRate);
  for (std::uint64_t e = 0; e < 4; ++e) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = 0; vpn < 100; ++vpn) records.push_back(Hot(vpn));
    PageRecord other = Hot(0);
    other.key = Key(1, 0);
    if (e < 2) records.push_back(other);
    EpochProfile epoch = Epoch(e, records);
    epoch.targets.push_back({.id = TargetId(0), .pid = Pid(1), .cpu_time = seconds(1)});
    if (e < 2) {
      epoch.targets.push_back({.id = TargetId(1), .pid = Pid(2), .cpu_time = milliseconds(500)});
    }
    ranker.Absorb(epoch);
  }
  const Scores scores = ranker.Score(RankSource::kReferences);
  EXPECT_NEAR(scores[0], 4'000, 400);
  EXPECT_NEAR(scores[100], 1'000, 100);
}

TEST(TotalRanker, ASourceWithoutEvidenceRanksNothing) {
  TotalRanker ranker(RankModel::kRate);
  EXPECT_TRUE(ranker.Score(RankSource::kCombined).empty());
  ranker.Absorb(Epoch(0, {Hot(1), Cold(2)}));
  ranker.Absorb(Epoch(1, {Hot(1), Cold(2)}));
  EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(0, 0));
  EXPECT_THAT(ranker.Score(RankSource::kTruth), ElementsAre(0, 0));
}

// A hot set of 1/16 of the pages with 90 % of the accesses, as in half_life_test.cc.
constexpr std::size_t kPages = 16384;

struct TotalAccuracy {
  simulation::Accuracy pooled;
  simulation::Accuracy total;
};

TotalAccuracy Simulate(const std::string& name, simulation::Rates (*rates_of)(std::size_t, double),
                       std::size_t blocks_per_epoch, int epochs, int shift_epochs) {
  const simulation::Rates first = rates_of(kPages, 27e6 / 8);
  simulation::Rates truth(kPages, 0.0);
  simulation::Rotation rotation(kPages);
  simulation::Observation pooled{.evidence = std::vector<RateEvidence>(kPages)};
  TotalRanker ranker(RankModel::kRate);
  for (int e = 0; e < epochs; ++e) {
    simulation::Rates rates = first;
    const int shifts = shift_epochs == 0 ? 0 : e / shift_epochs;
    std::rotate(rates.begin(), rates.begin() + shifts * 1777, rates.end());
    const simulation::Scenario scenario{
        .blocks = rotation.Next(blocks_per_epoch), .samples_per_second = 1000.0 / 8, .seconds = 1};
    const auto seen = simulation::Observe(rates, scenario, 100 + static_cast<unsigned>(e));
    for (std::size_t page = 0; page < kPages; ++page) {
      pooled.evidence[page].Add(seen.evidence[page]);
      truth[page] += rates[page];
    }
    ranker.Absorb(simulation::ToEpoch(seen, e));
  }
  const Scores scores = ranker.Score(RankSource::kCombined);
  std::vector<double> of_page(kPages, 0.0);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    of_page[ranker.table().key[i].vpn.value()] = scores[i];
  }
  const TotalAccuracy a{.pooled = simulation::Judge(truth, pooled, simulation::Combined(pooled)),
                        .total = simulation::Judge(truth, pooled, of_page)};
  std::printf("| %s | %.2f / %.2f | %.2f / %.2f |\n", name.c_str(), a.pooled.recall_sixteenth,
              a.pooled.coverage_eighth, a.total.recall_sixteenth, a.total.coverage_eighth);
  return a;
}

// The table of docs/design/whole-trace.md.
TEST(TotalRankerMonteCarlo, LosesNothingWhereRatesHold) {
  constexpr double kNoise = 0.01;
  for (const int epochs : {8, 32}) {
    for (const auto rates : {simulation::Hotset, simulation::Zipf}) {
      const TotalAccuracy a = Simulate((rates == simulation::Hotset ? "hotset, " : "zipf, ") +
                                           std::to_string(epochs) + " s, steady",
                                       rates, 6, epochs, 0);
      EXPECT_GE(a.total.recall_sixteenth, a.pooled.recall_sixteenth - kNoise);
      EXPECT_GE(a.total.coverage_eighth, a.pooled.coverage_eighth - kNoise);
    }
  }
}

TEST(TotalRankerMonteCarlo, FindsWhatShifts) {
  for (const std::size_t blocks : {6, 2}) {
    for (const int shift : {16, 10, 5}) {
      const TotalAccuracy a = Simulate("hotset, 32 s, visited in " + std::to_string(32 / blocks) +
                                           " s, shift each " + std::to_string(shift) + " s",
                                       simulation::Hotset, blocks, 32, shift);
      EXPECT_GE(a.total.recall_sixteenth, a.pooled.recall_sixteenth);
      EXPECT_GE(a.total.coverage_eighth, a.pooled.coverage_eighth + 0.2);
    }
  }
}

}  // namespace total_ranker_test
}  // namespace tmprof
