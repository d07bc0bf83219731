// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/observation.h"

#include <gtest/gtest.h>

#include <chrono>

namespace tmprof {
namespace observation_test {

using std::chrono::milliseconds;

EpochProfile Epoch(SourceState state, bool exited) {
  EpochProfile epoch;
  epoch.sources.push_back({.name = "clock", .state = state});
  epoch.targets.push_back({.id = TargetId(0), .pid = Pid(10), .exited = exited});
  return epoch;
}

TEST(IsObserved, TakesASourceAndALivingTarget) {
  EXPECT_TRUE(IsObserved(Epoch(SourceState::kActive, false)));
  EXPECT_FALSE(IsObserved(Epoch(SourceState::kUnavailable, false)));
  EXPECT_FALSE(IsObserved(Epoch(SourceState::kActive, true)));
  EXPECT_FALSE(IsObserved({}));
}

// Seconds of 12, each asked about at its start and near its end, in which it rests.
int RestingSeconds(const Rest& rest, bool futile) {
  int resting = 0;
  for (int second = 100; second < 112; ++second) {
    const MonotonicTime start{std::chrono::seconds(second)};
    const bool rests = rest.RestsAt(start, futile);
    EXPECT_EQ(rest.RestsAt(start + milliseconds(990), futile), rests) << "within a second";
    resting += rests ? 1 : 0;
  }
  return resting;
}

TEST(Rest, RestsThreeSecondsOfFourWhileDecisionsAreFutile) {
  Rest rest;
  rest.Note(0.9, true);
  EXPECT_EQ(RestingSeconds(rest, true), 9);
  EXPECT_EQ(RestingSeconds(rest, false), 0);
}

TEST(Rest, DoesNotRestBeforeEnoughPagesWereLookedAt) {
  Rest rest;
  EXPECT_EQ(RestingSeconds(rest, true), 0) << "nothing was decided";
  rest.Note(0.89, true);
  EXPECT_EQ(RestingSeconds(rest, true), 0);
  rest.Note(1, true);
  EXPECT_EQ(RestingSeconds(rest, true), 9);
  rest.Note(0.5, true);
  EXPECT_EQ(RestingSeconds(rest, true), 0) << "pages were added";
}

TEST(Rest, DoesNotRestWhereNoMovesAreDecided) {
  Rest rest;
  rest.Note(1, false);
  EXPECT_EQ(RestingSeconds(rest, true), 0);
}

}  // namespace observation_test
}  // namespace tmprof
