// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/access_ages.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace tmprof {
namespace access_ages_test {

using std::chrono::seconds;

constexpr TargetId kTarget{1};
constexpr TargetId kOther{2};
const std::vector<TargetId> kBoth{kTarget, kOther};

MonotonicTime At(std::uint64_t second) { return MonotonicTime(seconds(second)); }
PageKey Page(std::uint64_t vpn, TargetId target = kTarget) { return {target, Vpn(vpn)}; }
std::optional<MonotonicTime> LastSeen(const AccessAges& ages, PageKey page,
                                      std::uint64_t pages = 1) {
  return ages.LastSeen(page, PageCount(pages));
}

TEST(AccessAges, AreKeptWhileSomebodyAsks) {
  AccessAges ages;
  EXPECT_FALSE(ages.Follows(At(1)));
  ages.Ask(At(1));
  EXPECT_TRUE(ages.Follows(At(2)));
  ages.AddEpoch(At(2), {{Page(5), 1}}, kBoth);
  EXPECT_EQ(LastSeen(ages, Page(5)), At(2));
  EXPECT_TRUE(ages.Follows(At(61)));
  EXPECT_FALSE(ages.Follows(At(62)));
  EXPECT_EQ(LastSeen(ages, Page(5)), std::nullopt);
  EXPECT_EQ(ages.size(), 0U);
}

TEST(AccessAges, AreThoseOfTheLastAccess) {
  AccessAges ages;
  ages.AddEpoch(At(1), {{Page(5), 1}, {Page(7), 2}}, kBoth);
  ages.AddEpoch(At(2), {{Page(7), 1}}, kBoth);
  EXPECT_EQ(LastSeen(ages, Page(5)), At(1));
  EXPECT_EQ(LastSeen(ages, Page(6)), std::nullopt);
  EXPECT_EQ(LastSeen(ages, Page(7)), At(2));
  EXPECT_EQ(LastSeen(ages, Page(8)), At(1));
  EXPECT_EQ(LastSeen(ages, Page(9)), std::nullopt);
}

TEST(AccessAges, FollowPagesOfASpanThatIsCut) {
  AccessAges ages;
  ages.AddEpoch(At(1), {{Page(0), 512}}, kBoth);
  ages.AddEpoch(At(2), {{Page(100), 10}, {Page(200), 10}}, kBoth);
  EXPECT_EQ(LastSeen(ages, Page(99)), At(1));
  EXPECT_EQ(LastSeen(ages, Page(100)), At(2));
  EXPECT_EQ(LastSeen(ages, Page(109)), At(2));
  EXPECT_EQ(LastSeen(ages, Page(110)), At(1));
  EXPECT_EQ(LastSeen(ages, Page(205)), At(2));
  EXPECT_EQ(LastSeen(ages, Page(511)), At(1));
  EXPECT_EQ(LastSeen(ages, Page(512)), std::nullopt);
}

TEST(AccessAges, OfASpanAreThoseOfItsLatestPage) {
  AccessAges ages;
  ages.AddEpoch(At(1), {{Page(100), 1}, {Page(600), 1}}, kBoth);
  ages.AddEpoch(At(2), {{Page(300), 1}}, kBoth);
  EXPECT_EQ(LastSeen(ages, Page(0), 512), At(2));
  EXPECT_EQ(LastSeen(ages, Page(0), 300), At(1));
  EXPECT_EQ(LastSeen(ages, Page(301), 299), std::nullopt);
  EXPECT_EQ(LastSeen(ages, Page(301), 300), At(1));
}

TEST(AccessAges, ForgetTargetsThatAreGone) {
  AccessAges ages;
  ages.AddEpoch(At(1), {{Page(5), 1}, {Page(5, kOther), 1}}, kBoth);
  ages.AddEpoch(At(2), {}, std::vector{kOther});
  EXPECT_EQ(LastSeen(ages, Page(5)), std::nullopt);
  EXPECT_EQ(LastSeen(ages, Page(5, kOther)), At(1));
}

TEST(AccessAges, AreThoseOfAListOfSinglePages) {
  std::mt19937 random(7);
  const auto below = [&random](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  };
  AccessAges ages;
  std::map<PageKey, MonotonicTime> expected;
  for (std::uint64_t epoch = 1; epoch <= 200; ++epoch) {
    std::vector<AccessAges::Span> accessed;
    for (std::uint32_t i = below(6); i > 0; --i) {
      const AccessAges::Span span{Page(below(60), kBoth[below(2)]), 1 + below(20)};
      accessed.push_back(span);
      for (std::uint32_t page = 0; page < span.pages; ++page) {
        expected[{span.first.target, span.first.vpn + PageCount(page)}] = At(epoch);
      }
    }
    ages.AddEpoch(At(epoch), accessed, kBoth);
    for (const TargetId target : kBoth) {
      for (std::uint64_t vpn = 0; vpn < 90; ++vpn) {
        const auto found = expected.find(Page(vpn, target));
        const auto seen = found == expected.end() ? std::nullopt : std::optional(found->second);
        ASSERT_EQ(LastSeen(ages, Page(vpn, target)), seen) << "page " << vpn << " epoch " << epoch;
      }
    }
  }
}

}  // namespace access_ages_test
}  // namespace tmprof
