// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <vector>

namespace tmprof::workload {
namespace timeline_test {

using std::chrono_literals::operator""s;
using testing::ElementsAre;

// (phase, start, end) in seconds.
using Row = std::tuple<std::uint64_t, std::int64_t, std::int64_t>;

std::vector<Row> All(const Timeline& timeline) {
  std::vector<Row> rows;
  std::chrono::nanoseconds from{0};
  for (auto stretch = timeline.Next(from); stretch; stretch = timeline.Next(stretch->end)) {
    rows.emplace_back(stretch->phase, stretch->start / 1s, stretch->end / 1s);
  }
  return rows;
}

TEST(Timeline, CutsTheLastPhaseAtTheDuration) {
  EXPECT_THAT(All({.shift = 10s, .duration = 31s}),
              ElementsAre(Row(0, 0, 10), Row(1, 10, 20), Row(2, 20, 30), Row(3, 30, 31)));
}

TEST(Timeline, MakesNoEmptyPhaseWhereTheShiftDividesTheDuration) {
  EXPECT_THAT(All({.shift = 15s, .duration = 30s}), ElementsAre(Row(0, 0, 15), Row(1, 15, 30)));
  EXPECT_THAT(All({.shift = 50s, .duration = 30s}), ElementsAre(Row(0, 0, 30)));
}

TEST(Timeline, LeavesOutThePausesAndCutsPhasesAtThem) {
  EXPECT_THAT(All({.shift = 10s, .duration = 21s, .duty = {.busy = 4s, .idle = 3s}}),
              ElementsAre(Row(0, 0, 4), Row(0, 7, 10), Row(1, 10, 11), Row(1, 14, 18)));
}

TEST(Timeline, SkipsAPhaseThatIsAllPause) {
  EXPECT_THAT(All({.shift = 2s, .duration = 8s, .duty = {.busy = 1s, .idle = 5s}}),
              ElementsAre(Row(0, 0, 1), Row(3, 6, 7)));
}

}  // namespace timeline_test
}  // namespace tmprof::workload
