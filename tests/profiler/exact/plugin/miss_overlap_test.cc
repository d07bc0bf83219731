// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/plugin/miss_overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace miss_overlap_test {

using testing::ElementsAre;

constexpr std::uint64_t kLatency = 100;

class MissOverlapTest : public testing::Test {
 protected:
  // A load of a line with this word, the others 0. Its stall is stalls_[page].
  void Miss(std::uint64_t address, std::size_t page, std::uint64_t word = 0,
            std::uint64_t instructions_before = 1) {
    instruction_ += instructions_before;
    const std::array<std::uint64_t, TIERSIM_OVERLAP_WORDS> words{0, 0, 0, word, 0, 0, 0, 0};
    tiersim_misses_add(&misses_, address, instruction_, &stalls_[page], words.data(), kLatency);
  }
  std::vector<std::uint64_t> Closed() {
    tiersim_misses_close(&misses_, kLatency);
    return stalls_;
  }

  tiersim_misses misses_{};
  std::uint64_t instruction_ = 0;
  std::vector<std::uint64_t> stalls_ = std::vector<std::uint64_t>(3);
};

TEST_F(MissOverlapTest, ALoadAloneWaitsForTheWholeLatency) {
  Miss(0x10000, 0);
  EXPECT_THAT(Closed(), ElementsAre(100, 0, 0));
  EXPECT_THAT(Closed(), ElementsAre(100, 0, 0)) << "once";
}

TEST_F(MissOverlapTest, LoadsThatDoNotDependOnOneAnotherShareOneLatency) {
  Miss(0x10000, 0);
  Miss(0x20000, 1);
  Miss(0x30000, 2);
  EXPECT_THAT(Closed(), ElementsAre(34, 33, 33));
}

TEST_F(MissOverlapTest, ALoadFromWhereALineOfTheGroupPointsWaitsForIt) {
  Miss(0x10000, 0, /*word=*/0x30000);
  Miss(0x20000, 1, /*word=*/0x40000);
  Miss(0x30010, 2);  // a field of what is at 0x30000
  EXPECT_THAT(Closed(), ElementsAre(50, 50, 100));
  Miss(0x10000, 0, 0x30000);
  Miss(0x2fff0, 2);  // before what is pointed to, as of a list within an object
  EXPECT_THAT(Closed(), ElementsAre(150, 50, 200));
}

TEST_F(MissOverlapTest, APointerToFarFromTheLoadLeadsNowhere) {
  Miss(0x10000, 0, /*word=*/0x30000);
  Miss(0x30000 + TIERSIM_POINTER_BYTES, 1);
  EXPECT_THAT(Closed(), ElementsAre(50, 50, 0));
}

TEST_F(MissOverlapTest, ALoadTooManyInstructionsLaterBeginsAGroup) {
  Miss(0x10000, 0);
  Miss(0x20000, 1, 0, TIERSIM_OVERLAP_INSTRUCTIONS - 1);
  Miss(0x30000, 2, 0, 1);
  EXPECT_THAT(Closed(), ElementsAre(50, 50, 100));
}

TEST_F(MissOverlapTest, AGroupHasRoomForAsManyLinesAsACacheWaitsFor) {
  for (std::uint64_t i = 0; i < TIERSIM_OVERLAP_LINES; ++i) Miss(0x10000 * (i + 1), 0);
  Miss(0x900000, 1);
  EXPECT_THAT(Closed(), ElementsAre(100, 100, 0));
}

}  // namespace miss_overlap_test
