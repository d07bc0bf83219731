// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/whole_flush_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tmprof::abit {
namespace whole_flush_trial_test {

using testing::HasSubstr;

TEST(WholeFlushTrial, IsPassedIfEachFlushLetEveryPageShowItsAccess) {
  EXPECT_EQ(DoubtOf({.tries = 12, .flushes = 8, .complete = 8, .controls = 12, .hidden = 12}),
            std::nullopt);
  EXPECT_EQ(DoubtOf({.tries = 64, .flushes = 4, .complete = 4, .controls = 64, .hidden = 60}),
            std::nullopt);
}

TEST(WholeFlushTrial, IsPassedOnABusyMachineByAsManyMoreFlushes) {
  EXPECT_EQ(DoubtOf({.tries = 64, .flushes = 50, .complete = 50, .controls = 64, .hidden = 8}),
            std::nullopt);
  EXPECT_THAT(
      DoubtOf({.tries = 64, .flushes = 8, .complete = 8, .controls = 64, .hidden = 8}).value_or(""),
      HasSubstr("56 of 64 clears without a flush"));
}

TEST(WholeFlushTrial, GoesOnUntilItTells) {
  EXPECT_FALSE(IsTold({.tries = 7, .flushes = 7, .complete = 7, .controls = 7, .hidden = 7}));
  EXPECT_TRUE(IsTold({.tries = 8, .flushes = 8, .complete = 8, .controls = 8, .hidden = 8}));
  EXPECT_FALSE(IsTold({.tries = 8, .flushes = 8, .complete = 8, .controls = 8}));
  EXPECT_FALSE(IsTold({.tries = 64, .flushes = 8, .complete = 8, .controls = 64, .hidden = 8}));
  EXPECT_TRUE(IsTold({.tries = 64, .flushes = 50, .complete = 50, .controls = 64, .hidden = 8}));
  EXPECT_TRUE(IsTold({.tries = 2, .flushes = 2, .complete = 1, .controls = 2}));
}

TEST(WholeFlushTrial, IsFailedByOneFlushThatLeftATranslation) {
  EXPECT_THAT(DoubtOf({.tries = 8, .flushes = 8, .complete = 7}).value_or(""),
              HasSubstr("after 1 of 8 flushes"));
}

TEST(WholeFlushTrial, IsFailedIfHardlyAFlushIsKnownToHaveWorked) {
  EXPECT_THAT(DoubtOf({.tries = 64, .flushes = 3, .complete = 3, .controls = 64, .hidden = 64})
                  .value_or(""),
              HasSubstr("3 of 64 flushes"));
}

TEST(WholeFlushTrial, IsFailedIfPagesShowTheirAccessesWithoutAFlushToo) {
  EXPECT_THAT(DoubtOf({.tries = 8, .flushes = 8, .complete = 8, .controls = 8}).value_or(""),
              HasSubstr("without a flush"));
}

}  // namespace whole_flush_trial_test
}  // namespace tmprof::abit
