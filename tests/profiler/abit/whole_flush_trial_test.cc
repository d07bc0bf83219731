// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/whole_flush_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tmprof::abit {
namespace whole_flush_trial_test {

using testing::HasSubstr;

TEST(WholeFlushTrial, IsPassedIfEachFlushLetEveryPageShowItsAccess) {
  EXPECT_EQ(DoubtOf({.tries = 12, .flushes = 8, .complete = 8}), std::nullopt);
  EXPECT_EQ(DoubtOf({.tries = 64, .flushes = 1, .complete = 1}), std::nullopt);
}

TEST(WholeFlushTrial, IsFailedByOneFlushThatLeftATranslation) {
  EXPECT_THAT(DoubtOf({.tries = 8, .flushes = 8, .complete = 7}).value_or(""),
              HasSubstr("after 1 of 8 flushes"));
}

TEST(WholeFlushTrial, IsFailedIfNoFlushIsKnownToHaveWorked) {
  EXPECT_THAT(DoubtOf({.tries = 64, .flushes = 0, .complete = 0}).value_or(""),
              HasSubstr("none of 64 flushes"));
}

}  // namespace whole_flush_trial_test
}  // namespace tmprof::abit
