// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/auto_choice.h"

#include <gtest/gtest.h>

namespace tmprof::abit {
namespace auto_choice_test {

using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(AutoChoice, GoesOverAfterTwoEpochsInARowOfTooLongVisits) {
  AutoChoice choice;
  EXPECT_FALSE(choice.GoesOver(seconds(11)));
  EXPECT_FALSE(choice.GoesOver(seconds(9)));
  EXPECT_FALSE(choice.GoesOver(seconds(11)));
  EXPECT_TRUE(choice.GoesOver(seconds(60)));
}

TEST(AutoChoice, StaysWithTheFullScanWhileAVisitIsAffordable) {
  AutoChoice choice;
  for (int epoch = 0; epoch < 10; ++epoch) EXPECT_FALSE(choice.GoesOver(kLongestVisit));
}

TEST(AutoChoice, TakesAnEpochOfNoVisitsForNoAnswer) {
  AutoChoice choice;
  EXPECT_FALSE(choice.GoesOver(seconds(11)));
  EXPECT_FALSE(choice.GoesOver(std::nullopt));
  EXPECT_TRUE(choice.GoesOver(seconds(11)));
}

}  // namespace auto_choice_test
}  // namespace tmprof::abit
