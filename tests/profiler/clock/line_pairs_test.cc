// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/clock/line_pairs.h"

#include <gtest/gtest.h>

namespace tmprof {
namespace line_pairs_test {

constexpr Pid kProcess{100};
constexpr std::uint64_t kPage = 0x7000'0000;

TEST(LinePairsTest, CountsPairsOfAPageAndThoseOfOneLine) {
  LinePairs pairs;
  pairs.Add(kProcess, kPage);
  EXPECT_EQ(pairs.Take().pairs, 0u) << "one sample is no pair";
  pairs.Add(kProcess, kPage + 63);
  for (const std::uint64_t line : {0, 1}) pairs.Add(kProcess, kPage + kBasePageBytes + line * 64);
  const LinePairs::Counts counts = pairs.Take();
  EXPECT_EQ(counts.pairs, 2u) << "the first is of two epochs";
  EXPECT_EQ(counts.of_one_line, 1u);
  EXPECT_EQ(pairs.Take().pairs, 0u);
}

TEST(LinePairsTest, KeepsPagesAndProcessesApart) {
  LinePairs pairs;
  pairs.Add(kProcess, kPage);
  pairs.Add(Pid(101), kPage);
  pairs.Add(kProcess, kPage + kBasePageBytes);
  EXPECT_EQ(pairs.Take().pairs, 0u);
}

TEST(LinePairsTest, APageCountsOnce) {
  LinePairs pairs;
  for (int i = 0; i < 100; ++i) pairs.Add(kProcess, kPage);
  EXPECT_EQ(pairs.Take().pairs, 1u);
}

TEST(LinePairsTest, PagesAreNotThoseOfAProcessThatHadTheNumberBefore) {
  LinePairs pairs;
  pairs.Add(kProcess, kPage);
  pairs.Forget(kProcess);
  pairs.Forget(Pid(102));
  pairs.Add(kProcess, kPage);
  EXPECT_EQ(pairs.Take().pairs, 0u);
}

TEST(LinePairsTest, MorePagesThanItHasRoomForDoNotCountUntilAProcessEnds) {
  LinePairs pairs;
  for (std::uint64_t page = 0; page < LinePairs::kMostPages; ++page)
    pairs.Add(kProcess, page << kBasePageShift);
  for (int i = 0; i < 2; ++i) pairs.Add(Pid(101), kPage);
  EXPECT_EQ(pairs.Take().pairs, 0u);
  for (int i = 0; i < 2; ++i) pairs.Add(kProcess, 0);
  EXPECT_EQ(pairs.Take().pairs, 1u) << "pages that it knows go on counting";
  pairs.Forget(kProcess);
  for (int i = 0; i < 2; ++i) pairs.Add(Pid(101), kPage);
  EXPECT_EQ(pairs.Take().pairs, 1u);
}

}  // namespace line_pairs_test
}  // namespace tmprof
