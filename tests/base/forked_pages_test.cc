// SPDX-License-Identifier: Apache-2.0

#include "base/forked_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/kept_groups.h"

namespace tmprof {
namespace forked_pages_test {

// The page at an address of a process, and its frame.
struct Seen {
  std::uint32_t target;
  std::uint64_t vpn;
  std::uint64_t frame;
  std::uint32_t span = 1;
  std::uint32_t looks = 1;
  std::uint32_t samples = 0;
};

// The records of an epoch, by a naive comparison. `seen` ascend.
PageColumns Compared(const std::vector<Seen>& seen) {
  PageColumns pages;
  std::vector<std::uint32_t> same_as;
  for (std::uint32_t i = 0; i < seen.size(); ++i) {
    const Seen& each = seen[i];
    Append(pages, {.key = {TargetId(each.target), Vpn(each.vpn)},
                   .span = PageCount(each.span),
                   .looks = each.looks,
                   .load_samples = each.samples});
    std::uint32_t first = 0;
    while (seen[first].vpn != each.vpn || seen[first].frame != each.frame ||
           seen[first].span != each.span) {
      ++first;
    }
    same_as.push_back(first);
  }
  pages.same_as = same_as;
  return pages;
}

class ForkedPagesTest : public testing::Test {
 protected:
  void Add(const std::vector<Seen>& seen) { forked_.Add(Compared(seen)); }
  PageKey Name(std::uint32_t target, std::uint64_t vpn) const {
    for (const ForkedPages::Run& run : forked_.RunsOf(TargetId(target))) {
      if (run.range.Contains(Vpn(vpn)))
        return {run.name.target, run.name.vpn + (Vpn(vpn) - run.range.start)};
    }
    return Key(target, vpn);
  }
  static PageKey Key(std::uint32_t target, std::uint64_t vpn) {
    return {TargetId(target), Vpn(vpn)};
  }
  ForkedPages forked_;
};

TEST_F(ForkedPagesTest, JoinsPagesOfEqualFramesUnderTheAddressOfTheFirst) {
  Add({{0, 10, 1}, {0, 11, 2}, {1, 10, 1}, {1, 11, 3}, {2, 10, 1}});
  EXPECT_EQ(Name(0, 10), Key(0, 10));
  EXPECT_EQ(Name(1, 10), Key(0, 10));
  EXPECT_EQ(Name(2, 10), Key(0, 10));
  EXPECT_EQ(Name(1, 11), Key(1, 11));
}

TEST_F(ForkedPagesTest, KeepsNeighboursInOneRun) {
  Add({{0, 10, 1}, {0, 11, 2}, {0, 12, 3}, {1, 10, 1}, {1, 11, 2}, {1, 12, 3}});
  ASSERT_EQ(forked_.RunsOf(TargetId(1)).size(), 1u);
  EXPECT_EQ(forked_.RunsOf(TargetId(1))[0], (ForkedPages::Run{{Vpn(10), Vpn(13)}, Key(0, 10)}));
}

TEST_F(ForkedPagesTest, PartsPagesOnceBothWereLookedAtAndDiffer) {
  Add({{0, 10, 1}, {0, 11, 2}, {0, 12, 3}, {1, 10, 1}, {1, 11, 2}, {1, 12, 3}});
  Add({{0, 11, 2}, {1, 11, 4}});
  EXPECT_EQ(Name(1, 10), Key(0, 10));
  EXPECT_EQ(Name(1, 11), Key(1, 11));
  EXPECT_EQ(Name(1, 12), Key(0, 12));
}

TEST_F(ForkedPagesTest, KeepsPagesJoinedWhereOneAloneWasLookedAt) {
  Add({{0, 10, 1}, {1, 10, 1}});
  Add({{1, 10, 4}});
  EXPECT_EQ(Name(1, 10), Key(0, 10));
  // Samples do not show the frame.
  Add({{0, 10, 1, 1, 0, 3}, {1, 10, 4}});
  EXPECT_EQ(Name(1, 10), Key(0, 10));
}

TEST_F(ForkedPagesTest, PartsPagesByARecordWithoutEvidence) {
  Add({{0, 10, 1}, {1, 10, 1}});
  Add({{0, 10, 1, 1, 0}, {1, 10, 4}});
  EXPECT_EQ(Name(1, 10), Key(1, 10));
}

TEST_F(ForkedPagesTest, KeepsPagesJoinedInAnEpochThatDidNotCompare) {
  Add({{0, 10, 1}, {1, 10, 1}});
  PageColumns pages = Compared({{0, 10, 1}, {1, 10, 4}});
  pages.same_as.reset();
  forked_.Add(pages);
  EXPECT_EQ(Name(1, 10), Key(0, 10));
}

TEST_F(ForkedPagesTest, KeepsPagesJoinedThatWereNotCompared) {
  constexpr std::uint32_t kOut = kNotCompared;
  Add({{0, 10, 1}, {0, 11, 2}, {1, 10, 1}, {1, 11, 2}});
  PageColumns pages = Compared({{0, 10, 1}, {0, 11, 2}, {1, 10, 4}, {1, 11, 5}});
  pages.same_as = {kOut, 1, 2, 3};
  forked_.Add(pages);
  EXPECT_EQ(Name(1, 10), Key(0, 10)) << "a copy, or the first process has written";
  EXPECT_EQ(Name(1, 11), Key(1, 11));
  pages = Compared({{0, 12, 1}, {1, 12, 1}});
  pages.same_as = {kOut, kOut};
  forked_.Add(pages);
  EXPECT_EQ(Name(1, 12), Key(1, 12)) << "two records that were left out are not of one page";
}

TEST_F(ForkedPagesTest, KeepsHugePagesJoinedWhereOneOfThemWasSplit) {
  Add({{0, 512, 512, 512}, {1, 512, 512, 512}});
  Add({{0, 512, 512, 512}, {1, 512, 512}, {1, 513, 9000}});
  EXPECT_EQ(Name(1, 512), Key(0, 512));
  EXPECT_EQ(Name(1, 700), Key(0, 700));
}

TEST_F(ForkedPagesTest, NamesTheCopyOfTheOthersByOneOfThemOnceTheFirstHasWritten) {
  Add({{0, 10, 1}, {1, 10, 1}, {2, 10, 1}});
  Add({{0, 10, 7}, {1, 10, 1}, {2, 10, 1}});
  EXPECT_EQ(Name(0, 10), Key(0, 10));
  EXPECT_EQ(Name(1, 10), Key(1, 10));
  EXPECT_EQ(Name(2, 10), Key(1, 10));
}

TEST_F(ForkedPagesTest, KeepsTheNameOfAProcessThatIsGone) {
  Add({{0, 10, 1}, {1, 10, 1}, {2, 10, 1}});
  forked_.KeepOnly(std::vector{TargetId(1), TargetId(2)});
  Add({{1, 10, 1}, {2, 10, 1}});
  EXPECT_EQ(Name(1, 10), Key(0, 10));
  EXPECT_EQ(Name(2, 10), Key(0, 10));
  // Two copies cannot both have it.
  Add({{1, 10, 1}, {2, 10, 8}, {3, 10, 1}, {4, 10, 8}});
  EXPECT_EQ(Name(1, 10), Name(3, 10));
  EXPECT_EQ(Name(2, 10), Name(4, 10));
  EXPECT_NE(Name(1, 10), Name(2, 10));
}

TEST_F(ForkedPagesTest, ForgetsPagesThatAreNoLongerMapped) {
  Add({{0, 10, 1}, {0, 11, 2}, {0, 12, 3}, {1, 10, 1}, {1, 11, 2}, {1, 12, 3}});
  forked_.KeepWithin(TargetId(1), std::vector<VpnRange>{{Vpn(0), Vpn(11)}, {Vpn(12), Vpn(20)}});
  EXPECT_EQ(Name(1, 10), Key(0, 10));
  EXPECT_EQ(Name(1, 11), Key(1, 11));
  EXPECT_EQ(Name(1, 12), Key(0, 12));
  forked_.KeepWithin(TargetId(1), {});
  EXPECT_TRUE(forked_.RunsOf(TargetId(1)).empty());
}

// Processes fork, write and exit; each epoch sees some of their pages. Whatever it sees, two pages
// have one name exactly if they are one page.
TEST_F(ForkedPagesTest, AgreeWithAPageTableOfEveryProcess) {
  constexpr std::uint64_t kPages = 8;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&random](std::size_t n) { return random() % n; };
    forked_ = {};
    std::map<std::uint32_t, std::vector<std::uint64_t>> frames_of;  // by process
    std::uint64_t next_frame = kPages;
    std::uint32_t next_target = 1;
    for (std::uint64_t page = 0; page < kPages; ++page) frames_of[0].push_back(page);
    for (int epoch = 0; epoch < 30; ++epoch) {
      const auto any = [&] { return std::next(frames_of.begin(), below(frames_of.size())); };
      if (frames_of.size() < 6 && below(2) == 0) {
        frames_of[next_target++] = std::vector(any()->second);
      }
      for (std::size_t writes = below(4); writes > 0; --writes) {
        any()->second[below(kPages)] = next_frame++;
      }
      if (frames_of.size() > 2 && below(6) == 0) {
        frames_of.erase(any());
        if (below(2) == 0) {
          std::vector<TargetId> live;
          for (const auto& [target, frames] : frames_of) live.push_back(TargetId(target));
          forked_.KeepOnly(live);
        }
      }
      const std::size_t seen_of_8 = 1 + below(8);
      std::vector<Seen> seen;
      for (const auto& [target, frames] : frames_of) {
        for (std::uint64_t page = 0; page < kPages; ++page) {
          if (below(8) < seen_of_8) seen.push_back({target, page, frames[page]});
        }
      }
      Add(seen);
      for (const Seen& a : seen) {
        for (const Seen& b : seen) {
          const bool is_one = a.vpn == b.vpn && a.frame == b.frame;
          ASSERT_EQ(Name(a.target, a.vpn) == Name(b.target, b.vpn), is_one)
              << "epoch " << epoch << ", page " << a.vpn << " of " << a.target << ", " << b.vpn
              << " of " << b.target;
        }
      }
    }
  }
}

}  // namespace forked_pages_test
}  // namespace tmprof
