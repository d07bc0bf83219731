// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/epoch_pacer.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace epoch_pacer_test {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(EpochPacerTest, KeepsToTheShortestWhereThatCostsLittle) {
  EpochPacer pacer(seconds(1), 0.05);
  EXPECT_EQ(pacer.Next(), seconds(1));
  for (int epoch = 0; epoch < 10; ++epoch) pacer.Note(seconds(1), milliseconds(50), true);
  EXPECT_EQ(pacer.Next(), seconds(1));
  EXPECT_FALSE(pacer.overdrawn());
}

TEST(EpochPacerTest, LengthensEpochsUntilTheyAreAffordable) {
  constexpr nanoseconds kCpuTime = milliseconds(330);
  EpochPacer pacer(seconds(1), 0.05);
  nanoseconds time{0};
  for (int epoch = 0; epoch < 100; ++epoch) {
    const nanoseconds length = pacer.Next();
    time += length;
    pacer.Note(length, kCpuTime, true);
  }
  EXPECT_EQ(pacer.Next(), milliseconds(6600));
  EXPECT_NEAR(static_cast<double>((100 * kCpuTime).count()) / static_cast<double>(time.count()),
              0.05, 0.001);
}

TEST(EpochPacerTest, PaysForWhatTookLongWithOneLongEpoch) {
  EpochPacer pacer(seconds(1), 0.1);
  pacer.Note(seconds(1), seconds(3), true);
  EXPECT_EQ(pacer.Next(), seconds(30));
  pacer.Note(seconds(30), milliseconds(1), true);
  EXPECT_EQ(pacer.Next(), seconds(1));
}

TEST(EpochPacerTest, OwesWhatItOwedWhenItIsConfiguredAnew) {
  EpochPacer pacer(seconds(1), 0.1);
  pacer.Note(seconds(1), seconds(3), true);
  pacer.Configure(seconds(2), 0.3);
  EXPECT_EQ(pacer.Next(), seconds(10)) << "3 s at 30 %";
  pacer.Note(seconds(10), milliseconds(1), true);
  EXPECT_EQ(pacer.Next(), seconds(2));
}

TEST(EpochPacerTest, SaysWhereEvenAMinuteIsTooShort) {
  EpochPacer pacer(seconds(1), 0.05);
  pacer.Note(seconds(1), seconds(4), true);
  EXPECT_EQ(pacer.Next(), minutes(1));
  EXPECT_TRUE(pacer.overdrawn());
  pacer.Note(minutes(1), milliseconds(1), true);
  EXPECT_EQ(pacer.Next(), seconds(1)) << "what cannot be earned is forgiven";
  EXPECT_FALSE(pacer.overdrawn());
}

TEST(EpochPacerTest, TakesLessWhileThatIsWorthNothing) {
  EpochPacer pacer(seconds(1), 0.05);
  pacer.Note(seconds(1), milliseconds(100), false);
  EXPECT_EQ(pacer.Next(), seconds(4));
  for (int epoch = 0; epoch < 10; ++epoch) pacer.Note(pacer.Next(), milliseconds(100), false);
  EXPECT_EQ(pacer.Next(), seconds(8)) << "and no less than a quarter";
  pacer.Note(pacer.Next(), milliseconds(100), true);
  EXPECT_EQ(pacer.Next(), seconds(2));
}

TEST(EpochPacerTest, EightEpochsOnEndThatAreWorthNothingAreFutile) {
  EpochPacer pacer(seconds(1), 0.05);
  for (const bool paid : {false, false, true}) pacer.Note(seconds(1), milliseconds(1), paid);
  for (int epoch = 0; epoch < 8; ++epoch) {
    EXPECT_FALSE(pacer.futile());
    pacer.Note(seconds(1), milliseconds(1), false);
  }
  EXPECT_TRUE(pacer.futile());
  pacer.Note(seconds(1), milliseconds(1), true);
  EXPECT_FALSE(pacer.futile());
}

TEST(EpochPacerTest, WorthlessEpochsAreNotOverdrawnWhileTheShareIsKept) {
  EpochPacer pacer(seconds(1), 0.05);
  for (int epoch = 0; epoch < 10; ++epoch) {
    pacer.Note(pacer.Next(), seconds(2), false);
    EXPECT_FALSE(pacer.overdrawn()) << epoch;
  }
  EXPECT_EQ(pacer.Next(), minutes(1));
  pacer.Note(minutes(1), seconds(2), true);
  EXPECT_EQ(pacer.Next(), seconds(40)) << "no debt is left";
}

TEST(EpochPacerTest, KeepsTheShortestEpochIfItCostsLittleThoughItIsWorthNothing) {
  EpochPacer pacer(seconds(1), 0.05);
  for (int epoch = 0; epoch < 10; ++epoch) pacer.Note(seconds(1), milliseconds(10), false);
  EXPECT_EQ(pacer.Next(), seconds(1));
}

TEST(EpochPacerTest, NeverShortensAnEpoch) {
  EpochPacer pacer(hours(1), 0.05);
  pacer.Note(hours(1), minutes(2), true);
  EXPECT_EQ(pacer.Next(), hours(1));
}

}  // namespace epoch_pacer_test
}  // namespace tmprof
