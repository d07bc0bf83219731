// SPDX-License-Identifier: Apache-2.0

#include "objects/arena_blocks.h"

#include <gtest/gtest.h>

#include <map>

namespace tmprof {
namespace arena_blocks_test {

TEST(ArenaBlocks, TakeAHeaderAndAreRoundedUpToTheNextClass) {
  // Classes are 16 bytes apart up to 128, then 160, 192, 224, 256, 320, 384, 448, 512, 640 ...
  const std::map<std::uint64_t, std::uint64_t> block_of{
      {0, 32},    {1, 32},    {16, 32},   {17, 48},   {128, 144},   {129, 176},  {160, 176},
      {161, 208}, {464, 528}, {512, 528}, {513, 656}, {4096, 4112}, {4097, 5136}};
  for (const auto& [bytes, block] : block_of) EXPECT_EQ(ArenaBlockBytes(bytes), block) << bytes;
}

TEST(ArenaBlocks, AreLargerByLessThanAQuarter) {
  for (std::uint64_t bytes = 129; bytes <= kMostPlacedBytes; bytes += bytes / 7) {
    const std::uint64_t block = ArenaBlockBytes(bytes) - kArenaHeaderBytes;
    EXPECT_GE(block, bytes);
    EXPECT_LT(block, bytes + bytes / 4 + kArenaUnitBytes) << bytes;
  }
  EXPECT_EQ(ArenaBlockBytes(kMostPlacedBytes), kMostPlacedBytes + kArenaHeaderBytes);
}

TEST(ArenaBlocks, HaveTheUnitsOfTheirClass) {
  for (std::uint32_t size_class = 0; size_class < 120; ++size_class) {
    EXPECT_EQ(ArenaClassOf(ArenaUnitsOf(size_class)), size_class);
    EXPECT_EQ(ArenaClassOf(ArenaUnitsOf(size_class) + 1), size_class + 1);
  }
}

}  // namespace arena_blocks_test
}  // namespace tmprof
