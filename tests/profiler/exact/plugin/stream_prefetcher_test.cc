// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/plugin/stream_prefetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace stream_prefetcher_test {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t kLineShift = 6;  // 64 lines to a page
constexpr std::uint64_t kPage = 0x5000;

// Lines of the page, counted from its first.
class StreamPrefetcherTest : public testing::Test {
 protected:
  std::vector<int> Access(int line, std::uint64_t page = kPage, std::uint32_t ahead = 2) {
    std::uint64_t first = 0;
    std::int64_t step = 0;
    const std::uint32_t count =
        tiersim_prefetch(&prefetcher_, page + static_cast<std::uint64_t>(line) * 64 + 8, kLineShift,
                         ahead, &first, &step);
    std::vector<int> fetched;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto offset = static_cast<std::int64_t>(first - page) + step * i;
      EXPECT_EQ(offset % 64, 0);
      fetched.push_back(static_cast<int>(offset / 64));
    }
    return fetched;
  }

  tiersim_prefetcher prefetcher_{};
};

TEST_F(StreamPrefetcherTest, FetchesAheadFromTheSecondStepOn) {
  EXPECT_THAT(Access(3), IsEmpty());
  EXPECT_THAT(Access(4), IsEmpty());
  EXPECT_THAT(Access(5), ElementsAre(6, 7));
  EXPECT_THAT(Access(6), ElementsAre(7, 8));
}

TEST_F(StreamPrefetcherTest, FollowsDescendingStreams) {
  Access(9);
  Access(8);
  EXPECT_THAT(Access(7), ElementsAre(6, 5));
}

TEST_F(StreamPrefetcherTest, StaysWithinThePage) {
  Access(60);
  Access(61);
  EXPECT_THAT(Access(62), ElementsAre(63));
  EXPECT_THAT(Access(63), IsEmpty());
  Access(2);
  Access(1);
  EXPECT_THAT(Access(0), IsEmpty());
}

TEST_F(StreamPrefetcherTest, FetchesNothingForJumpsAndTurns) {
  Access(3);
  Access(4);
  EXPECT_THAT(Access(9), IsEmpty());
  EXPECT_THAT(Access(10), IsEmpty());
  EXPECT_THAT(Access(9), IsEmpty());
}

TEST_F(StreamPrefetcherTest, AnAccessToTheSameLineDoesNotEndAStream) {
  Access(3);
  Access(4);
  EXPECT_THAT(Access(4), IsEmpty());
  EXPECT_THAT(Access(5), ElementsAre(6, 7));
}

TEST_F(StreamPrefetcherTest, FollowsAsManyPagesAsItHasStreamsAndForgetsTheOldest) {
  for (std::uint64_t page = 0; page <= TIERSIM_STREAMS; ++page) {
    Access(3, page << 12);
    Access(4, page << 12);
  }
  EXPECT_THAT(Access(5, std::uint64_t{TIERSIM_STREAMS} << 12), ElementsAre(6, 7));
  EXPECT_THAT(Access(5, 1 << 12), ElementsAre(6, 7));
  EXPECT_THAT(Access(5, 0), IsEmpty());
}

}  // namespace stream_prefetcher_test
