// SPDX-License-Identifier: Apache-2.0

#include "rank/target_times.h"

#include <gtest/gtest.h>

#include "tests/rank/profiles.h"

namespace tmprof {
namespace target_times_test {

EpochProfile OneSecond(std::vector<SourceStatus> sources) {
  EpochProfile epoch = Epoch(0, {Counts(1, 1, 0)});
  epoch.targets = {{.id = TargetId(0), .cpu_time = std::chrono::milliseconds(500)}};
  epoch.sources = std::move(sources);
  return epoch;
}

double WatchedSeconds(std::vector<SourceStatus> sources) {
  TargetTimes times;
  times.Add(OneSecond(std::move(sources)));
  return times.Of(TargetId(0)).watched_seconds;
}

constexpr SourceRole kBits = SourceRole::kReferences;
constexpr SourceRole kSamples = SourceRole::kSamples;
constexpr SourceState kOn = SourceState::kActive;
constexpr SourceState kOff = SourceState::kUnavailable;

TEST(TargetTimes, AreWatchedWhileASamplerWasOn) {
  EXPECT_DOUBLE_EQ(WatchedSeconds({{.role = kSamples, .state = kOn, .duty_cycle = 0.4}}), 0.2);
  EXPECT_DOUBLE_EQ(WatchedSeconds({{.role = kSamples, .state = kOff}}), 0);
}

TEST(TargetTimes, AreNotWatchedWhereOnlyBitsWereRead) {
  EXPECT_DOUBLE_EQ(WatchedSeconds({{.role = kBits, .state = kOn}}), 0);
}

TEST(TargetTimes, AreWatchedThroughoutWhereNoSourceIsNamed) {
  EXPECT_DOUBLE_EQ(WatchedSeconds({}), 0.5);
}

}  // namespace target_times_test
}  // namespace tmprof
