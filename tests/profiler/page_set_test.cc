// SPDX-License-Identifier: Apache-2.0

#include "profiler/page_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tmprof {
namespace page_set_test {

using testing::ElementsAre;
using testing::Pair;

TEST(PageSet, CountsEachPageOnceAcrossBlocks) {
  PageSet pages;
  EXPECT_EQ(pages.size(), PageCount(0));
  pages.Add({TargetId(1), Vpn(500)}, PageCount(600));  // 500 to 1100: three blocks
  pages.Add({TargetId(1), Vpn(510)}, PageCount(4));    // inside
  pages.Add({TargetId(1), Vpn(1099)}, PageCount(2));   // one more
  pages.Add({TargetId(2), Vpn(500)}, PageCount(1));    // another target's
  EXPECT_EQ(pages.size(), PageCount(602));
}

TEST(PageSet, TakesPagesInAnyOrder) {
  PageSet pages;
  for (const std::uint64_t vpn : {1023u, 0u, 512u, 63u, 64u, 511u, 0u})
    pages.Add({TargetId(0), Vpn(vpn)}, PageCount(1));
  EXPECT_EQ(pages.size(), PageCount(6));
}

TEST(PageSet, TellsThePagesOfEachTarget) {
  PageSet pages;
  pages.Add({TargetId(1), Vpn(500)}, PageCount(600));
  pages.Add({TargetId(2), Vpn(500)}, PageCount(1));
  EXPECT_THAT(pages.SizeByTarget(),
              ElementsAre(Pair(TargetId(1), PageCount(600)), Pair(TargetId(2), PageCount(1))));
}

TEST(JoinedSpans, AddsAllSpansByItsEndAndNoPageBetweenThem) {
  PageSet pages;
  {
    JoinedSpans spans(pages);
    spans.Add({TargetId(1), Vpn(10)}, PageCount(2));
    spans.Add({TargetId(1), Vpn(12)}, PageCount(1));
    spans.Add({TargetId(2), Vpn(13)}, PageCount(1));
    spans.Add({TargetId(2), Vpn(20)}, PageCount(4));
  }
  EXPECT_THAT(pages.SizeByTarget(),
              ElementsAre(Pair(TargetId(1), PageCount(3)), Pair(TargetId(2), PageCount(5))));
}

}  // namespace page_set_test
}  // namespace tmprof
