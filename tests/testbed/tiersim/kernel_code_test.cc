// SPDX-License-Identifier: Apache-2.0

#include "testbed/tiersim/kernel_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace kernel_code_test {

tiersim_kernel_insn Decode(std::initializer_list<std::uint8_t> bytes) {
  // QEMU hands out 16 bytes at most, of which the rest is another instruction's.
  std::vector<std::uint8_t> buffer(16, 0xcc);
  std::ranges::copy(bytes, buffer.begin());
  return tiersim_decode_kernel(buffer.data(), bytes.size());
}

void ExpectDecoded(std::initializer_list<std::uint8_t> bytes, tiersim_kernel_code code,
                   unsigned int reg = 0) {
  const tiersim_kernel_insn decoded = Decode(bytes);
  EXPECT_EQ(decoded.code, code);
  EXPECT_EQ(decoded.reg, reg);
}

// Bytes as GNU as assembles them.
TEST(KernelCode, TheDoorbellIsTheExchangeOfR14WithItselfAndNoOther) {
  ExpectDecoded({0x4d, 0x87, 0xf6}, TIERSIM_CODE_DOORBELL);  // xchg %r14,%r14
  ExpectDecoded({0x48, 0x87, 0xf6}, TIERSIM_CODE_OTHER);     // xchg %rsi,%rsi
  ExpectDecoded({0x4d, 0x87, 0xff}, TIERSIM_CODE_OTHER);     // xchg %r15,%r15
}

TEST(KernelCode, ALoadOfCr3TellsItsRegister) {
  ExpectDecoded({0x0f, 0x22, 0xd8}, TIERSIM_CODE_LOAD_CR3, 0);         // mov %rax,%cr3
  ExpectDecoded({0x0f, 0x22, 0xdf}, TIERSIM_CODE_LOAD_CR3, 7);         // mov %rdi,%cr3
  ExpectDecoded({0x41, 0x0f, 0x22, 0xdc}, TIERSIM_CODE_LOAD_CR3, 12);  // mov %r12,%cr3
}

TEST(KernelCode, ReadingCr3OrLoadingAnotherRegisterIsNone) {
  ExpectDecoded({0x0f, 0x20, 0xd8}, TIERSIM_CODE_OTHER);        // mov %cr3,%rax
  ExpectDecoded({0x0f, 0x22, 0xd0}, TIERSIM_CODE_OTHER);        // mov %rax,%cr2
  ExpectDecoded({0x44, 0x0f, 0x22, 0xc0}, TIERSIM_CODE_OTHER);  // mov %rax,%cr8
}

TEST(KernelCode, FlushesArePagesWhereTheAddressIsInARegisterAndElseEverything) {
  ExpectDecoded({0x0f, 0x01, 0x3f}, TIERSIM_CODE_FLUSH_PAGE, 7);          // invlpg (%rdi)
  ExpectDecoded({0x41, 0x0f, 0x01, 0x3f}, TIERSIM_CODE_FLUSH_PAGE, 15);   // invlpg (%r15)
  ExpectDecoded({0x0f, 0x01, 0x3c, 0x24}, TIERSIM_CODE_FLUSH_ALL);        // invlpg (%rsp)
  ExpectDecoded({0x0f, 0x01, 0x7f, 0x08}, TIERSIM_CODE_FLUSH_ALL);        // invlpg 8(%rdi)
  ExpectDecoded({0x0f, 0x22, 0xe0}, TIERSIM_CODE_FLUSH_ALL);              // mov %rax,%cr4
  ExpectDecoded({0x66, 0x0f, 0x38, 0x82, 0x07}, TIERSIM_CODE_FLUSH_ALL);  // invpcid (%rdi),%rax
}

TEST(KernelCode, NeighboursOfInvlpgAreNone) {
  ExpectDecoded({0x0f, 0x01, 0xf8}, TIERSIM_CODE_OTHER);  // swapgs
  ExpectDecoded({0x0f, 0x01, 0xf9}, TIERSIM_CODE_OTHER);  // rdtscp
  ExpectDecoded({0x0f, 0x01, 0x1f}, TIERSIM_CODE_OTHER);  // lidt (%rdi)
}

TEST(KernelCode, NoByteBeyondTheInstructionIsLookedAt) {
  ExpectDecoded({0x0f}, TIERSIM_CODE_OTHER);
  ExpectDecoded({0x41}, TIERSIM_CODE_OTHER);
  ExpectDecoded({}, TIERSIM_CODE_OTHER);
}

}  // namespace kernel_code_test
