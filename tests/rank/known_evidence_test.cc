// SPDX-License-Identifier: Apache-2.0

#include "rank/known_evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tmprof {
namespace known_evidence_test {

using testing::AllOf;
using testing::HasSubstr;

EpochProfile EpochWith(std::optional<AccessCounts> accesses) {
  EpochProfile epoch;
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .accesses = accesses});
  return epoch;
}

Status RequireMisses(const std::vector<EpochProfile>& epochs) {
  KnownEvidence known;
  for (const EpochProfile& epoch : epochs) known.Look(epoch);
  for (const RankSource other :
       {RankSource::kReferences, RankSource::kSamples, RankSource::kCombined, RankSource::kTruth}) {
    EXPECT_TRUE(known.Require(other, "rank", "x").has_value());
  }
  return known.Require(RankSource::kMisses, "rank by misses", "x");
}

const EpochProfile kModelled = EpochWith(AccessCounts{.loads = 1, .llc_misses = 0});
const EpochProfile kUnmodelled = EpochWith(AccessCounts{.loads = 1});
const EpochProfile kUncounted = EpochWith(std::nullopt);
const EpochProfile kIdle = EpochWith(AccessCounts{});

TEST(KnownEvidence, RefusesMissesOfAccessesWithoutAModel) {
  const Status status = RequireMisses({kModelled, kUnmodelled, kUncounted});
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().Message(),
              HasSubstr("1 of its 3 epochs counted accesses without a model of a cache"));
  EXPECT_THAT(status.error().Message(), HasSubstr("--exact-llc"));
  EXPECT_THAT(status.error().Message(), HasSubstr("--tiersim"));
}

TEST(KnownEvidence, RefusesMissesWhereNobodyCounted) {
  const Status status = RequireMisses({kUncounted});
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().Message(), HasSubstr("none of its epochs counted misses"));
}

TEST(KnownEvidence, TakesMissesWhereAllAccessesHaveThem) {
  EXPECT_TRUE(RequireMisses({kModelled, kUncounted, kIdle}).has_value());
  EXPECT_TRUE(RequireMisses({}).has_value());
}

// Bits of one page, and samples of that subject.
EpochProfile EpochSampled(SampleSubject subject, std::uint32_t looks, std::uint32_t samples) {
  EpochProfile epoch;
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)}, .looks = looks, .load_samples = samples});
  epoch.sources.push_back({.name = "sampler",
                           .role = SourceRole::kSamples,
                           .state = SourceState::kActive,
                           .samples_of = subject,
                           .observations = samples});
  return epoch;
}

std::string RefusalOfMemory(const EpochProfile& epoch) {
  KnownEvidence known;
  known.Look(epoch);
  const Status status = known.Require(RankSource::kMemory, "rank by memory", "x");
  return status ? "" : status.error().Message();
}

TEST(KnownEvidence, TakesMemoryWhereBitsAndItsAccessesAreKnown) {
  EXPECT_EQ(RefusalOfMemory(EpochSampled(SampleSubject::kMemory, 1, 1)), "");
  EXPECT_THAT(RefusalOfMemory(EpochSampled(SampleSubject::kMemory, 0, 1)),
              HasSubstr("no accessed bit"));
  EXPECT_THAT(RefusalOfMemory(EpochSampled(SampleSubject::kMemory, 1, 0)),
              HasSubstr("no access to memory"));
  EpochProfile of_time = EpochSampled(SampleSubject::kTime, 1, 1);
  EXPECT_THAT(RefusalOfMemory(of_time), HasSubstr("where time was spent"));
  of_time.sources.front().observations.reset();
  EXPECT_THAT(RefusalOfMemory(of_time), HasSubstr("where time was spent")) << "unknown is not none";
}

TEST(KnownEvidence, TakesMemoryByAModelOfTheCacheWhereBitsAreKnown) {
  const EpochProfile of_time = EpochSampled(SampleSubject::kTime, 1, 100);
  KnownEvidence modelled(/*models_cache=*/true);
  modelled.Look(of_time);
  EXPECT_TRUE(modelled.Require(RankSource::kMemory, "rank by memory", "x").has_value());
  EXPECT_TRUE(modelled.TellsMemory(RankModel::kRate));
  EXPECT_FALSE(modelled.TellsMemory(RankModel::kSum));
  EXPECT_FALSE(modelled.SamplesTellMemory());
  EXPECT_EQ(modelled.BasisFor(RankWeight::kMemory, RankModel::kRate, RankUse::kPlace).source,
            RankSource::kMemory);
  KnownEvidence sampled(/*models_cache=*/true);
  sampled.Look(EpochSampled(SampleSubject::kMemory, 1, 30));
  EXPECT_TRUE(sampled.SamplesTellMemory());
  KnownEvidence blind(/*models_cache=*/true);
  blind.Look(EpochSampled(SampleSubject::kMemory, 0, 29));
  EXPECT_FALSE(blind.TellsMemory(RankModel::kRate));
  EXPECT_FALSE(blind.Require(RankSource::kMemory, "rank by memory", "x").has_value());
}

RankSource BestOf(const std::vector<EpochProfile>& epochs) {
  KnownEvidence known;
  for (const EpochProfile& epoch : epochs) known.Look(epoch);
  return known.Best();
}

EpochProfile EpochOf(std::uint32_t looks, std::uint32_t stores,
                     std::optional<AccessCounts> accesses) {
  EpochProfile epoch;
  Append(epoch.pages, {.key = {TargetId(0), Vpn(1)},
                       .looks = looks,
                       .store_samples = stores,
                       .accesses = accesses});
  return epoch;
}

TEST(KnownEvidence, GoesByTheBestThatTheEpochsHave) {
  const EpochProfile bits = EpochOf(3, 0, std::nullopt);
  const EpochProfile samples = EpochOf(0, 1, std::nullopt);
  const EpochProfile exact = EpochOf(0, 0, AccessCounts{.loads = 7});
  const EpochProfile all = EpochOf(3, 1, AccessCounts{.loads = 7});
  EXPECT_EQ(BestOf({}), RankSource::kCombined);
  EXPECT_EQ(BestOf({bits}), RankSource::kReferences);
  EXPECT_EQ(BestOf({samples, {}}), RankSource::kSamples);
  EXPECT_EQ(BestOf({bits, samples}), RankSource::kCombined);
  EXPECT_EQ(BestOf({exact, {}}), RankSource::kTruth);
  EXPECT_EQ(BestOf({exact, kUncounted}), RankSource::kTruth);
  EXPECT_EQ(BestOf({all, exact}), RankSource::kTruth);
  EXPECT_EQ(BestOf({all, bits}), RankSource::kCombined) << "an epoch has no exact accesses";
}

Result<RankBasis> Chosen(const KnownEvidence& known, const RankChoice& asked,
                         RankModel model = RankModel::kRate) {
  return known.Choose(asked, model, RankUse::kShow, "list hot pages", "t.data");
}

TEST(KnownEvidence, ARefusalNamesTheEvidenceThatWasAskedFor) {
  KnownEvidence known;
  known.Look(EpochOf(3, 0, std::nullopt));
  EXPECT_EQ(Chosen(known, {})->source, RankSource::kReferences);
  const auto refused = Chosen(known, {.evidence = RankSource::kMemory});
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().Message(), HasSubstr("list hot pages by memory"));
}

TEST(KnownEvidence, AWeightThatIsNotToldGivesWayToAllAccessesAndSaysWhy) {
  KnownEvidence known;
  known.Look(EpochSampled(SampleSubject::kTime, 1, 100));
  const auto basis = Chosen(known, {.weight = RankWeight::kMemory});
  EXPECT_EQ(basis->source, RankSource::kCombined);
  EXPECT_EQ(basis->weight, RankWeight::kAccesses);
  EXPECT_THAT(basis->why_not, HasSubstr("where time was spent"));
  KnownEvidence few;
  few.Look(EpochSampled(SampleSubject::kMemory, 1, 29));
  EXPECT_THAT(Chosen(few, {})->why_not, HasSubstr("fewer than 30 samples"));
  EXPECT_EQ(Chosen(few, {}, RankModel::kSum)->why_not, "rank model sum estimates no rates");
  EXPECT_EQ(Chosen(few, {.weight = RankWeight::kAccesses})->why_not, "") << "as asked for";
}

TEST(KnownEvidence, EachWeightGoesByTheEvidenceThatTellsIt) {
  KnownEvidence known;
  EpochProfile joined = EpochSampled(SampleSubject::kMemory, 1, 30);
  joined.pages = EpochOf(3, 30, AccessCounts{.loads = 7, .llc_misses = 2}).pages;
  known.Look(joined);
  EXPECT_EQ(TextOf(*Chosen(known, {})), "memory (misses)");
  EXPECT_EQ(TextOf(*Chosen(known, {.weight = RankWeight::kAccesses})), "accesses (truth)");
  EXPECT_EQ(TextOf(*Chosen(known, {.weight = RankWeight::kReferences})), "references");
  EXPECT_EQ(TextOf(*Chosen(known, {.evidence = RankSource::kMemory})), "memory");
  const auto stall = Chosen(known, {.weight = RankWeight::kStall});
  ASSERT_FALSE(stall);
  EXPECT_EQ(stall.error().ExitStatus(), 2);
  EXPECT_THAT(stall.error().Message(),
              AllOf(HasSubstr("list hot pages by stall"), HasSubstr("unknown, not 0"),
                    HasSubstr("--exact-stalls")));
}

TEST(KnownEvidence, StallsAreToldIfAllCountedAccessesHaveThem) {
  const EpochProfile waited = EpochWith(AccessCounts{.loads = 1, .llc_misses = 1, .stall_ns = 100});
  KnownEvidence known;
  known.Look(waited);
  known.Look(kUncounted);
  known.Look(kIdle);
  EXPECT_EQ(TextOf(*Chosen(known, {.weight = RankWeight::kStall})), "stall");
  EXPECT_EQ(TextOf(*Chosen(known, {.evidence = RankSource::kStall})), "stall");
  EXPECT_NE(Chosen(known, {})->weight, RankWeight::kStall) << "they are no default";
  known.Look(kModelled);
  const auto some = Chosen(known, {.weight = RankWeight::kStall});
  ASSERT_FALSE(some);
  EXPECT_THAT(some.error().Message(), HasSubstr("1 of its 4 epochs counted accesses without"));
}

TEST(KnownEvidence, RefusesStallsWhereSamplesOfTimeAreAllThereIs) {
  KnownEvidence time;
  time.Look(EpochSampled(SampleSubject::kTime, 1, 3'000));
  EXPECT_THAT(Chosen(time, {.weight = RankWeight::kStall}).error().Message(),
              HasSubstr("samples of time also fall where a program executes"));
  KnownEvidence misses;
  misses.Look(EpochSampled(SampleSubject::kMemory, 1, 3'000));
  EXPECT_THAT(Chosen(misses, {.weight = RankWeight::kStall}).error().Message(),
              HasSubstr("none of its epochs tells how long"));
}

TEST(KnownEvidence, SamplesOfMissesAloneAreOfMemory) {
  KnownEvidence misses;
  misses.Look(EpochSampled(SampleSubject::kMemory, 0, 3));
  EXPECT_EQ(TextOf(*Chosen(misses, {})), "memory (samples)");
  EXPECT_EQ(TextOf(*Chosen(misses, {.evidence = RankSource::kSamples})), "memory (samples)")
      << "the same scores count the same";
  KnownEvidence time;
  time.Look(EpochSampled(SampleSubject::kTime, 0, 3));
  EXPECT_EQ(TextOf(*Chosen(time, {})), "accesses (samples)");
  EXPECT_EQ(TextOf(*Chosen(time, {.evidence = RankSource::kSamples})), "accesses (samples)");
}

// Two epochs: the first looks at page 1 alone, in the second it has so many samples and page 2 has
// 100. A ranker of all of it is the daemon's.
TEST(KnownEvidence, SamplesOfPagesThatWereLookedAtTellMemoryInEachProgram) {
  for (const std::uint32_t samples : {29u, 30u}) {
    EpochProfile looked = EpochSampled(SampleSubject::kMemory, 1, 0);
    EpochProfile sampled = EpochSampled(SampleSubject::kMemory, 0, samples);
    Append(sampled.pages, {.key = {TargetId(0), Vpn(2)}, .load_samples = 100});
    KnownEvidence known;
    Ranker ranker({.model = RankModel::kRate,
                   .memory = Ranker::Memory::kHalfLife,
                   .half_life = std::chrono::hours(1'000'000)});
    std::uint64_t index = 0;
    for (EpochProfile* epoch : {&looked, &sampled}) {
      epoch->index = index;
      epoch->start = MonotonicTime(std::chrono::seconds(index));
      epoch->end = MonotonicTime(std::chrono::seconds(++index));
      epoch->sources.front().accesses_per_sample = 1'000;
      known.Look(*epoch);
      ranker.Absorb(*epoch);
    }
    EXPECT_EQ(known.SamplesTellMemory(), samples == 30);
    EXPECT_EQ(known.TellsMemory(RankModel::kRate), samples == 30);
    EXPECT_EQ(Chosen(known, {})->source,
              samples == 30 ? RankSource::kMemory : RankSource::kCombined);
    EXPECT_EQ(ranker.TellsMemory(), samples == 30);
  }
}

// Returns the sources to rank by, and to judge by.
std::pair<RankSource, RankSource> BestForPlacementOf(const EpochProfile& epoch,
                                                     RankModel model = RankModel::kRate) {
  KnownEvidence known;
  known.Look(epoch);
  return {known.BasisFor(RankWeight::kMemory, model, RankUse::kPlace).source,
          known.BasisFor(RankWeight::kMemory, model, RankUse::kShow).source};
}

std::pair<RankSource, RankSource> Both(RankSource source) { return {source, source}; }

TEST(KnownEvidence, PlacementGoesByMemoryWhereEnoughOfItsAccessesWereSampled) {
  EXPECT_EQ(BestForPlacementOf(EpochSampled(SampleSubject::kMemory, 1, 30)),
            Both(RankSource::kMemory));
  EXPECT_EQ(BestForPlacementOf(EpochSampled(SampleSubject::kMemory, 1, 29)),
            Both(RankSource::kCombined));
  EXPECT_EQ(BestForPlacementOf(EpochSampled(SampleSubject::kTime, 1, 30)),
            Both(RankSource::kCombined));
  EXPECT_EQ(BestForPlacementOf(EpochSampled(SampleSubject::kMemory, 0, 30)),
            Both(RankSource::kSamples));
  EXPECT_EQ(BestForPlacementOf(EpochSampled(SampleSubject::kMemory, 1, 30), RankModel::kSum),
            Both(RankSource::kCombined));
  EXPECT_EQ(BestForPlacementOf(EpochOf(3, 30, AccessCounts{.loads = 7})),
            Both(RankSource::kMemory));
  EXPECT_EQ(BestForPlacementOf(EpochOf(3, 0, AccessCounts{.loads = 7})), Both(RankSource::kTruth));
  EpochProfile joined = EpochSampled(SampleSubject::kMemory, 1, 30);
  joined.pages = EpochOf(3, 30, AccessCounts{.loads = 7, .llc_misses = 2}).pages;
  EXPECT_EQ(BestForPlacementOf(joined), std::pair(RankSource::kMemory, RankSource::kMisses));
  EXPECT_EQ(BestForPlacementOf(EpochOf(0, 0, AccessCounts{.loads = 7, .llc_misses = 2})),
            Both(RankSource::kMisses));
  EpochProfile off = EpochSampled(SampleSubject::kMemory, 1, 30);
  off.sources.front().state = SourceState::kGated;
  EXPECT_EQ(BestForPlacementOf(off), Both(RankSource::kCombined)) << "who sampled these?";
  EXPECT_THAT(RefusalOfMemory(off), HasSubstr("no sampler was on"));
}

}  // namespace known_evidence_test
}  // namespace tmprof
