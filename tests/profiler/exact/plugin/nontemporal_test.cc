// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/plugin/nontemporal.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace nontemporal_test {

struct Instruction {
  std::string text;  // in the syntax of GNU as
  std::vector<std::uint8_t> bytes;
};

bool IsNontemporal(const std::vector<std::uint8_t>& bytes) {
  return tiersim_is_nontemporal_store(bytes.data(), bytes.size());
}

// The bytes are those of GNU as 2.40.
TEST(NontemporalStore, IsToldByItsBytes) {
  const std::vector<Instruction> stores{
      {"movnti %eax,(%rbx)", {0x0f, 0xc3, 0x03}},
      {"movnti %rax,(%rbx)", {0x48, 0x0f, 0xc3, 0x03}},
      {"movnti %rax,%gs:(%rbx)", {0x65, 0x48, 0x0f, 0xc3, 0x03}},
      {"movntq %mm0,(%rbx)", {0x0f, 0xe7, 0x03}},
      {"movntdq %xmm0,(%rbx)", {0x66, 0x0f, 0xe7, 0x03}},
      {"movntdq %xmm9,(%r8)", {0x66, 0x45, 0x0f, 0xe7, 0x08}},
      {"movntps %xmm0,(%rbx)", {0x0f, 0x2b, 0x03}},
      {"movntpd %xmm0,(%rbx)", {0x66, 0x0f, 0x2b, 0x03}},
      {"movntss %xmm0,(%rbx)", {0xf3, 0x0f, 0x2b, 0x03}},
      {"movntsd %xmm0,(%rbx)", {0xf2, 0x0f, 0x2b, 0x03}},
      {"maskmovq %mm1,%mm0", {0x0f, 0xf7, 0xc1}},
      {"maskmovdqu %xmm1,%xmm0", {0x66, 0x0f, 0xf7, 0xc1}},
      {"vmovntdq %xmm0,(%rbx)", {0xc5, 0xf9, 0xe7, 0x03}},
      {"vmovntdq %ymm0,(%rbx)", {0xc5, 0xfd, 0xe7, 0x03}},
      {"vmovntdq %ymm9,(%r8)", {0xc4, 0x41, 0x7d, 0xe7, 0x08}},
      {"vmovntps %ymm0,(%rbx)", {0xc5, 0xfc, 0x2b, 0x03}},
      {"vmovntpd %ymm0,(%rbx)", {0xc5, 0xfd, 0x2b, 0x03}},
      {"vmovntdq %zmm0,(%rbx)", {0x62, 0xf1, 0x7d, 0x48, 0xe7, 0x03}},
      {"vmovntps %zmm0,(%rbx)", {0x62, 0xf1, 0x7c, 0x48, 0x2b, 0x03}}};
  for (const Instruction& store : stores) EXPECT_TRUE(IsNontemporal(store.bytes)) << store.text;
}

TEST(NontemporalStore, IsNoOtherInstruction) {
  const std::vector<Instruction> others{
      {"mov %rax,(%rbx)", {0x48, 0x89, 0x03}},
      {"ret", {0xc3}},
      {"nop", {0x90}},
      {"movdqa %xmm0,(%rbx)", {0x66, 0x0f, 0x7f, 0x03}},
      {"movaps %xmm0,(%rbx)", {0x0f, 0x29, 0x03}},
      {"movntdqa (%rbx),%xmm0", {0x66, 0x0f, 0x38, 0x2a, 0x03}},
      {"cvtdq2pd %xmm0,%xmm1", {0xf3, 0x0f, 0xe6, 0xc8}},
      {"cmpxchg %al,(%rbx)", {0x0f, 0xb0, 0x03}},
      {"pavgb %xmm0,%xmm1", {0x66, 0x0f, 0xe0, 0xc8}},
      {"pextrw", {0x66, 0x0f, 0xc5, 0xc8, 0x01}},
      {"vmovdqa %ymm0,(%rbx)", {0xc5, 0xfd, 0x7f, 0x03}},
      {"vmovntdqa (%rbx),%ymm0", {0xc4, 0xe2, 0x7d, 0x2a, 0x03}},
      {"vpsubw %ymm0,%ymm1,%ymm2", {0xc5, 0xf5, 0xf9, 0xd0}},
      {"movabs $0xf2b0fe70fc30f66,%rax",
       {0x48, 0xb8, 0x66, 0x0f, 0xc3, 0x0f, 0xe7, 0x0f, 0x2b, 0x0f}}};
  for (const Instruction& other : others) EXPECT_FALSE(IsNontemporal(other.bytes)) << other.text;
}

TEST(NontemporalStore, ReadsNoByteBeyondTheInstruction) {
  const std::vector<std::uint8_t> whole{0x66, 0x45, 0x0f, 0xe7, 0x08};
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::vector<std::uint8_t> cut(whole.begin(),
                                        whole.begin() + static_cast<std::ptrdiff_t>(bytes));
    EXPECT_FALSE(IsNontemporal(cut)) << bytes;
  }
  EXPECT_FALSE(IsNontemporal({0x62, 0xf1, 0x7d, 0x48}));
}

}  // namespace nontemporal_test
