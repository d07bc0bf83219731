// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_traffic.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "tests/rank/profiles.h"

namespace tmprof {
namespace memory_traffic_test {

using std::chrono::milliseconds;

SourceStatus Sampler(std::uint64_t samples, std::uint64_t accesses_per_sample) {
  return {.name = "ibs",
          .role = SourceRole::kSamples,
          .state = SourceState::kActive,
          .samples_of = SampleSubject::kMemory,
          .accesses_per_sample = accesses_per_sample,
          .observations = samples};
}

// Two targets run for half a second and a quarter of the epoch's second.
EpochProfile Sampled(const SourceStatus& sampler) {
  EpochProfile epoch = Epoch(0, {});
  epoch.targets = {{.id = TargetId(0), .cpu_time = milliseconds(500)},
                   {.id = TargetId(1), .cpu_time = milliseconds(250)}};
  epoch.sources.push_back(sampler);
  return epoch;
}

TEST(MemoryTraffic, IsOfTheTimeInWhichTheSamplerWasOn) {
  MemoryTraffic traffic;
  SourceStatus sampler = Sampler(30, 1'000);
  sampler.duty_cycle = 0.5;
  traffic.Look(Sampled(sampler));
  ASSERT_TRUE(traffic.Tell());
  EXPECT_DOUBLE_EQ(traffic.Tell()->accesses_per_second, 30'000 / 0.375);
  EXPECT_EQ(traffic.Tell()->samples, 30u);
  sampler = Sampler(10, 2'000);  // the period changed
  sampler.lost = 5;
  traffic.Look(Sampled(sampler));
  EXPECT_DOUBLE_EQ(traffic.Tell()->accesses_per_second, 60'000 / 1.125);
  EXPECT_EQ(traffic.Tell()->samples, 40u);
}

TEST(MemoryTraffic, LostSamplesOfASamplerOfOperationsAreMostlyOfOthers) {
  MemoryTraffic traffic;
  SourceStatus sampler = Sampler(10, 1'000);
  sampler.details = {{"served_by_cache", 980}, {"no_address", 10}, {"throttled", 7}};
  sampler.lost = 500;
  traffic.Look(Sampled(sampler));
  EXPECT_DOUBLE_EQ(traffic.Tell()->accesses_per_second, 15'000 / 0.75);
}

TEST(SampleScale, AddsUpPairsOfSamplesAndForgetsOldOnes) {
  SourceStatus clock = {.name = "clock",
                        .role = SourceRole::kSamples,
                        .state = SourceState::kActive,
                        .samples_of = SampleSubject::kTime,
                        .observations = 100,
                        .details = {{"page_pairs", 20}, {"line_pairs", 3}}};
  SampleScale scale;
  scale.Look(Sampled(clock));
  scale.Look(Sampled(clock));
  EXPECT_EQ(scale.pairs().samples, 200);
  EXPECT_EQ(scale.pairs().pairs, 40);
  EXPECT_EQ(scale.pairs().of_one_line, 6);
  clock.details.clear();
  scale.Look(Sampled(clock));
  EXPECT_EQ(scale.pairs().samples, 200) << "an older version counted no pairs";
  clock.details = {{"page_pairs", 1'000}, {"line_pairs", 500}};
  for (int epoch = 0; epoch < 100; ++epoch) scale.Look(Sampled(clock));
  EXPECT_LT(scale.pairs().pairs, 5'100);
  EXPECT_NEAR(scale.pairs().of_one_line / scale.pairs().pairs, 0.5, 0.01);
}

// A clock that counts misses beside its samples.
SourceStatus Counting(std::optional<std::uint64_t> misses) {
  SourceStatus clock = {.name = "clock",
                        .role = SourceRole::kSamples,
                        .state = SourceState::kActive,
                        .samples_of = SampleSubject::kTime,
                        .duty_cycle = 0.5,
                        .observations = 100};
  if (misses) clock.details = {{"llc_load_misses", *misses}};
  return clock;
}

TEST(SampleScale, AddsUpCountedMissesAndTheTimeOfCounting) {
  SampleScale scale;
  scale.Look(Sampled(Counting(std::nullopt)));
  EXPECT_FALSE(scale.counted()) << "unknown is not 0";
  scale.Look(Sampled(Counting(1'000)));
  scale.Look(Sampled(Counting(std::nullopt)));
  scale.Look(Sampled(Counting(0)));
  ASSERT_TRUE(scale.counted());
  EXPECT_DOUBLE_EQ(scale.counted()->misses, 1'000);
  EXPECT_DOUBLE_EQ(scale.counted()->cpu_seconds, 0.75) << "half of 0.75 s, twice";
  for (int epoch = 0; epoch < 400; ++epoch) scale.Look(Sampled(Counting(2'000)));
  EXPECT_LT(scale.counted()->cpu_seconds, 61) << "the latest count most";
  EXPECT_NEAR(scale.counted()->misses / scale.counted()->cpu_seconds, 2'000 / 0.375, 50);
}

TEST(SampleScale, CountsOfTwoSamplersAreOfTheSameMisses) {
  SampleScale scale;
  EpochProfile epoch = Sampled(Counting(1'000));
  epoch.sources.push_back(Counting(1'000));
  scale.Look(epoch);
  EXPECT_DOUBLE_EQ(scale.counted()->misses, 1'000);
}

TEST(MemoryTraffic, IsCountedWhereNothingSamplesIt) {
  MemoryTraffic traffic;
  traffic.Look(Sampled(Counting(75'000)));
  ASSERT_TRUE(traffic.Tell());
  EXPECT_DOUBLE_EQ(traffic.Tell()->accesses_per_second, 200'000);
  EXPECT_TRUE(traffic.Tell()->is_counted());
  traffic.Look(Sampled(Sampler(30, 1'000)));
  EXPECT_FALSE(traffic.Tell()->is_counted()) << "samples tell of stores, too";
}

TEST(MemoryTraffic, IsUnknownWhereNoSamplerToldIt) {
  MemoryTraffic traffic;
  EXPECT_FALSE(traffic.Tell());
  SourceStatus sampler = Sampler(30, 1);
  sampler.accesses_per_sample.reset();
  traffic.Look(Sampled(sampler));
  sampler = Sampler(30, 1'000);
  sampler.state = SourceState::kGated;
  traffic.Look(Sampled(sampler));
  EXPECT_FALSE(traffic.Tell());
  EpochProfile idle = Sampled(Sampler(0, 1'000));
  for (Target& target : idle.targets) target.cpu_time = milliseconds(0);
  traffic.Look(idle);
  EXPECT_FALSE(traffic.Tell()) << "no target ran";
  traffic.Look(Sampled(Sampler(0, 1'000)));
  EXPECT_EQ(traffic.Tell()->accesses_per_second, 0) << "none reached memory";
}

}  // namespace memory_traffic_test
}  // namespace tmprof
