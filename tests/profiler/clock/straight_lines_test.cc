// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/clock/straight_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace tmprof {
namespace straight_lines_test {

using Samples = std::map<std::uint64_t, std::uint64_t>;

constexpr std::uint64_t kStart = 0x1000;

// Reads code that lies at kStart.
ReadCode CodeAtStart(std::vector<std::uint8_t> code) {
  return [code = std::move(code)](std::uint64_t address, std::span<std::uint8_t> into) {
    if (address < kStart || address >= kStart + code.size()) return std::size_t{0};
    const auto from = code.begin() + static_cast<std::ptrdiff_t>(address - kStart);
    const auto size =
        std::min<std::size_t>(into.size(), static_cast<std::size_t>(code.end() - from));
    std::copy_n(from, size, into.begin());
    return size;
  };
}

// 1000 add rcx,rdx · 1003 add rcx,rdx · 1006 mov rax,[rbx] · 1009 add rcx,rdx · 100c ret
const std::vector<std::uint8_t> kLoadAmongAdds = {0x48, 0x01, 0xd1, 0x48, 0x01, 0xd1, 0x48,
                                                  0x8b, 0x03, 0x48, 0x01, 0xd1, 0xc3};

TEST(StraightLinesTest, TakesWhatALoadHasBeyondItsNeighboursForStalls) {
  // The load's samples are behind it.
  const Samples samples{{0x1000, 40}, {0x1003, 10}, {0x1006, 10}, {0x1009, 110}, {0x100c, 10}};
  const StraightLines lines(samples, CodeAtStart(kLoadAmongAdds));
  EXPECT_NEAR(lines.StallPart(0x1009), 100.0 / 110, 1e-9);
  for (const std::uint64_t other : {0x1000, 0x1003, 0x1006, 0x100c})
    EXPECT_EQ(lines.StallPart(other), 0) << other;
}

TEST(StraightLinesTest, AHitInAPrivateCacheIsAStallAndNoMiss) {
  const auto lines = [](std::uint64_t of_load) {
    return StraightLines({{0x1003, 10}, {0x1006, 10}, {0x1009, of_load}, {0x100c, 10}},
                         CodeAtStart(kLoadAmongAdds));
  };
  EXPECT_NEAR(lines(400).StallPart(0x1009), 390.0 / 400, 1e-9);
  EXPECT_EQ(lines(400).MissPart(0x1009), 0);
  // 48 times as long as an add takes: the two behind a sampled address have 10 samples each, give
  // or take one of both together.
  EXPECT_NEAR(lines(4'000).MissPart(0x1009), (4'000 - 48 * 10.5) / 4'000, 1e-9);
}

TEST(StraightLinesTest, ALoadLikeItsNeighboursHasNoStall) {
  const Samples samples{{0x1000, 40}, {0x1003, 90}, {0x1006, 100}, {0x1009, 110}, {0x100c, 95}};
  EXPECT_EQ(StraightLines(samples, CodeAtStart(kLoadAmongAdds)).StallPart(0x1009), 0);
}

TEST(StraightLinesTest, ALineWithoutOtherInstructionsTellsNothing) {
  // 1000 mov rax,[rbx] · 1003 mov rax,[rbx] · 1006 add rcx,rdx · 1009 ret
  const std::vector<std::uint8_t> code = {0x48, 0x8b, 0x03, 0x48, 0x8b,
                                          0x03, 0x48, 0x01, 0xd1, 0xc3};
  const Samples samples{{0x1000, 1}, {0x1003, 1000}, {0x1006, 1}, {0x1009, 1}};
  EXPECT_EQ(StraightLines(samples, CodeAtStart(code)).StallPart(0x1003), 0);
}

TEST(StraightLinesTest, OneInstructionOfACopyWaitsForAll) {
  // 1000 mov rax,[rbx] · … · 100c mov rax,[rbx] · 100f ret
  std::vector<std::uint8_t> code;
  for (int load = 0; load < 5; ++load) code.insert(code.end(), {0x48, 0x8b, 0x03});
  code.push_back(0xc3);
  const Samples samples{{0x1000, 9},  {0x1003, 10}, {0x1006, 100},
                        {0x1009, 10}, {0x100c, 9},  {0x100f, 12}};
  const StraightLines lines(samples, CodeAtStart(code));
  EXPECT_NEAR(lines.StallPart(0x1006), 0.9, 1e-9);
  EXPECT_EQ(lines.StallPart(0x100f), 0);
}

TEST(StraightLinesTest, ATargetOfABranchBeginsALineOfItsOwn) {
  // 1000 add rcx,rdx · 1003 add rcx,rdx · 1006 mov rax,[rbx] · 1009 add rcx,rdx ·
  // 100c add rcx,rdx · 100f jnz 1006 · 1011 ret
  const std::vector<std::uint8_t> code = {0x48, 0x01, 0xd1, 0x48, 0x01, 0xd1, 0x48, 0x8b, 0x03,
                                          0x48, 0x01, 0xd1, 0x48, 0x01, 0xd1, 0x75, 0xf5, 0xc3};
  // The loop runs a hundred times as often as what comes before it.
  const Samples samples{{0x1000, 1},   {0x1003, 1},  {0x1006, 100},
                        {0x1009, 110}, {0x100c, 90}, {0x100f, 100}};
  EXPECT_EQ(StraightLines(samples, CodeAtStart(code)).StallPart(0x1009), 0);
}

TEST(StraightLinesTest, ACompareThatIsFusedWithABranchIsSampledBehindTheBranch) {
  // 1000 add rcx,rdx · 1003 add rcx,rdx · 1006 cmp rax,[rbx] · 1009 jnz 1000 · 100b ret
  const std::vector<std::uint8_t> code = {0x48, 0x01, 0xd1, 0x48, 0x01, 0xd1,
                                          0x48, 0x3b, 0x03, 0x75, 0xf5, 0xc3};
  const Samples samples{{0x1000, 10}, {0x1003, 10}, {0x1006, 10}, {0x100b, 40}};
  EXPECT_NEAR(StraightLines(samples, CodeAtStart(code)).StallPart(0x100b), 0.75, 1e-9);
}

TEST(StraightLinesTest, CodeThatCannotBeReadHasNoStalls) {
  const ReadCode none = [](std::uint64_t, std::span<std::uint8_t>) { return std::size_t{0}; };
  EXPECT_EQ(StraightLines({{0x1000, 100}}, none).StallPart(0x1000), 0);
}

}  // namespace straight_lines_test
}  // namespace tmprof
