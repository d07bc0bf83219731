// SPDX-License-Identifier: Apache-2.0

#include "profiler/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace tmprof {
namespace progress_line_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::StartsWith;

EpochProfile Epoch(std::optional<std::uint64_t> samples, std::optional<std::uint64_t> lost) {
  EpochProfile epoch{
      .index = 7, .start = MonotonicTime(seconds(1)), .end = MonotonicTime(seconds(3))};
  epoch.profiler_cpu_time = milliseconds(50);
  epoch.sources.push_back({.name = "clock",
                           .role = SourceRole::kSamples,
                           .state = SourceState::kActive,
                           .observations = samples,
                           .lost = lost});
  return epoch;
}

TEST(ProgressLine, HasTheEpochsFiguresAndTheLossesOfAll) {
  ProgressLine line;
  line.After(Epoch(5, 2));
  const std::string second = line.After(Epoch(6, 3));
  EXPECT_THAT(second, StartsWith("\repoch    7  page records "));
  EXPECT_THAT(second, HasSubstr("samples       6  lost 5  own CPU 2.5 %\x1b[K"));
}

TEST(ProgressLine, TellsUnknownCountsAsUnknown) {
  ProgressLine line;
  EXPECT_THAT(line.After(Epoch(std::nullopt, std::nullopt)),
              HasSubstr("samples unknown  lost unknown"));
  EXPECT_THAT(line.After(Epoch(1, 4)), HasSubstr("lost at least 4"));
}

TEST(ProgressLine, CountsObservationsOfItsRoleAndLeavesOutSourcesThatAreUnavailable) {
  ProgressLine line(SourceRole::kTruth);
  EpochProfile epoch = Epoch(6, 9);
  epoch.sources[0].state = SourceState::kUnavailable;
  epoch.sources.push_back({.name = "exact",
                           .role = SourceRole::kTruth,
                           .state = SourceState::kActive,
                           .observations = 8,
                           .lost = 0});
  EXPECT_THAT(line.After(epoch), HasSubstr("accesses       8  lost 0"));
}

}  // namespace progress_line_test
}  // namespace tmprof
