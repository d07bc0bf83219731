// SPDX-License-Identifier: Apache-2.0

#include "rank/flat_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <unordered_map>

namespace tmprof {
namespace {

struct Spread {
  std::uint64_t number;
  bool operator==(const Spread&) const = default;
  std::uint64_t Hash() const { return number * 0x9E3779B97F4A7C15u; }
};
// All at the last place, so that each goes on from the first.
struct Crowded {
  std::uint64_t number;
  bool operator==(const Crowded&) const = default;
  std::uint64_t Hash() const { return std::numeric_limits<std::uint64_t>::max(); }
};

template <typename Key>
class FlatTableTest : public testing::Test {};
using Keys = testing::Types<Spread, Crowded>;
TYPED_TEST_SUITE(FlatTableTest, Keys);

TYPED_TEST(FlatTableTest, HoldsWhatAMapHolds) {
  FlatTable<TypeParam, std::uint64_t> table;
  std::unordered_map<std::uint64_t, std::uint64_t> map;
  std::mt19937_64 random(3);
  for (std::uint64_t i = 0; i < 5'000; ++i) {
    const std::uint64_t key = random() % 1'500;  // grows past several sizes
    const auto [expected, expected_new] = map.try_emplace(key, i);
    const auto [value, is_new] = table.TryEmplace({key}, i);
    ASSERT_EQ(is_new, expected_new) << key;
    ASSERT_EQ(*value, expected->second) << key;
  }
}

TYPED_TEST(FlatTableTest, AValueCanBeSetWhereItIs) {
  FlatTable<TypeParam, std::uint64_t> table;
  *table.TryEmplace({7}, 0).first = 49;
  EXPECT_EQ(*table.TryEmplace({7}, 0).first, 49U);
}

}  // namespace
}  // namespace tmprof
