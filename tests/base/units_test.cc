// SPDX-License-Identifier: Apache-2.0

#include "base/units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <concepts>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "base/page_key.h"

namespace tmprof {
namespace units_test {

template <typename A, typename B>
concept Addable = requires(A a, B b) { a + b; };
template <typename A, typename B>
concept Comparable = requires(A a, B b) { a < b; };

TEST(StrongInt, IsNeverMadeFromABareNumberOrAnotherUnit) {
  EXPECT_FALSE((std::is_convertible_v<std::uint64_t, PageCount>));
  EXPECT_FALSE((std::is_convertible_v<PageCount, std::uint64_t>));
  EXPECT_FALSE((std::is_convertible_v<Vpn, PageCount>));
  EXPECT_FALSE((std::is_constructible_v<Pid, Tid>));
}

TEST(StrongInt, HasOnlyTheArithmeticThatMakesSense) {
  EXPECT_TRUE((Addable<PageCount, PageCount>));
  EXPECT_TRUE((Addable<Vpn, PageCount>));
  EXPECT_FALSE((Addable<Vpn, Vpn>));
  EXPECT_FALSE((Addable<Pid, Pid>));
  EXPECT_FALSE((Addable<NodeId, NodeId>));
  EXPECT_FALSE((Comparable<Vpn, PageCount>));
}

TEST(StrongInt, StartsAtZeroAndCostsNoMoreThanItsNumber) {
  EXPECT_EQ(Vpn(), Vpn(0));
  EXPECT_EQ(sizeof(NodeId), sizeof(std::uint16_t));
  EXPECT_TRUE(std::is_trivially_copyable_v<Pid>);
}

TEST(StrongInt, HashesAsAKey) {
  const std::unordered_set<Pid> pids{Pid(1), Pid(2), Pid(1)};
  EXPECT_EQ(pids.size(), 2u);
  EXPECT_TRUE(pids.contains(Pid(2)));
}

TEST(PageCount, AddsAndSubtracts) {
  PageCount pages(512);
  pages += PageCount(1);
  pages -= PageCount(3);
  EXPECT_EQ(pages, PageCount(510));
  EXPECT_EQ(PageCount(3) + PageCount(4), PageCount(7));
  EXPECT_EQ(PageCount(7) - PageCount(4), PageCount(3));
}

TEST(Vpn, IsTheAddressWithoutItsTwelveLowBits) {
  EXPECT_EQ(VpnOfAddress(0x7f12'3456'7fff), Vpn(0x7'f123'4567));
  EXPECT_EQ(AddressOf(Vpn(0x7'f123'4567)), 0x7f12'3456'7000u);
  EXPECT_EQ(kBasePageBytes, 4096u);
}

TEST(Vpn, DistanceIsAPageCount) { EXPECT_EQ(Vpn(12) - Vpn(5), PageCount(7)); }

TEST(VpnRange, HoldsItsStartAndNotItsEnd) {
  const VpnRange range{Vpn(10), Vpn(12)};
  EXPECT_EQ(range.size(), PageCount(2));
  EXPECT_FALSE(range.Contains(Vpn(9)));
  EXPECT_TRUE(range.Contains(Vpn(10)));
  EXPECT_TRUE(range.Contains(Vpn(11)));
  EXPECT_FALSE(range.Contains(Vpn(12)));
}

TEST(PageKey, OrdersByTargetBeforePage) {
  std::vector<PageKey> keys{
      {TargetId(1), Vpn(0)}, {TargetId(0), Vpn(9)}, {TargetId(1), Vpn(7)}, {TargetId(0), Vpn(3)}};
  std::ranges::sort(keys);
  const std::vector<PageKey> expected{
      {TargetId(0), Vpn(3)}, {TargetId(0), Vpn(9)}, {TargetId(1), Vpn(0)}, {TargetId(1), Vpn(7)}};
  EXPECT_EQ(keys, expected);
}

}  // namespace units_test
}  // namespace tmprof
