// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/epoch_pacer.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

TEST(EpochPacerTest, KeepsToTheShortestWhereThatCostsLittle) {
  EpochPacer pacer(seconds(1), 0.03);
  EXPECT_EQ(pacer.Next(), seconds(1));
  pacer.Note(milliseconds(30));
  EXPECT_EQ(pacer.Next(), seconds(1));
}

TEST(EpochPacerTest, LengthensEpochsUntilTheyAreAffordable) {
  EpochPacer pacer(seconds(1), 0.03);
  pacer.Note(milliseconds(120));
  EXPECT_EQ(pacer.Next(), seconds(4));
}

TEST(EpochPacerTest, ComesBackByHalves) {
  EpochPacer pacer(seconds(1), 0.01);
  pacer.Note(milliseconds(80));
  pacer.Note(milliseconds(40));
  EXPECT_EQ(pacer.Next(), seconds(6));
  for (int epoch = 0; epoch < 20; ++epoch) pacer.Note(milliseconds(1));
  EXPECT_EQ(pacer.Next(), seconds(1));
}

TEST(EpochPacerTest, GoesOnWhereEvenAMinuteIsTooShort) {
  EpochPacer pacer(seconds(1), 0.01);
  pacer.Note(hours(1));
  EXPECT_EQ(pacer.Next(), minutes(1));
  EpochPacer rare(hours(1), 0.01);
  rare.Note(minutes(2));
  EXPECT_EQ(rare.Next(), hours(1));
}

}  // namespace
}  // namespace tmprof
