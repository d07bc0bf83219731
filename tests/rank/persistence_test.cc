// SPDX-License-Identifier: Apache-2.0

#include "rank/persistence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tmprof {
namespace persistence_test {

// Evidence of a page whose rate has lasted is so likely if it had changed, and the other way round.
constexpr double kContradicted = 3e-4;

// Each page is probed again after `wait` seconds.
void Learn(Persistence& persistence, double lasts, double wait, int epochs, int visits) {
  persistence.SetProbed();
  std::mt19937 bits(7);
  std::uniform_real_distribution<double> chance(0, 1);
  for (int e = 0; e < epochs; ++e) {
    persistence.Age(1);
    for (int i = 0; i < visits; ++i) {
      const bool changed = chance(bits) < -std::expm1(-wait / lasts);
      persistence.Add(wait, changed ? kContradicted : 1, changed ? 1 : kContradicted);
    }
    persistence.Conclude();
  }
}

TEST(Persistence, IsAssumedBeforeAnythingIsLearned) {
  Persistence persistence;
  persistence.Age(100);
  persistence.Conclude();
  EXPECT_EQ(persistence.MeanSeconds(), Persistence::kAssumedSecondsOfSamples);
  persistence.SetProbed();
  EXPECT_EQ(persistence.MeanSeconds(), Persistence::kAssumedSeconds);
  persistence.Conclude();
  EXPECT_NEAR(persistence.MeanSeconds(), Persistence::kAssumedSeconds, 15);
  persistence.Age(1e6);
  persistence.Conclude();
  EXPECT_NEAR(persistence.MeanSeconds(), Persistence::kAssumedSeconds, 15);
}

TEST(Persistence, IsLearnedFromPagesThatAreProbedAgain) {
  for (const double lasts : {6.0, 20.0, 100.0}) {
    for (const double wait : {1.0, 16.0}) {
      Persistence persistence;
      Learn(persistence, lasts, wait, 60, 1000);
      EXPECT_NEAR(std::log(persistence.MeanSeconds()), std::log(lasts), 0.5)
          << lasts << " s, probed after " << wait << " s";
    }
  }
}

TEST(Persistence, IsLongWhereAProgramNeverChanges) {
  Persistence persistence;
  Learn(persistence, 1e9, 5, 30, 3000);
  EXPECT_GT(persistence.MeanSeconds(), 800);
}

TEST(Persistence, IsLearnedAnewOnceAProgramStartsOrEndsToChange) {
  Persistence persistence;
  Learn(persistence, 1e9, 5, 300, 3000);
  Learn(persistence, 8, 5, 20, 3000);
  EXPECT_LT(persistence.MeanSeconds(), 60);
  Learn(persistence, 1e9, 5, 300, 3000);
  EXPECT_GT(persistence.MeanSeconds(), 500);
}

TEST(Persistence, StaysWhatWasAssumedWhereVisitsSayNothing) {
  Persistence persistence;
  persistence.SetProbed();
  for (int i = 0; i < 10'000; ++i) persistence.Add(5, 0.3, 0.3);
  persistence.Conclude();
  EXPECT_NEAR(persistence.MeanSeconds(), Persistence::kAssumedSeconds, 15);
}

// One page alone shows nothing, however unlikely what was seen of it is.
TEST(Persistence, IsNotGivenUpForOneOutlier) {
  Persistence persistence;
  Learn(persistence, 1e9, 5, 30, 3000);
  persistence.Add(5, 1e-300, 1);
  persistence.Add(5, 0, 1);
  persistence.Add(5, 0, 0);
  persistence.Conclude();
  EXPECT_GT(persistence.MeanSeconds(), 500);
}

TEST(Persistence, TellsHowLongPagesWaitForTheirNextProbe) {
  Persistence persistence;
  EXPECT_EQ(persistence.LongestWait(), 60);
  for (int i = 0; i < 100; ++i) persistence.Add(i % 2 == 0 ? 40 : 60, 1, 1);
  EXPECT_NEAR(persistence.LongestWait(), 200, 1e-9);
}

}  // namespace persistence_test
}  // namespace tmprof
