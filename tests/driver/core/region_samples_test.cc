// SPDX-License-Identifier: Apache-2.0
#include "driver/core/region_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace tmprof {
namespace region_samples_test {

using testing::ElementsAre;
using testing::IsEmpty;

tmprof_region_samples Sampled(const std::vector<__u64>& pages) {
  tmprof_region_samples kept{};
  for (const __u64 page : pages) tmprof_region_sample(&kept, page);
  return kept;
}

std::vector<__u64> Order(tmprof_region_samples kept) {
  std::vector<__u64> pages(TMPROF_REGION_SAMPLED);
  pages.resize(tmprof_region_take_samples(&kept, pages.data()));
  EXPECT_EQ(kept.count, 0U);
  return pages;
}

TEST(RegionSamplesTest, WithoutSamplesThereIsNoPage) { EXPECT_THAT(Order({}), IsEmpty()); }

TEST(RegionSamplesTest, PagesComeByTheirSamplesThenTheLowestFirst) {
  EXPECT_THAT(Order(Sampled({7, 3, 9, 3, 8, 8, 3})), ElementsAre(3, 8, 7, 9));
}

TEST(RegionSamplesTest, TheMostSampledIsKeptHoweverManyOthersComeLater) {
  std::vector<__u64> pages(5, 1000);
  // Each once: with one in 32 of all, 1000 may not be lost.
  for (__u64 page = 0; page < 100; ++page) pages.push_back(page);
  EXPECT_EQ(Order(Sampled(pages)).front(), 1000u);
}

TEST(RegionSamplesTest, ThereAreNoMoreThanThereIsRoomFor) {
  std::vector<__u64> pages;
  for (__u64 page = 0; page < 100; ++page) pages.push_back(page);
  EXPECT_EQ(Order(Sampled(pages)).size(), 32u);
}

TEST(RegionSamplesTest, ANewPageTakesThePlaceOfTheLeastSampled) {
  std::vector<__u64> pages;
  for (__u64 page = 1; page <= 32; ++page)
    for (int i = 0; i < (page == 20 ? 1 : 2); ++i) pages.push_back(page);
  pages.push_back(50);
  const std::vector<__u64> order = Order(Sampled(pages));
  EXPECT_THAT(order, testing::Contains(50));
  EXPECT_THAT(order, testing::Not(testing::Contains(20)));
}

}  // namespace region_samples_test
}  // namespace tmprof
