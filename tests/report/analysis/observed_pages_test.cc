// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/observed_pages.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <random>

namespace tmprof {
namespace observed_pages_test {

using std::chrono::seconds;

constexpr TargetId kTarget{3};

MonotonicTime At(std::int64_t s) { return MonotonicTime(seconds(s)); }
PageKey Page(std::uint64_t page, TargetId target = kTarget) { return {target, Vpn(page)}; }

TEST(ObservedPages, CountAnObjectsBytesThatWereObservedSinceItsBirth) {
  ObservedPages pages;
  pages.See(Page(10), PageCount(2), At(1));
  pages.See(Page(14), PageCount(4), At(1));
  pages.See(Page(10, TargetId(4)), PageCount(50), At(1));
  pages.See(Page(15), PageCount(1), At(2));
  // 1 KiB of page 11, nothing of 12 and 13, 3 KiB of page 14.
  EXPECT_EQ(pages.BytesSince(kTarget, 11 * 4096 + 3072, 14 * 4096 + 3072, At(0)), 4096U);
  EXPECT_EQ(pages.BytesSince(kTarget, 0, 100 * 4096, At(0)), 6 * 4096U);
  EXPECT_EQ(pages.BytesSince(kTarget, 0, 100 * 4096, At(1)), 4096U) << "page 15 again";
  EXPECT_EQ(pages.BytesSince(kTarget, 0, 100 * 4096, At(2)), 0U);
  EXPECT_EQ(pages.BytesSince(TargetId(2), 0, 100 * 4096, At(0)), 0U);
  EXPECT_EQ(pages.BytesSince(TargetId(5), 0, 100 * 4096, At(0)), 0U);
}

TEST(ObservedPages, AreAsATableOfAllPagesHasThem) {
  constexpr std::size_t kPages = 64;
  std::mt19937 random(7);
  ObservedPages pages;
  std::array<std::int64_t, kPages> last;
  last.fill(-10);  // before all that is asked for
  for (std::int64_t time = 1; time < 400; ++time) {
    const std::size_t first = random() % kPages;
    const std::size_t count = 1 + random() % (kPages - first);
    pages.See(Page(first), PageCount(count), At(time / 3 + 1));
    for (std::size_t i = 0; i < count; ++i) last[first + i] = time / 3 + 1;
    const std::size_t from = random() % kPages;
    const std::size_t to = from + random() % (kPages - from);
    const std::int64_t since = time / 3 + 1 - static_cast<std::int64_t>(random() % 6);
    std::uint64_t expected = 0;
    for (std::size_t i = from; i < to; ++i) expected += last[i] > since ? 4096 : 0;
    ASSERT_EQ(pages.BytesSince(kTarget, from * 4096, to * 4096, At(since)), expected) << time;
  }
}

}  // namespace observed_pages_test
}  // namespace tmprof
