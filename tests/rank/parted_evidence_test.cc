// SPDX-License-Identifier: Apache-2.0
// Samples stay with their pages while the regions around them come and go.

#include "rank/parted_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "rank/rank_model.h"
#include "rank/total_ranker.h"
#include "tests/rank/profiles.h"

namespace tmprof {
namespace parted_evidence_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

// Page 2 with a reference and four samples; the region [0, 10) with 9 references, which covers it;
// and its halves, with 5 and 10.
const std::vector<std::vector<PageRecord>> kSampledJoinedAndSplit = {
    {Counts(2, 1, 4)}, {Counts(0, 9, 0, 10)}, {Counts(0, 5, 0, 5), Counts(5, 10, 0, 5)}};

TEST(PagesWithinRegions, KeepTheirSamplesInATotal) {
  TotalRanker ranker(RankModel::kSum);
  ranker.Absorb(Epoch(0, kSampledJoinedAndSplit[0]));
  ranker.Absorb(Epoch(1, kSampledJoinedAndSplit[1]));
  EXPECT_THAT(ranker.table().key, ElementsAre(Key(0, 0), Key(0, 2), Key(0, 3)));
  EXPECT_THAT(ranker.table().span_pages, ElementsAre(2, 1, 7));
  EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(0, 4, 0));
  // All ten of ten pages count: those with an accessed bit are the region's.
  EXPECT_THAT(ranker.Score(RankSource::kReferences), Pointwise(DoubleNear(1e-9), {2, 1, 7}));

  ranker.Absorb(Epoch(2, kSampledJoinedAndSplit[2]));
  EXPECT_THAT(ranker.table().key, ElementsAre(Key(0, 0), Key(0, 2), Key(0, 3), Key(0, 5)));
  EXPECT_THAT(ranker.table().span_pages, ElementsAre(2, 1, 2, 5));
  EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(0, 4, 0, 0));
  // Half of those ten, and five; the other half, and ten.
  EXPECT_THAT(ranker.Score(RankSource::kReferences), Pointwise(DoubleNear(1e-9), {4, 2, 4, 15}));
}

// An epoch is a half-life.
TEST(PagesWithinRegions, KeepTheirSamplesInARankingThatFades) {
  Ranker ranker(
      {.model = RankModel::kSum, .memory = Ranker::Memory::kHalfLife, .half_life = seconds(1)});
  ranker.Absorb(Epoch(0, kSampledJoinedAndSplit[0]));
  ranker.Absorb(Epoch(1, kSampledJoinedAndSplit[1]));
  EXPECT_THAT(ranker.table().span_pages, ElementsAre(2, 1, 7));
  EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(0, 2, 0));
  EXPECT_THAT(ranker.Score(RankSource::kReferences),
              Pointwise(DoubleNear(1e-9), {2 * 0.95, 0.95, 7 * 0.95}));

  ranker.Absorb(Epoch(2, kSampledJoinedAndSplit[2]));
  EXPECT_THAT(ranker.table().span_pages, ElementsAre(2, 1, 2, 5));
  EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(0, 1, 0, 0));
  // A quarter of 9.5 and five for five pages; a quarter and ten.
  EXPECT_THAT(ranker.Score(RankSource::kReferences),
              Pointwise(DoubleNear(1e-9), {2 * 1.475, 1.475, 2 * 1.475, 12.375}));
}

PageRecord Region(std::uint64_t vpn, std::uint64_t span, std::uint32_t first_accesses,
                  std::chrono::nanoseconds at_risk, std::uint32_t samples = 0) {
  PageRecord region = Visited(vpn, first_accesses, at_risk, samples);
  region.span = PageCount(span);
  return region;
}

// Ranks by rates. Two similar regions, each with a sampled page, are joined and split again. Either
// ranker then ranks the sampled pages before all others.
template <typename AnyRanker>
void ExpectSampledPagesFirst(AnyRanker ranker) {
  ranker.Absorb(Epoch(0, {Visited(2, 0, milliseconds(1), 3), Visited(7, 0, milliseconds(1), 3)}));
  ranker.Absorb(Epoch(1, {Region(0, 10, 20, milliseconds(20))}));
  ranker.Absorb(Epoch(2, {Region(0, 5, 20, milliseconds(40)), Region(5, 5, 20, milliseconds(40))}));
  EXPECT_THAT(ranker.table().key,
              ElementsAre(Key(0, 0), Key(0, 2), Key(0, 3), Key(0, 5), Key(0, 7), Key(0, 8)));
  const Scores scores = ranker.Score(RankSource::kCombined);
  const double sampled = std::min(scores[1], scores[4]);
  for (const std::size_t row : {0, 2, 3, 5}) EXPECT_GT(sampled, 1.2 * scores[row] / 2);
  const Scores by_bits = ranker.Score(RankSource::kReferences);
  for (const std::size_t row : {1, 4}) EXPECT_NEAR(by_bits[row], by_bits[row - 1] / 2, 1e-9);
}

TEST(PagesWithinRegions, AreRankedByTheirSamplesInATotal) {
  ExpectSampledPagesFirst(TotalRanker(RankModel::kRate));
}

TEST(PagesWithinRegions, AreRankedByTheirSamplesInARankingThatFades) {
  ExpectSampledPagesFirst(Ranker(Ranker::DefaultOptions(RankModel::kRate)));
}

// Whatever the bounds: a naive count of each page's samples is what each row must hold.
TEST(PagesWithinRegions, KeepTheirSamplesThroughAnySequenceOfBounds) {
  std::mt19937_64 random(1);
  TotalRanker ranker(RankModel::kSum);
  std::map<std::uint64_t, double> samples;
  double references = 0;
  bool told_apart = false;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    std::vector<PageRecord> records;
    for (std::uint64_t vpn = 0; vpn < 1200;) {
      const std::uint64_t span = random() % 3 == 0 ? 1 : 1 + random() % 700;
      if (random() % 4 != 0 && !(span > 1 && IsOneEntry(span))) {
        const auto sampled = static_cast<std::uint32_t>(span == 1 ? random() % 3 : 0);
        records.push_back(Counts(vpn, static_cast<std::uint32_t>(random() % 7), sampled, span));
        references += records.back().references;
        if (sampled > 0) samples[vpn] += sampled;
      }
      vpn += span;
    }
    ranker.Absorb(Epoch(epoch, records));
    const EvidenceTable& table = ranker.table();
    std::uint64_t end = 0;
    double all_references = 0;
    for (std::size_t row = 0; row < table.size(); ++row) {
      const std::uint64_t start = table.key[row].vpn.value();
      ASSERT_GE(start, end);
      end = start + table.span_pages[row];
      double expected = 0;
      for (auto at = samples.lower_bound(start); at != samples.end() && at->first < end; ++at) {
        expected += at->second;
      }
      ASSERT_NEAR(table.evidence[row].samples(), expected, 1e-9) << "epoch " << epoch;
      told_apart |= table.span_pages[row] == 1 && expected > 0;
      all_references += table.evidence[row].references;
    }
    ASSERT_NEAR(all_references, references, 1e-6);
  }
  EXPECT_TRUE(told_apart);
}

PartedEvidence Of(const std::vector<PageRecord>& records) {
  PartedEvidence evidence;
  evidence.Take(Epoch(0, records));
  return evidence;
}

TEST(PartedEvidence, AddsSpansThatItHasAsJoiningThemDoes) {
  std::vector<PageRecord> all;
  for (std::uint64_t vpn = 0; vpn < 100; ++vpn)
    all.push_back(Counts(1000 * vpn, 2, 1, vpn % 3 == 0 ? 512 : 1));
  const std::vector<PageRecord> some = {all[0], all[1], all[17], all[64], all[99]};
  PartedEvidence joined;
  joined.Join(Of(all), Keeps(), Of(some));
  PartedEvidence added = Of(all);
  ASSERT_TRUE(added.AddAlike(Of(some)));
  ASSERT_EQ(added.spans().key, joined.spans().key);
  for (std::size_t row = 0; row < added.spans().size(); ++row) {
    EXPECT_EQ(added.spans().evidence[row].references, joined.spans().evidence[row].references);
    EXPECT_EQ(added.spans().evidence[row].looks, joined.spans().evidence[row].looks);
    EXPECT_EQ(added.spans().evidence[row].load_samples, joined.spans().evidence[row].load_samples);
  }
}

TEST(PartedEvidence, AddsNothingIfASpanIsNewOrOfAnotherSize) {
  for (const PageRecord& other : {Counts(5, 1, 0), Counts(4, 1, 0, 2), Counts(900, 1, 0)}) {
    PartedEvidence evidence = Of({Counts(1, 2, 0), Counts(4, 3, 0)});
    EXPECT_FALSE(evidence.AddAlike(Of({Counts(1, 7, 0), other})));
    EXPECT_EQ(evidence.spans().evidence[0].references, 2);
    EXPECT_EQ(evidence.spans().evidence[1].references, 3);
  }
}

// The epoch builder makes this of a region of 20 pages with samples of pages 7 and 12.
TEST(PartedEvidence, PutsARegionTogetherThatWasCutForItsSamples) {
  const EpochProfile epoch =
      Epoch(0, {Region(0, 7, 4, milliseconds(2)), Region(7, 1, 0, milliseconds(2), 2),
                Region(8, 4, 2, milliseconds(2)), Region(12, 1, 1, milliseconds(2), 1),
                Region(13, 7, 4, milliseconds(2)), Region(20, 30, 4, milliseconds(2))});
  // The counts of looks that the builder copies.
  EpochProfile cut = epoch;
  std::ranges::fill(cut.pages.references, 11);
  PartedEvidence evidence;
  evidence.Take(cut);
  EXPECT_THAT(evidence.spans().span_pages, ElementsAre(20, 30));
  EXPECT_EQ(evidence.spans().evidence[0].first_accesses, 11);
  EXPECT_NEAR(evidence.spans().evidence[0].page_seconds_at_risk, 0.04, 0.04 * 0.022)
      << "times are of whole codes, up to 2.2 % off";
  EXPECT_EQ(evidence.spans().evidence[0].samples(), 0);
  EXPECT_THAT(evidence.pages().key, ElementsAre(Key(0, 7), Key(0, 12)));
  evidence.Part();
  EXPECT_THAT(evidence.table().span_pages, ElementsAre(7, 1, 4, 1, 7, 30));
}

TEST(PartedEvidence, LeavesSampledPagesAloneThatWereLookedAtThemselves) {
  PartedEvidence evidence;
  evidence.Take(Epoch(0, {Region(0, 7, 4, milliseconds(2)), Region(7, 1, 4, milliseconds(3), 2),
                          Region(8, 4, 4, milliseconds(2))}));
  EXPECT_THAT(evidence.spans().span_pages, ElementsAre(7, 1, 4));
  EXPECT_FALSE(evidence.is_parted());
}

// [0, 1000) around page 512: a part of 512 pages would be a huge page, and have one accessed bit.
TEST(PartedEvidence, NeverPartsARegionIntoHugePages) {
  PartedEvidence page;
  page.Take(Epoch(0, {Counts(512, 0, 1)}));
  PartedEvidence region;
  region.Take(Epoch(1, {Counts(0, 5, 0, 1000)}));
  PartedEvidence both;
  both.Join(page, Keeps(), region);
  both.Part();
  EXPECT_THAT(both.table().span_pages, ElementsAre(256, 256, 1, 487));
}

TEST(PartedEvidence, ThatOfAHugePageIsAllOfIt) {
  TotalRanker ranker(RankModel::kSum);
  ranker.Absorb(Epoch(0, {Counts(5, 0, 3)}));
  ranker.Absorb(Epoch(1, {Counts(0, 1, 0, 600)}));
  ranker.Absorb(Epoch(2, {Counts(0, 1, 0, 512)}));
  EXPECT_THAT(ranker.table().span_pages, ElementsAre(512, 88));
  EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(3, 0));
}

// One sample, and a region that is looked at in each half-life: after four a sixteenth is left,
// which is then its page's last.
TEST(PartedEvidence, GivesARegionTheSamplesThatAreNextToNothing) {
  Ranker ranker(
      {.model = RankModel::kSum, .memory = Ranker::Memory::kHalfLife, .half_life = seconds(1)});
  ranker.Absorb(Epoch(0, {Counts(5, 0, 1)}));
  for (std::uint64_t epoch = 1; epoch <= 4; ++epoch) {
    ranker.Absorb(Epoch(epoch, {Counts(0, 1, 0, 10)}));
    EXPECT_EQ(ranker.table().size(), 3u) << epoch;
  }
  ranker.Absorb(Epoch(5, {Counts(0, 1, 0, 10)}));
  EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(1.0 / 32));
}

// Programs' samples are drawn by their pages' rates. Regions are drawn anew in each epoch, and give
// their pages' mean rate as exactly as a count of some ten does.
struct Program {
  std::size_t hot;  // part of kPages with 90 % of the accesses
  bool scattered;
};
constexpr std::size_t kPages = 8192;
constexpr int kEpochs = 16;
constexpr std::size_t kSamplesPerEpoch = 300;

std::vector<double> RatesOf(const Program& program, std::mt19937_64& random) {
  std::vector<double> rates(kPages, 1e5 * 0.1 / static_cast<double>(kPages - program.hot));
  std::fill_n(rates.begin(), program.hot, 1e5 * 0.9 / static_cast<double>(program.hot));
  if (program.scattered) std::ranges::shuffle(rates, random);
  return rates;
}

struct Recall {
  double by_bits;
  double combined;
  double by_counts;  // sample counts, page by page: a naive second ranking
};

Recall RecallOf(const Program& program) {
  std::mt19937_64 random(7);
  const std::vector<double> rates = RatesOf(program, random);
  std::discrete_distribution<std::uint64_t> sampled(rates.begin(), rates.end());
  TotalRanker ranker(RankModel::kRate);
  std::vector<double> counts(kPages);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    std::vector<std::uint32_t> samples(kPages);
    for (std::size_t i = 0; i < kSamplesPerEpoch; ++i) ++samples[sampled(random)];
    std::vector<PageRecord> records;
    for (std::uint64_t start = 0; start < kPages;) {
      const std::uint64_t end = std::min<std::uint64_t>(kPages, start + 20 + random() % 80);
      const auto span = static_cast<double>(end - start);
      const double mean = std::accumulate(&rates[start], &rates[start] + (end - start), 0.0) / span;
      // Draws the time in which ten are due.
      const std::uint32_t seen = std::poisson_distribution<std::uint32_t>(10)(random);
      const auto at_risk =
          std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 * 10 / mean / span));
      // Parts it as the epoch builder does, except for the rounding of first accesses.
      for (std::uint64_t vpn = start; vpn < end;) {
        std::uint64_t stop = vpn + 1;
        if (samples[vpn] == 0) {
          while (stop < end && samples[stop] == 0) ++stop;
        }
        const auto share = [&](std::uint64_t at) { return seen * (at - start) / (end - start); };
        PageRecord part =
            Region(vpn, stop - vpn, static_cast<std::uint32_t>(share(stop) - share(vpn)), at_risk,
                   samples[vpn]);
        part.references = seen;
        records.push_back(part);
        vpn = stop;
      }
      start = end;
    }
    for (std::size_t i = 0; i < kPages; ++i) counts[i] += samples[i];
    ranker.Absorb(Epoch(static_cast<std::uint64_t>(epoch), records));
  }
  const auto recall = [&](const std::vector<double>& densities) {
    std::vector<std::size_t> order(kPages);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::mt19937_64 any(1);
    std::ranges::shuffle(order, any);
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return densities[i]; });
    const auto end = order.begin() + static_cast<std::ptrdiff_t>(program.hot);
    const double least = std::ranges::max(rates);
    return static_cast<double>(std::count_if(order.begin(), end,
                                             [&](std::size_t i) { return rates[i] == least; })) /
           static_cast<double>(program.hot);
  };
  const auto densities = [&](RankSource source) {
    const Scores scores = ranker.Score(source);
    std::vector<double> result(kPages);
    for (std::size_t row = 0; row < scores.size(); ++row) {
      const std::uint64_t first = ranker.table().key[row].vpn.value();
      const std::uint32_t pages = ranker.table().span_pages[row];
      std::fill_n(result.begin() + static_cast<std::ptrdiff_t>(first), pages, scores[row] / pages);
    }
    return result;
  };
  return {.by_bits = recall(densities(RankSource::kReferences)),
          .combined = recall(densities(RankSource::kCombined)),
          .by_counts = recall(counts)};
}

TEST(PagesWithinRegionsMonteCarlo, AreFoundWhereHeatIsScatteredAsWellAsBySamplesAlone) {
  const Recall recall = RecallOf({.hot = kPages / 8, .scattered = true});
  std::printf("scattered: bits %.2f, combined %.2f, counts %.2f\n", recall.by_bits, recall.combined,
              recall.by_counts);
  EXPECT_LT(recall.by_bits, 0.5);
  EXPECT_GT(recall.by_counts, 0.8);
  EXPECT_GT(recall.combined, recall.by_counts - 0.02);
}

TEST(PagesWithinRegionsMonteCarlo, CostNothingWhereHeatLiesTogether) {
  const Recall recall = RecallOf({.hot = kPages / 8, .scattered = false});
  std::printf("together: bits %.2f, combined %.2f, counts %.2f\n", recall.by_bits, recall.combined,
              recall.by_counts);
  EXPECT_GT(recall.combined, recall.by_bits - 0.02);
  EXPECT_GT(recall.combined, recall.by_counts);
}

}  // namespace parted_evidence_test
}  // namespace tmprof
