// SPDX-License-Identifier: Apache-2.0

#include "testbed/tiersim/pointer_hook.h"

#include <gtest/gtest.h>

#include <array>

namespace pointer_hook_test {

int wanted, other, replacement;

TEST(PointerHook, ReplacesAllThatItExpectsAndNothingElse) {
  std::array<void*, 4> table{&other, &wanted, nullptr, &wanted};
  std::size_t found = 0;
  EXPECT_TRUE(
      tiersim_replace_pointers(table.data(), table.size(), &wanted, &replacement, 2, &found));
  EXPECT_EQ(found, 2u);
  EXPECT_EQ(table, (std::array<void*, 4>{&other, &replacement, nullptr, &replacement}));
}

TEST(PointerHook, ChangesNothingWhereItFindsMoreOrFewer) {
  const std::array<void*, 4> before{&wanted, &wanted, &other, &wanted};
  for (const std::size_t expected : {std::size_t{2}, std::size_t{4}}) {
    auto table = before;
    std::size_t found = 0;
    EXPECT_FALSE(tiersim_replace_pointers(table.data(), table.size(), &wanted, &replacement,
                                          expected, &found));
    EXPECT_EQ(found, 3u);
    EXPECT_EQ(table, before);
  }
}

TEST(PointerHook, LooksNoFurtherThanTheTable) {
  std::array<void*, 3> table{&wanted, &wanted, &wanted};
  std::size_t found = 0;
  EXPECT_TRUE(tiersim_replace_pointers(table.data(), 2, &wanted, &replacement, 2, &found));
  EXPECT_EQ(table[2], &wanted);
}

}  // namespace pointer_hook_test
