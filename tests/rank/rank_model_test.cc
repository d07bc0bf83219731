// SPDX-License-Identifier: Apache-2.0

#include "rank/rank_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace tmprof {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;

// Epoch `index` is the second [index, index + 1).
EpochProfile Epoch(std::uint64_t index, const std::vector<PageRecord>& records) {
  EpochProfile epoch;
  epoch.index = index;
  epoch.start = MonotonicTime(seconds(index));
  epoch.end = MonotonicTime(seconds(index + 1));
  for (const PageRecord& record : records) Append(epoch.pages, record);
  return epoch;
}

PageKey Key(std::uint32_t target, std::uint64_t vpn) { return {TargetId(target), Vpn(vpn)}; }

PageRecord Counts(std::uint64_t vpn, std::uint32_t references, std::uint32_t samples,
                  std::uint64_t span = 1) {
  return {.key = Key(0, vpn),
          .span = PageCount(span),
          .looks = 100,
          .references = references,
          .load_samples = samples};
}

PageRecord Visited(std::uint64_t vpn, std::uint32_t first_accesses, nanoseconds at_risk,
                   std::uint32_t samples = 0) {
  return {.key = Key(0, vpn),
          .looks = 100,
          .references = first_accesses,
          .first_accesses = first_accesses,
          .time_at_risk = LogDuration::FromNanoseconds(at_risk),
          .load_samples = samples};
}

Ranker::Options Sum(Ranker::Memory memory = Ranker::Memory::kThisEpoch) {
  return {.model = RankModel::kSum, .memory = memory, .half_life = seconds(1)};
}
Ranker::Options Rate(Ranker::Memory memory = Ranker::Memory::kThisEpoch) {
  return {.model = RankModel::kRate, .memory = memory, .half_life = seconds(1)};
}

TEST(RankNames, RoundTripAndRefuseOthersByNamingTheChoices) {
  for (const RankModel model : {RankModel::kSum, RankModel::kRate}) {
    EXPECT_EQ(ParseRankModel(Name(model)), model);
  }
  for (const RankSource source :
       {RankSource::kReferences, RankSource::kSamples, RankSource::kCombined, RankSource::kTruth}) {
    EXPECT_EQ(ParseRankSource(Name(source)), source);
  }
  const auto refused = ParseRankSource("sample");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().ExitStatus(), 2);
  EXPECT_THAT(refused.error().Message(),
              testing::HasSubstr("references, samples, combined, truth"));
}

TEST(Sum, AddsReferencesAndSamples) {
  Ranker ranker(Sum());
  ranker.Absorb(Epoch(0, {Counts(1, 3, 2), Counts(5, 0, 7)}));
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(3, 0));
  EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(2, 7));
  EXPECT_THAT(ranker.Score(RankSource::kCombined), ElementsAre(5, 7));
  EXPECT_THAT(ranker.Score(RankSource::kTruth), ElementsAre(0, 0));
}

TEST(Sum, UncertaintyIsPoissonAndInfiniteWithoutCounts) {
  Ranker ranker(Sum());
  ranker.Absorb(Epoch(0, {Counts(1, 4, 0), Counts(5, 0, 7)}));
  EXPECT_THAT(ranker.Estimate(RankSource::kReferences).relative_sd,
              ElementsAre(0.5, std::numeric_limits<double>::infinity()));
}

TEST(Memory, OfThisEpochForgetsTheOneBefore) {
  Ranker ranker(Sum());
  ranker.Absorb(Epoch(0, {Counts(1, 3, 2)}));
  ranker.Absorb(Epoch(1, {Counts(2, 1, 0)}));
  EXPECT_THAT(ranker.table().key, ElementsAre(Key(0, 2)));
}

TEST(Memory, WithAHalfLifeHalvesEvidencePerHalfLife) {
  Ranker ranker(Sum(Ranker::Memory::kHalfLife));
  ranker.Absorb(Epoch(0, {Counts(1, 8, 0), Counts(2, 4, 0)}));
  ranker.Absorb(Epoch(2, {Counts(2, 1, 0), Counts(3, 2, 0)}));  // two half-lives later
  EXPECT_THAT(ranker.table().key, ElementsAre(Key(0, 1), Key(0, 2), Key(0, 3)));
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(2, 1 + 1, 2));
}

TEST(Memory, WithAHalfLifeDropsWhatIsLongGone) {
  Ranker ranker(Sum(Ranker::Memory::kHalfLife));
  ranker.Absorb(Epoch(0, {Counts(1, 1, 0)}));
  ranker.Absorb(Epoch(30, {}));
  EXPECT_EQ(ranker.table().size(), 0u);
}

TEST(Memory, OfEverythingSumsAndForgetStartsAgain) {
  Ranker ranker(Sum(Ranker::Memory::kEverything));
  ranker.Absorb(Epoch(0, {Counts(1, 3, 0)}));
  ranker.Absorb(Epoch(9, {Counts(1, 4, 1)}));
  EXPECT_THAT(ranker.Score(RankSource::kCombined), ElementsAre(8));
  ranker.Forget();
  EXPECT_EQ(ranker.table().size(), 0u);
  ranker.Absorb(Epoch(10, {Counts(1, 1, 0)}));
  EXPECT_THAT(ranker.Score(RankSource::kCombined), ElementsAre(1));
}

// A span of 8 pages with 16 references splits: pages 2 and 5 come back as records of their own.
// They take 2 references each, and what lies between and around stays as spans of 2, 2 and 2 pages.
TEST(Spans, ThatSplitHandTheirEvidenceToTheirPages) {
  Ranker ranker(Sum(Ranker::Memory::kEverything));
  ranker.Absorb(Epoch(0, {Counts(16, 16, 0, 8)}));
  ranker.Absorb(Epoch(1, {Counts(18, 1, 0), Counts(21, 0, 0)}));
  EXPECT_THAT(ranker.table().key,
              ElementsAre(Key(0, 16), Key(0, 18), Key(0, 19), Key(0, 21), Key(0, 22)));
  EXPECT_THAT(ranker.table().span_pages, ElementsAre(2, 1, 2, 1, 2));
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(4, 2 + 1, 4, 2, 4));
}

// Pages 15, 16, 18 and 23 become a span [16, 24): it takes those inside, and 15 stays alone.
TEST(Spans, ThatCollapseTakeTheEvidenceOfTheirPages) {
  Ranker ranker(Sum(Ranker::Memory::kEverything));
  ranker.Absorb(Epoch(0, {Counts(15, 1, 0), Counts(16, 2, 0), Counts(18, 3, 0), Counts(23, 4, 0),
                          Counts(24, 5, 0)}));
  ranker.Absorb(Epoch(1, {Counts(16, 1, 0, 8)}));
  EXPECT_THAT(ranker.table().key, ElementsAre(Key(0, 15), Key(0, 16), Key(0, 24)));
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(1, 1 + 2 + 3 + 4, 5));
}

// A span [0, 8) with 8 references met by one of [4, 12): half of it moves over.
TEST(Spans, ThatOverlapInPartShareByPages) {
  Ranker ranker(Sum(Ranker::Memory::kEverything));
  ranker.Absorb(Epoch(0, {Counts(0, 8, 0, 8)}));
  ranker.Absorb(Epoch(1, {Counts(4, 1, 0, 8)}));
  EXPECT_THAT(ranker.table().span_pages, ElementsAre(4, 8));
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(4, 4 + 1));
}

TEST(Spans, OfDifferentTargetsNeverMix) {
  Ranker ranker(Sum(Ranker::Memory::kEverything));
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
  Ranker ranker(Sum(Ranker::Memory::kEverything));
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

TEST(Truth, CountsAreExactAccessesAndNoSamples) {
  EpochProfile epoch = Epoch(0, {Counts(1, 0, 40)});
  epoch.sources.push_back(
      {.name = "exact", .role = SourceRole::kTruth, .state = SourceState::kActive});
  for (const Ranker::Options& options : {Sum(), Rate()}) {
    Ranker ranker(options);
    ranker.Absorb(epoch);
    EXPECT_THAT(ranker.Score(RankSource::kTruth), ElementsAre(40));
    EXPECT_THAT(ranker.Estimate(RankSource::kTruth).relative_sd, ElementsAre(0));
    EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(0));
  }
}

TEST(Truth, IsOfItsOwnEpochWhateverTheHalfLife) {
  EpochProfile epoch = Epoch(0, {Counts(1, 0, 40)});
  epoch.sources.push_back(
      {.name = "exact", .role = SourceRole::kTruth, .state = SourceState::kActive});
  Ranker ranker(Sum(Ranker::Memory::kHalfLife));
  ranker.Absorb(epoch);
  epoch.start += seconds(1);
  epoch.end += seconds(1);
  ranker.Absorb(epoch);
  EXPECT_THAT(ranker.Score(RankSource::kTruth), ElementsAre(40));
}

std::vector<PageRecord> FastAndSlow() {
  std::vector<PageRecord> records;
  for (std::uint64_t vpn = 0; vpn < 200; ++vpn) {
    records.push_back(Visited(vpn, 3, vpn % 4 == 0 ? milliseconds(3) : milliseconds(300)));
  }
  return records;
}

// 3 first accesses in 3 ms against 300 ms of CPU time: 1000 and 10 accesses per CPU second.
TEST(Rate, ScoresAreAccessesWithinTheTargetsCpuTime) {
  EpochProfile epoch = Epoch(0, FastAndSlow());
  epoch.targets.push_back({.id = TargetId(0), .pid = Pid(1), .cpu_time = milliseconds(500)});
  Ranker ranker(Rate());
  ranker.Absorb(epoch);
  const Scores half = ranker.Score(RankSource::kReferences);
  EXPECT_NEAR(half[0], 500, 200);
  EXPECT_NEAR(half[1], 5, 2);
  epoch.targets[0].cpu_time.reset();  // unknown: the epoch's second counts
  Ranker other(Rate());
  other.Absorb(epoch);
  EXPECT_DOUBLE_EQ(other.Score(RankSource::kReferences)[0], 2 * half[0]);
}

TEST(Rate, ATargetThatLeftScoresNothing) {
  EpochProfile epoch = Epoch(0, FastAndSlow());
  epoch.targets.push_back({.id = TargetId(0), .pid = Pid(1)});
  Ranker ranker(Rate(Ranker::Memory::kHalfLife));
  ranker.Absorb(epoch);
  EpochProfile later = Epoch(1, {});
  ranker.Absorb(later);
  ASSERT_EQ(ranker.table().size(), 200u);
  EXPECT_EQ(ranker.Score(RankSource::kCombined)[0], 0);
}

TEST(Rate, ARowThatASourceDidNotMakeIsNoCandidateOfIt) {
  Ranker ranker(Rate());
  ranker.Absorb(Epoch(0, {Visited(1, 1, milliseconds(1)), {.key = Key(0, 2), .load_samples = 3}}));
  const Scores references = ranker.Score(RankSource::kReferences);
  const Scores samples = ranker.Score(RankSource::kSamples);
  const Scores combined = ranker.Score(RankSource::kCombined);
  EXPECT_GT(references[0], 0);
  EXPECT_EQ(references[1], 0);
  EXPECT_EQ(samples[0], 0);
  EXPECT_GT(samples[1], 0);
  EXPECT_GT(combined[0], 0);
  EXPECT_GT(combined[1], 0);
  EXPECT_TRUE(std::isinf(ranker.Estimate(RankSource::kSamples).relative_sd[0]));
}

TEST(Rate, SamplesOfAGatedSamplersTimeAreWeighedByTheTimeItWasOn) {
  // The same samples in a tenth of the time are ten times the rate.
  std::vector<PageRecord> records;
  for (std::uint64_t vpn = 0; vpn < 100; ++vpn) {
    records.push_back({.key = Key(0, vpn), .load_samples = 20});
  }
  EpochProfile epoch = Epoch(0, records);
  epoch.sources.push_back({.name = "clock",
                           .role = SourceRole::kSamples,
                           .state = SourceState::kActive,
                           .duty_cycle = 1.0});
  Ranker ranker(Rate());
  ranker.Absorb(epoch);
  const double always = ranker.Score(RankSource::kSamples)[0];
  epoch.sources[0].duty_cycle = 0.1;
  ranker.Absorb(epoch);
  EXPECT_NEAR(ranker.Score(RankSource::kSamples)[0] / always, 10, 3);  // half an octave of the grid
}

TEST(Rate, WithoutACpuClockReferencesPerLookRank) {
  Ranker ranker(Rate());
  ranker.Absorb(Epoch(0, {Counts(1, 1, 0), Counts(2, 9, 0), Counts(3, 4, 0)}));
  const Scores scores = ranker.Score(RankSource::kReferences);
  EXPECT_LT(scores[0], scores[2]);
  EXPECT_LT(scores[2], scores[1]);
}

// 512 pages at 4 KiB, each accessed once in 100 ms, and a huge page accessed 512 times in 100 ms
// each hold as much heat.
TEST(Rate, AHugePageCountsAsManyPages) {
  std::vector<PageRecord> records;
  for (std::uint64_t vpn = 0; vpn < 512; ++vpn) {
    records.push_back(Visited(vpn, 10, milliseconds(1000)));
  }
  PageRecord huge = Visited(1024, 5120, milliseconds(1000));
  huge.span = PageCount(512);
  huge.looks = 5120;
  records.push_back(huge);
  Ranker ranker(Rate());
  ranker.Absorb(Epoch(0, records));
  const Scores scores = ranker.Score(RankSource::kReferences);
  EXPECT_NEAR(scores.back() / 512 / scores[0], 1, 0.2);
}

TEST(Rate, AnEmptyProfileScoresNothing) {
  Ranker ranker(Rate());
  ranker.Absorb(Epoch(0, {}));
  EXPECT_TRUE(ranker.Score(RankSource::kCombined).empty());
}

TEST(DefaultOptions, RememberForTheRateModelOnly) {
  EXPECT_EQ(Ranker::DefaultOptions(RankModel::kSum).memory, Ranker::Memory::kThisEpoch);
  EXPECT_EQ(Ranker::DefaultOptions(RankModel::kRate).memory, Ranker::Memory::kHalfLife);
}

TEST(RankerMemory, OfEverythingKeepsOneSampleOfAGiantSpan) {
  Ranker ranker(Sum(Ranker::Memory::kEverything));
  PageRecord giant = Counts(0, 0, 1, 262'144);
  giant.looks = 0;
  ranker.Absorb(Epoch(0, {giant}));
  ranker.Absorb(Epoch(1, {}));
  ASSERT_EQ(ranker.table().size(), 1u);
  EXPECT_EQ(ranker.Score(RankSource::kSamples), Scores{1});
}

}  // namespace
}  // namespace tmprof
