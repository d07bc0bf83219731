// SPDX-License-Identifier: Apache-2.0

#include "testbed/tiersim/page_counts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <tuple>

namespace page_counts_test {

class PageCountsTest : public testing::Test {
 protected:
  ~PageCountsTest() override { tiersim_pages_free(&pages_); }
  tmprof_truth_page& Find(std::uint32_t target, std::uint64_t vpn, std::uint64_t pfn) {
    tmprof_truth_page* page = tiersim_pages_find(&pages_, target, vpn, pfn);
    EXPECT_NE(page, nullptr);
    return *page;
  }

  tiersim_pages pages_{};
};

TEST_F(PageCountsTest, HaveAnEntryForEachTargetPageAndFrame) {
  Find(1, 10, 100).loads = 1;
  Find(2, 10, 100).loads = 2;
  Find(1, 11, 100).loads = 3;
  Find(1, 10, 101).loads = 4;  // moved
  EXPECT_EQ(pages_.count, 4u);
  EXPECT_EQ(Find(1, 10, 100).loads, 1u);
  EXPECT_EQ(Find(2, 10, 100).loads, 2u);
  EXPECT_EQ(Find(1, 11, 100).loads, 3u);
  EXPECT_EQ(Find(1, 10, 101).loads, 4u);
  EXPECT_EQ(pages_.count, 4u);
}

TEST_F(PageCountsTest, KeepTheirCountsAsTheTableGrows) {
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint64_t>, std::uint64_t> expected;
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto target = static_cast<std::uint32_t>(random() % 3);
    const std::uint64_t vpn = 0x7f0000000 + random() % 10'000;
    const std::uint64_t pfn = random() % 2 ? vpn & 0xffff : 7;
    ++Find(target, vpn, pfn).stores;
    ++expected[{target, vpn, pfn}];
  }
  ASSERT_EQ(pages_.count, expected.size());
  for (const auto& [key, count] : expected) {
    EXPECT_EQ(Find(std::get<0>(key), std::get<1>(key), std::get<2>(key)).stores, count);
  }
}

TEST_F(PageCountsTest, AreNewAfterAClear) {
  Find(1, 10, 100).llc_misses = 5;
  tiersim_pages_clear(&pages_);
  EXPECT_EQ(pages_.count, 0u);
  EXPECT_EQ(Find(1, 10, 100).llc_misses, 0u);
  EXPECT_EQ(pages_.count, 1u);
}

}  // namespace page_counts_test
