// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/whole_flush_trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stop_token>
#include <string>
#include <thread>

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
  EXPECT_FALSE(IsDecided({.tries = 7, .flushes = 7, .complete = 7, .controls = 7, .hidden = 7}));
  EXPECT_TRUE(IsDecided({.tries = 8, .flushes = 8, .complete = 8, .controls = 8, .hidden = 8}));
  EXPECT_FALSE(IsDecided({.tries = 8, .flushes = 8, .complete = 8, .controls = 8}));
  EXPECT_FALSE(IsDecided({.tries = 64, .flushes = 8, .complete = 8, .controls = 64, .hidden = 8}));
  EXPECT_TRUE(IsDecided({.tries = 64, .flushes = 50, .complete = 50, .controls = 64, .hidden = 8}));
  EXPECT_TRUE(IsDecided({.tries = 2, .flushes = 2, .complete = 1, .controls = 2}));
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

TEST(WholeFlushTrial, MayYetTellWhatABusyMachineHasHidden) {
  EXPECT_TRUE(MayYetTell({.tries = 8, .flushes = 8, .complete = 8, .controls = 8}));
  EXPECT_TRUE(MayYetTell({.tries = 4, .flushes = 2, .complete = 2, .controls = 4, .hidden = 4}));
  EXPECT_FALSE(MayYetTell({.tries = 9, .flushes = 9, .complete = 9, .controls = 9, .hidden = 9}))
      << "it has passed";
  EXPECT_FALSE(MayYetTell({.tries = 2, .flushes = 2, .complete = 1})) << "a flush did nothing";
  EXPECT_FALSE(MayYetTell({.obstacle = "no memory"}));
}

class WholeFlushRetrialTest : public testing::Test {
 protected:
  // Each further try adds as much as the first.
  WholeFlushTrial Try(const WholeFlushTrial& before) {
    ++tries_;
    WholeFlushTrial trial = before;
    trial.tries += first_.tries;
    trial.flushes += first_.flushes;
    trial.complete += first_.complete;
    trial.controls += first_.controls;
    trial.hidden += first_.hidden;
    return trial;
  }
  bool Passes() {
    WholeFlushRetrial retrial(
        first_,
        [this](const WholeFlushTrial& before, const std::stop_token&) { return Try(before); },
        std::chrono::nanoseconds(1));
    while (!retrial.over()) std::this_thread::yield();
    return retrial.passed();
  }

  WholeFlushTrial first_;
  int tries_ = 0;
};

TEST_F(WholeFlushRetrialTest, AddsUpUntilItTells) {
  first_ = {.tries = 4, .flushes = 1, .complete = 1, .controls = 4, .hidden = 3};
  EXPECT_TRUE(Passes());
  EXPECT_EQ(tries_, 3) << "four flushes tell";
}

TEST_F(WholeFlushRetrialTest, EndsIfFlushesNeverTell) {
  first_ = {.tries = 8, .flushes = 8, .complete = 8, .controls = 8};
  EXPECT_FALSE(Passes());
  EXPECT_EQ(tries_, 8);
}

TEST_F(WholeFlushRetrialTest, DoesNotHoldUpItsOwner) {
  first_ = {.tries = 8, .flushes = 8, .complete = 8, .controls = 8};
  {
    const WholeFlushRetrial retrial(
        first_,
        [this](const WholeFlushTrial& before, const std::stop_token&) { return Try(before); },
        std::chrono::hours(1));
  }
  EXPECT_EQ(tries_, 0);
}

}  // namespace whole_flush_trial_test
}  // namespace tmprof::abit
