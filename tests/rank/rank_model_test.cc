// SPDX-License-Identifier: Apache-2.0

#include "rank/rank_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rank/source_view.h"
#include "tests/rank/profiles.h"

namespace tmprof {
namespace rank_model_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using testing::ElementsAre;

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
       {RankSource::kReferences, RankSource::kSamples, RankSource::kCombined, RankSource::kMemory,
        RankSource::kTruth, RankSource::kMisses, RankSource::kStall}) {
    EXPECT_EQ(ParseRankSource(Name(source)), source);
  }
  const auto refused = ParseRankSource("sample");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().ExitStatus(), 2);
  EXPECT_THAT(refused.error().Message(),
              testing::HasSubstr("references, samples, combined, memory, truth, misses"));
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

TEST(Memory, MemoryOfThisEpochForgetsTheOneBefore) {
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

TEST(Memory, KeepsWhatItKnowsWhenItIsConfiguredAnew) {
  Ranker ranker(Sum(Ranker::Memory::kHalfLife));
  ranker.Absorb(Epoch(0, {Counts(1, 8, 0)}));
  Ranker::Options slower = Sum(Ranker::Memory::kHalfLife);
  slower.half_life = std::chrono::seconds(2);
  ranker.Configure(slower);
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(8));
  ranker.Absorb(Epoch(2, {}));  // one half-life later
  EXPECT_THAT(ranker.Score(RankSource::kReferences), ElementsAre(4));
  ranker.Configure(Ranker::DefaultOptions(RankModel::kRate));
  ranker.Absorb(Epoch(3, {Counts(2, 1, 0)}));
  EXPECT_THAT(ranker.table().key, ElementsAre(Key(0, 1), Key(0, 2)));
}

TEST(Memory, WithAHalfLifeDropsWhatIsLongGone) {
  Ranker ranker(Sum(Ranker::Memory::kHalfLife));
  ranker.Absorb(Epoch(0, {Counts(1, 1, 0)}));
  ranker.Absorb(Epoch(30, {}));
  EXPECT_EQ(ranker.table().size(), 0u);
}

TEST(Truth, CountsAreExactAccessesAndNoSamples) {
  const EpochProfile epoch = Epoch(
      0,
      {{.key = Key(0, 1), .load_samples = 3, .accesses = AccessCounts{.loads = 30, .stores = 10}}});
  for (const Ranker::Options& options : {Sum(), Rate()}) {
    Ranker ranker(options);
    ranker.Absorb(epoch);
    EXPECT_THAT(ranker.Score(RankSource::kTruth), ElementsAre(40));
    EXPECT_THAT(ranker.Estimate(RankSource::kTruth).relative_sd, ElementsAre(0));
  }
  Ranker ranker(Sum());
  ranker.Absorb(epoch);
  EXPECT_THAT(ranker.Score(RankSource::kSamples), ElementsAre(3));
}

TEST(Misses, AreTheAccessesThatMissedTheModelledCache) {
  const EpochProfile epoch =
      Epoch(0, {{.key = Key(0, 1),
                 .load_samples = 3,
                 .accesses = AccessCounts{.loads = 30, .stores = 10, .llc_misses = 4}},
                {.key = Key(0, 2), .accesses = AccessCounts{.loads = 900, .llc_misses = 0}}});
  for (const Ranker::Options& options : {Sum(), Rate()}) {
    Ranker ranker(options);
    ranker.Absorb(epoch);
    EXPECT_THAT(ranker.Score(RankSource::kMisses), ElementsAre(4, 0));
    EXPECT_THAT(ranker.Estimate(RankSource::kMisses).relative_sd,
                ElementsAre(0, std::numeric_limits<double>::infinity()));
  }
  Scores scores;
  ScoreByCounts(epoch, RankSource::kMisses, scores);
  EXPECT_THAT(scores, ElementsAre(4, 0));
}

TEST(Misses, AreNoneWithoutAModelledCache) {
  const EpochProfile epoch =
      Epoch(0, {{.key = Key(0, 1), .accesses = AccessCounts{.loads = 30, .stores = 10}}});
  Ranker ranker(Sum());
  ranker.Absorb(epoch);
  EXPECT_THAT(ranker.Score(RankSource::kMisses), ElementsAre(0));
  Scores scores;
  ScoreByCounts(epoch, RankSource::kMisses, scores);
  EXPECT_THAT(scores, ElementsAre(0));
}

TEST(Stall, IsTheTimeForWhichAPagesAccessesWaited) {
  const EpochProfile epoch = Epoch(
      0,
      {{.key = Key(0, 1),
        .load_samples = 3,
        .accesses = AccessCounts{.loads = 30, .llc_misses = 4, .stall_ns = 25}},
       {.key = Key(0, 2), .accesses = AccessCounts{.loads = 9, .llc_misses = 2, .stall_ns = 200}},
       {.key = Key(0, 3), .accesses = AccessCounts{.stores = 9, .llc_misses = 9, .stall_ns = 0}}});
  for (const Ranker::Options& options : {Sum(), Rate()}) {
    Ranker ranker(options);
    ranker.Absorb(epoch);
    EXPECT_THAT(ranker.Score(RankSource::kStall), ElementsAre(25, 200, 0));
    EXPECT_THAT(ranker.Estimate(RankSource::kStall).relative_sd,
                ElementsAre(0, 0, std::numeric_limits<double>::infinity()));
  }
  Scores scores;
  ScoreByCounts(epoch, RankSource::kStall, scores);
  EXPECT_THAT(scores, ElementsAre(25, 200, 0));
}

TEST(Truth, IsOfItsOwnEpochWhateverTheHalfLife) {
  EpochProfile epoch = Epoch(
      0, {{.key = Key(0, 1),
           .accesses = AccessCounts{.loads = 30, .stores = 10, .llc_misses = 7, .stall_ns = 600}}});
  Ranker ranker(Sum(Ranker::Memory::kHalfLife));
  ranker.Absorb(epoch);
  epoch.start += seconds(1);
  epoch.end += seconds(1);
  ranker.Absorb(epoch);
  EXPECT_THAT(ranker.Score(RankSource::kTruth), ElementsAre(40));
  EXPECT_THAT(ranker.Score(RankSource::kMisses), ElementsAre(7));
  EXPECT_THAT(ranker.Score(RankSource::kStall), ElementsAre(600));
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

TEST(Rate, APageOfWhichNoTimeWasKeptIsNeitherHotNorColdBesideOthers) {
  std::vector<PageRecord> records;
  for (std::uint64_t vpn = 0; vpn < 128; ++vpn) {
    records.push_back(Visited(vpn, 1, vpn % 2 == 0 ? milliseconds(1) : milliseconds(100)));
  }
  records.push_back(Counts(1000, 9, 0));
  Ranker ranker(Rate());
  ranker.Absorb(Epoch(0, records));
  const Scores scores = ranker.Score(RankSource::kReferences);
  EXPECT_NEAR(scores.back() / ((scores[0] + scores[1]) / 2), 1, 0.1);
}

// 512 pages of 4 KiB, each accessed once in 100 ms, have the heat of a huge page that is accessed
// 512 times in 100 ms.
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
  EXPECT_EQ(Ranker::DefaultOptions(RankModel::kRate).memory, Ranker::Memory::kLearned);
}

}  // namespace rank_model_test
}  // namespace tmprof
