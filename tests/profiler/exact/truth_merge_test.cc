// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "profiler/sources/exact/truth_assembler.h"
#include "tests/profiler/exact/truth_epoch.h"

namespace tmprof::exact {
namespace truth_merge_test {

using testing::ElementsAre;

EpochProfile Recorded() {
  EpochProfile epoch{.start = At(0), .end = At(100)};
  epoch.targets = {{.id = TargetId(0), .pid = Pid(1), .start_time_ticks = 5},
                   {.id = TargetId(1), .pid = Pid(42), .start_time_ticks = 5}};
  Append(epoch.pages,
         {.key = {TargetId(1), Vpn(512)}, .span = PageCount(512), .looks = 4, .references = 2});
  Append(epoch.pages, {.key = {TargetId(1), Vpn(2000)}, .load_samples = 3});
  return epoch;
}

TEST(AddTruth, JoinsSpansAndAddsPagesThatNobodySaw) {
  TruthAssembler assembler(kTiersimSource);
  TruthEpoch counted = Epoch(0, 10, 20, 42, 600, 10);
  for (const std::uint64_t vpn : {3, 700, 1024, 2000})
    counted.pages.push_back({.target = 0, .vpn = Vpn(vpn), .counts = {.loads = 1}});
  assembler.Add({}, 0, counted);
  assembler.Add({}, 0, Epoch(1, 20, 30, 42, 3, 7));
  EpochProfile recorded = Recorded();
  AddTruth(recorded, assembler.Build({}));
  AddTruth(recorded, assembler.Build({}));
  const auto loads = [&](std::size_t i) { return RecordAt(recorded.pages, i).accesses->loads; };
  ASSERT_EQ(recorded.pages.size(), 4u);
  EXPECT_EQ(recorded.pages.key(0), (PageKey{TargetId(1), Vpn(3)}));
  EXPECT_EQ(loads(0), 8u);
  EXPECT_EQ(recorded.pages.vpn[1], Vpn(512));
  EXPECT_EQ(recorded.pages.references[1], 2u);
  EXPECT_EQ(loads(1), 11u);
  EXPECT_EQ(recorded.pages.vpn[2], Vpn(1024));
  EXPECT_EQ(recorded.pages.load_samples[3], 3u);
  EXPECT_EQ(loads(3), 1u);
  ASSERT_EQ(recorded.sources.size(), 1u);
  EXPECT_EQ(recorded.sources[0].observations, 21u);
}

TEST(AddTruth, KeepsWhatIsKnownOfWhenVisitsBegan) {
  TruthAssembler assembler(kTiersimSource);
  assembler.Add({}, 0, Epoch(0, 10, 20, 42, 3, 7));
  EpochProfile recorded = Recorded();
  recorded.pages.new_visits = {
      .first_accesses = {0, 0}, .time_at_risk = {{}, {}}, .later_time = {{}, {}}};
  AddTruth(recorded, assembler.Build({}));
  ASSERT_TRUE(recorded.pages.new_visits.has_value());
  EXPECT_EQ(recorded.pages.new_visits->first_accesses, std::vector<std::uint32_t>(3));
}

// Records of one page lie at other places once pages are added before them.
TEST(AddTruth, KeepsWhichRecordsAreOfTheSamePages) {
  TruthAssembler assembler(kTiersimSource);
  assembler.Add({}, 0, Epoch(0, 10, 20, 42, 3, 7));
  EpochProfile recorded = Recorded();
  Append(recorded.pages, {.key = {TargetId(2), Vpn(2000)}, .looks = 1});
  recorded.targets.push_back({.id = TargetId(2), .pid = Pid(43), .start_time_ticks = 5});
  recorded.pages.same_as = {0, 1, 1};
  AddTruth(recorded, assembler.Build({}));
  ASSERT_EQ(recorded.pages.size(), 4u);
  EXPECT_EQ(recorded.pages.vpn[0], Vpn(3));
  EXPECT_EQ(recorded.pages.same_as, (std::vector<std::uint32_t>{0, 1, 2, 2}));
}

TEST(AddTruth, AnUnknownLossStaysUnknownWhateverIsAdded) {
  TruthAssembler assembler(kExactSource);
  assembler.Add({}, 0, Epoch(0, 10, 20, 42, 600, 10));
  assembler.AddUnended({}, 0, Epoch(1, 20, 30, 42, 600, 0));
  assembler.Add({}, 1, Epoch(2, 30, 40, 42, 600, 5));
  EpochProfile recorded = Recorded();
  for (int i = 0; i < 3; ++i) AddTruth(recorded, assembler.Build({}));
  EXPECT_EQ(recorded.sources[0].observations, 15u);
  EXPECT_EQ(recorded.sources[0].lost, std::nullopt);
}

TEST(AddTruth, SumsInstructionsWhereAllEpochsCountedThem) {
  TruthAssembler assembler(kTiersimSource);
  TruthEpoch first = Epoch(0, 10, 20, 42, 600, 1);
  first.instructions = 70;
  TruthEpoch second = Epoch(1, 20, 30, 42, 600, 1);
  second.instructions = 5;
  assembler.Add({.counts_instructions = true}, 0, first);
  assembler.Add({.counts_instructions = true}, 0, second);
  assembler.Add({.counts_instructions = false}, 0, Epoch(2, 30, 40, 42, 600, 1));
  EpochProfile recorded = Recorded();
  AddTruth(recorded, assembler.Build({}));
  AddTruth(recorded, assembler.Build({}));
  EXPECT_THAT(recorded.sources[0].details, ElementsAre(NamedCount{"instructions", 75}));
  AddTruth(recorded, assembler.Build({}));
  EXPECT_THAT(recorded.sources[0].details, ElementsAre());
}

TEST(AddTruth, CountsTheAccessesOfUnknownProcessesAsLost) {
  TruthAssembler assembler(kTiersimSource);
  assembler.Add({}, 0, Epoch(0, 10, 20, 43, 600, 10));
  EpochProfile recorded = Recorded();
  AddTruth(recorded, assembler.Build({}));
  EXPECT_EQ(recorded.pages.size(), 2u);
  EXPECT_EQ(recorded.sources[0].lost, 10u);

  TruthEpoch reused = Epoch(0, 10, 20, 42, 600, 10);
  reused.targets[0].start_time_ticks = 6;
  TruthAssembler another(kTiersimSource);
  another.Add({}, 0, reused);
  recorded = Recorded();
  AddTruth(recorded, another.Build({}));
  EXPECT_EQ(recorded.sources[0].lost, 10u) << "another process had that pid";
}

EpochProfile RecordedBetween(std::int64_t start, std::int64_t end) {
  EpochProfile epoch = Recorded();
  epoch.start = At(start);
  epoch.end = At(end);
  return epoch;
}

// Each with so many loads of one page.
std::vector<EpochProfile> Counted(const std::vector<TruthEpoch>& epochs) {
  TruthAssembler assembler(kTiersimSource);
  for (const TruthEpoch& epoch : epochs) assembler.Add({}, 0, epoch);
  std::vector<EpochProfile> built;
  while (assembler.Waiting()) built.push_back(assembler.Build({}));
  return built;
}

// Loads of each epoch that comes out; nullopt: it has no truth.
struct Merged {
  std::vector<std::optional<std::uint64_t>> loads;
  MergeResult result;
};

Merged Merge(std::vector<EpochProfile> recorded, std::vector<EpochProfile> truth) {
  EpochProfile first = truth.front();
  truth.erase(truth.begin());
  VectorEpochStream recording(std::move(recorded));
  VectorEpochStream counts(std::move(truth));
  Merged merged;
  merged.result = MergeTruth(recording, first, counts, [&](const EpochProfile& epoch) {
    merged.loads.push_back(epoch.sources.empty() ? std::nullopt : epoch.sources[0].observations);
  });
  return merged;
}

TEST(MergeTruth, AnEpochOfTheTruthBelongsToTheOneThatHoldsItsMiddle) {
  const Merged merged =
      Merge({RecordedBetween(0, 100), RecordedBetween(100, 200)},
            Counted({Epoch(0, 0, 40, 42, 7, 1), Epoch(1, 40, 120, 42, 7, 10),
                     Epoch(2, 120, 160, 42, 7, 100), Epoch(3, 160, 240, 42, 7, 1000)}));
  // Middles 20, 80 and 140; that of the last, 200, is past the end.
  EXPECT_THAT(merged.loads, ElementsAre(11, 100));
  EXPECT_EQ(merged.result.without_truth, 0U);
  EXPECT_EQ(merged.result.outside_recording, 1U);
}

TEST(MergeTruth, EpochsOfEitherThatFindNoneOfTheOtherAreCounted) {
  const Merged merged =
      Merge({RecordedBetween(100, 200), RecordedBetween(200, 300), RecordedBetween(300, 400)},
            Counted({Epoch(0, 0, 50, 42, 7, 1), Epoch(1, 50, 100, 42, 7, 1),
                     Epoch(2, 200, 300, 42, 7, 5)}));
  EXPECT_THAT(merged.loads, ElementsAre(std::nullopt, 5, std::nullopt));
  EXPECT_EQ(merged.result.without_truth, 2U);
  EXPECT_EQ(merged.result.outside_recording, 2U);
}

TEST(MergeTruth, ARecordingWithoutEpochsLeavesAllTruthOutside) {
  const Merged merged =
      Merge({}, Counted({Epoch(0, 0, 50, 42, 7, 1), Epoch(1, 50, 100, 42, 7, 1)}));
  EXPECT_EQ(merged.result.outside_recording, 2U);
  EXPECT_EQ(merged.result.without_truth, 0U);
}

}  // namespace truth_merge_test
}  // namespace tmprof::exact
