// SPDX-License-Identifier: Apache-2.0

#include "rank/ageing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <vector>

#include "rank/rank_model.h"
#include "tests/rank/profiles.h"

namespace tmprof {
namespace ageing_test {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr TargetId kTarget{0};
constexpr TargetId kOther{7};

// The second [index, index + 1), of which the target used so much CPU time; nullopt: unknown.
EpochProfile Second(std::uint64_t index, std::optional<nanoseconds> cpu_time,
                    const std::vector<PageRecord>& records = {}) {
  EpochProfile epoch = Epoch(index, records);
  epoch.targets = {{.id = kTarget, .cpu_time = cpu_time}};
  return epoch;
}

MonotonicTime At(int second) { return MonotonicTime(seconds(second)); }

TEST(Ages, AreTheCpuTimeOfTheTarget) {
  EXPECT_DOUBLE_EQ(AgesAfter(Second(3, milliseconds(125)), At(3)).Of(kTarget), 0.125);
  EXPECT_DOUBLE_EQ(AgesAfter(Second(3, nanoseconds(0)), At(3)).Of(kTarget), 0);
}

TEST(Ages, AreNoMoreThanTheTimeThatPassedWhereThreadsRunSideBySide) {
  EXPECT_DOUBLE_EQ(AgesAfter(Second(3, seconds(8)), At(3)).Of(kTarget), 1);
}

TEST(Ages, AreTheTimeThatPassedWhereTheCpuTimeIsUnknown) {
  EXPECT_DOUBLE_EQ(AgesAfter(Second(3, std::nullopt), At(3)).Of(kTarget), 1);
  EXPECT_DOUBLE_EQ(AgesAfter(Second(3, nanoseconds(0)), At(3)).Of(kOther), 1) << "not listed";
  EXPECT_DOUBLE_EQ(AgesAfter(Second(3, nanoseconds(0)), At(1)).Of(kTarget), 2) << "a lost epoch";
  EXPECT_DOUBLE_EQ(AgesAfter(Second(3, nanoseconds(0)), At(1)).Of(kOther), 3);
}

TEST(Ages, AddUpOverTwoStretchesAlsoForTargetsOfOne) {
  Ages first(3);
  first.Append(TargetId(1), 0.5);
  first.Append(TargetId(4), 1);
  Ages second(2);
  second.Append(TargetId(2), 0.25);
  second.Append(TargetId(4), 1.5);
  const Ages sum = Sum(first, second);
  EXPECT_DOUBLE_EQ(sum.Of(TargetId(1)), 2.5);
  EXPECT_DOUBLE_EQ(sum.Of(TargetId(2)), 3.25);
  EXPECT_DOUBLE_EQ(sum.Of(TargetId(4)), 2.5);
  EXPECT_DOUBLE_EQ(sum.Of(TargetId(9)), 5);
  EXPECT_EQ(sum.listed().size(), 3u);
}

TEST(Memory, KeepsAllEvidenceOfATargetThatRests) {
  Ranker ranker(
      {.model = RankModel::kSum, .memory = Ranker::Memory::kHalfLife, .half_life = seconds(1)});
  ranker.Absorb(Second(0, seconds(1), {Counts(1, 8, 0)}));
  for (std::uint64_t index = 1; index < 100; ++index) ranker.Absorb(Second(index, nanoseconds(0)));
  EXPECT_EQ(ranker.Score(RankSource::kReferences), Scores{8});
  ranker.Absorb(Second(100, milliseconds(500)));
  ranker.Absorb(Second(101, milliseconds(500)));
  ASSERT_EQ(ranker.table().size(), 1u);
  EXPECT_NEAR(ranker.Score(RankSource::kReferences)[0], 4, 1e-9);
}

TEST(Memory, TheTimeWatchedFadesWithTheSamples) {
  // Two samples in the second that the sampler watched. Rests add neither samples nor watched time.
  const Ranker::Options options{
      .model = RankModel::kRate, .memory = Ranker::Memory::kHalfLife, .half_life = seconds(1)};
  Ranker rested(options);
  Ranker busy(options);
  for (Ranker* ranker : {&rested, &busy}) {
    ranker->Absorb(Second(0, seconds(1), {Counts(1, 0, 2), Counts(2, 0, 20)}));
  }
  for (std::uint64_t index = 1; index < 50; ++index) rested.Absorb(Second(index, nanoseconds(0)));
  rested.Absorb(Second(50, seconds(1)));
  busy.Absorb(Second(1, seconds(1)));
  EXPECT_EQ(rested.Score(RankSource::kSamples), busy.Score(RankSource::kSamples));
}

}  // namespace ageing_test
}  // namespace tmprof
