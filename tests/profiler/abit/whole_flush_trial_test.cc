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
  EXPECT_EQ(DoubtOf({.tries = 64, .flushes = 4, .complete = 4, .controls = 64, .hidden = 1}),
            std::nullopt);
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
