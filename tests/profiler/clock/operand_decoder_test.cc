// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/clock/operand_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace tmprof {
namespace operand_decoder_test {

// Machine code was assembled by hand from Intel SDM vol. 2; each line says what it is.
constexpr std::uint64_t kIp = 0x401000;
constexpr RegisterIndex kRax = 0, kRcx = 1, kRdx = 2, kRbx = 3, kRsp = 4, kRsi = 6, kRdi = 7;

using Code = std::vector<std::uint8_t>;

// A run of one-byte nops in front, as a compiler would align with, so that sweeps fall into step.
Code AfterNops(std::initializer_list<std::uint8_t> code) {
  Code bytes(64 + code.size(), 0x90);
  std::ranges::copy(code, bytes.begin() + 64);
  return bytes;
}

Culprit Find(const Code& before, const Code& from = {0x90, 0x90, 0x90, 0x90}) {
  return FindCulprit(before, from, kIp);
}

TEST(OperandDecoder, TakesTheInstructionBeforeTheInterruptedOne) {
  // mov rax, [rbx+8]; interrupted at mov rdx, [rcx]
  const Culprit culprit = Find(AfterNops({0x48, 0x8b, 0x43, 0x08}), {0x48, 0x8b, 0x11});
  ASSERT_EQ(culprit.outcome, OperandOutcome::kAddress);
  EXPECT_EQ(culprit.first.base, kRbx);
  EXPECT_EQ(culprit.first.displacement, 8);
  EXPECT_FALSE(culprit.first.is_store);
}

TEST(OperandDecoder, ComputesBasePlusScaledIndexPlusDisplacement) {
  // mov rax, [rbx+rcx*8-16]
  const Culprit culprit = Find(AfterNops({0x48, 0x8b, 0x44, 0xcb, 0xf0}));
  ASSERT_EQ(culprit.outcome, OperandOutcome::kAddress);
  GeneralRegisters registers{};
  registers[kRbx] = 0x10000;
  registers[kRcx] = 3;
  EXPECT_EQ(culprit.first.Address(registers), 0x10000u + 24 - 16);
}

TEST(OperandDecoder, ResolvesAddressesRelativeToTheNextInstruction) {
  // mov eax, [rip+0x100]: relative to the instruction's end, which is the interrupted address
  const Culprit culprit = Find(AfterNops({0x8b, 0x05, 0x00, 0x01, 0x00, 0x00}));
  ASSERT_EQ(culprit.outcome, OperandOutcome::kAddress);
  EXPECT_EQ(culprit.first.Address({}), kIp + 0x100);
}

TEST(OperandDecoder, WrapsAddressesOf32BitOperands) {
  // mov eax, [ebx]
  const Culprit culprit = Find(AfterNops({0x67, 0x8b, 0x03}));
  GeneralRegisters registers{};
  registers[kRbx] = 0x1'0000'2000;
  EXPECT_EQ(culprit.first.Address(registers), 0x2000u);
}

TEST(OperandDecoder, TellsStoresAndReadModifyWritesFromLoads) {
  EXPECT_TRUE(Find(AfterNops({0x48, 0x89, 0x03})).first.is_store);   // mov [rbx], rax
  EXPECT_TRUE(Find(AfterNops({0x48, 0x01, 0x03})).first.is_store);   // add [rbx], rax
  EXPECT_FALSE(Find(AfterNops({0x48, 0x03, 0x03})).first.is_store);  // add rax, [rbx]
  EXPECT_FALSE(Find(AfterNops({0x48, 0x3b, 0x03})).first.is_store);  // cmp rax, [rbx]
}

TEST(OperandDecoder, RefusesALoadThatOverwroteItsOwnAddressRegister) {
  EXPECT_EQ(Find(AfterNops({0x48, 0x8b, 0x00})).outcome,  // mov rax, [rax]
            OperandOutcome::kClobbered);
  EXPECT_EQ(Find(AfterNops({0x8a, 0x00})).outcome,  // mov al, [rax]: part of it
            OperandOutcome::kClobbered);
  EXPECT_EQ(Find(AfterNops({0x48, 0x8b, 0x0c, 0xcb})).outcome,  // mov rcx, [rbx+rcx*8]
            OperandOutcome::kClobbered);
  EXPECT_EQ(Find(AfterNops({0x48, 0x0f, 0x44, 0x00})).outcome,  // cmovz rax, [rax]: perhaps
            OperandOutcome::kClobbered);
}

TEST(OperandDecoder, RefusesGathers) {
  // vpgatherqq ymm0, [rax+ymm1*8], ymm2
  EXPECT_EQ(Find(AfterNops({0xc4, 0xe2, 0xed, 0x91, 0x04, 0xc8})).outcome,
            OperandOutcome::kVectorIndex);
}

TEST(OperandDecoder, RefusesThreadLocalOperands) {
  // mov rax, fs:[0x28]
  EXPECT_EQ(Find(AfterNops({0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0x00, 0x00, 0x00})).outcome,
            OperandOutcome::kThreadLocal);
}

TEST(OperandDecoder, LooksBehindAFusedCompareAndBranch) {
  // cmp [rdi], rax; jne +0x40
  const Culprit culprit = Find(AfterNops({0x48, 0x39, 0x07, 0x75, 0x40}));
  ASSERT_EQ(culprit.outcome, OperandOutcome::kAddress);
  EXPECT_EQ(culprit.first.base, kRdi);
}

TEST(OperandDecoder, DoesNotLookBehindABranchThatFusesWithNothing) {
  // mov rax, [rdi]; jne +0x40: the move retired before the branch
  EXPECT_EQ(Find(AfterNops({0x48, 0x8b, 0x07, 0x75, 0x40})).outcome, OperandOutcome::kNoOperand);
}

TEST(OperandDecoder, RefusesToLookBackAcrossABranchTarget) {
  // mov rax, [rbx]; interrupted at: nop; jmp -3, which lands on the interrupted address
  const Culprit at_ip = Find(AfterNops({0x48, 0x8b, 0x03}), {0x90, 0xeb, 0xfd});
  EXPECT_EQ(at_ip.outcome, OperandOutcome::kBranchTarget);
  // the same code with jmp -6, which lands on the load itself: it runs before IP either way
  const Culprit at_load = Find(AfterNops({0x48, 0x8b, 0x03}), {0x90, 0xeb, 0xfa});
  EXPECT_EQ(at_load.outcome, OperandOutcome::kAddress);
}

TEST(OperandDecoder, RefusesTheJumpTargetBetweenAFusedPair) {
  // cmp [rdi], rax; jne +2; then, at IP: nop; jmp -5, which lands on the jne
  EXPECT_EQ(Find(AfterNops({0x48, 0x39, 0x07, 0x75, 0x02}), {0x90, 0xeb, 0xfb}).outcome,
            OperandOutcome::kBranchTarget);
}

TEST(OperandDecoder, RefusesWhatFollowsACallJumpReturnOrSystemCall) {
  EXPECT_EQ(Find(AfterNops({0xe8, 0x00, 0x10, 0x00, 0x00})).outcome,  // call +0x1000
            OperandOutcome::kAfterTransfer);
  EXPECT_EQ(Find(AfterNops({0xc3})).outcome, OperandOutcome::kAfterTransfer);        // ret
  EXPECT_EQ(Find(AfterNops({0xff, 0xe0})).outcome, OperandOutcome::kAfterTransfer);  // jmp rax
  EXPECT_EQ(Find(AfterNops({0x0f, 0x05})).outcome, OperandOutcome::kAfterTransfer);  // syscall
}

TEST(OperandDecoder, StaysAtARepeatedStringInstruction) {
  // mov rax, [rbx]; interrupted at rep movsb: from rsi to rdi, both current
  const Culprit culprit = Find(AfterNops({0x48, 0x8b, 0x03}), {0xf3, 0xa4});
  ASSERT_EQ(culprit.outcome, OperandOutcome::kAddress);
  ASSERT_TRUE(culprit.second.has_value());
  GeneralRegisters registers{};
  registers[kRsi] = 0x5000;
  registers[kRdi] = 0x9000;
  const bool first_is_store = culprit.first.is_store;
  const MemoryOperand& store = first_is_store ? culprit.first : *culprit.second;
  const MemoryOperand& load = first_is_store ? *culprit.second : culprit.first;
  EXPECT_EQ(store.Address(registers), 0x9000u);
  EXPECT_TRUE(store.is_store);
  EXPECT_EQ(load.Address(registers), 0x5000u);
  EXPECT_FALSE(load.is_store);
}

TEST(OperandDecoder, KnowsThatThePointerOfAPlainStringInstructionHasMoved) {
  EXPECT_EQ(Find(AfterNops({0x48, 0xab})).outcome, OperandOutcome::kClobbered);  // stosq
}

TEST(OperandDecoder, AllowsForTheStackPointerThatAPushOrPopHasMoved) {
  GeneralRegisters registers{};
  registers[kRsp] = 0x7fff0000;
  const Culprit push = Find(AfterNops({0x50}));  // push rax
  ASSERT_EQ(push.outcome, OperandOutcome::kAddress);
  EXPECT_TRUE(push.first.is_store);
  EXPECT_EQ(push.first.Address(registers), 0x7fff0000u);
  const Culprit pop = Find(AfterNops({0x58}));  // pop rax
  ASSERT_EQ(pop.outcome, OperandOutcome::kAddress);
  EXPECT_FALSE(pop.first.is_store);
  EXPECT_EQ(pop.first.Address(registers), 0x7fff0000u - 8);
}

TEST(OperandDecoder, PrefersTheNamedOperandOfAPush) {
  // push [rbx]
  const Culprit culprit = Find(AfterNops({0xff, 0x33}));
  ASSERT_EQ(culprit.outcome, OperandOutcome::kAddress);
  EXPECT_EQ(culprit.first.base, kRbx);
}

TEST(OperandDecoder, SeesNoOperandInAddressArithmeticPrefetchesAndRegisterMoves) {
  EXPECT_EQ(Find(AfterNops({0x48, 0x8d, 0x04, 0x0b})).outcome,  // lea rax, [rbx+rcx]
            OperandOutcome::kNoOperand);
  EXPECT_EQ(Find(AfterNops({0x0f, 0x18, 0x0b})).outcome,  // prefetcht0 [rbx]
            OperandOutcome::kNoOperand);
  EXPECT_EQ(Find(AfterNops({0x0f, 0x1f, 0x40, 0x00})).outcome,  // nop dword [rax+0]
            OperandOutcome::kNoOperand);
  EXPECT_EQ(Find(AfterNops({0x48, 0x89, 0xd8})).outcome,  // mov rax, rbx
            OperandOutcome::kNoOperand);
}

TEST(OperandDecoder, SaysUndecodableForMissingOrInvalidCode) {
  EXPECT_EQ(FindCulprit({}, {}, kIp).outcome, OperandOutcome::kUndecodable);
  EXPECT_EQ(Find({}, {0x90}).outcome, OperandOutcome::kUndecodable);              // no code before
  EXPECT_EQ(Find(Code(64, 0x90), {0x06}).outcome, OperandOutcome::kUndecodable);  // not 64-bit code
}

TEST(OperandDecoder, FindsTheBoundaryAmongInstructionsOfManyLengths) {
  // mov rax, imm64 whose last byte reads as a nop; add rdx, [rsi+rcx*4+0x1000]
  const Culprit culprit = Find(AfterNops(
      {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 0x90, 0x48, 0x03, 0x94, 0x8e, 0x00, 0x10, 0x00, 0x00}));
  ASSERT_EQ(culprit.outcome, OperandOutcome::kAddress);
  EXPECT_EQ(culprit.first.base, kRsi);
  EXPECT_EQ(culprit.first.index, kRcx);
  EXPECT_EQ(culprit.first.scale, 4);
  EXPECT_EQ(culprit.first.displacement, 0x1000);
}

TEST(OperandDecoder, OverwritingAnUnrelatedRegisterIsHarmless) {
  // mov rdx, [rax]
  const Culprit culprit = Find(AfterNops({0x48, 0x8b, 0x10}));
  ASSERT_EQ(culprit.outcome, OperandOutcome::kAddress);
  EXPECT_EQ(culprit.first.base, kRax);
  EXPECT_NE(culprit.first.base, kRdx);
}

// Whatever the bytes, the decoder ends and reads only what it was given (sanitizers watch).
TEST(OperandDecoder, SurvivesArbitraryBytes) {
  std::uint64_t state = 1;
  for (int round = 0; round < 300; ++round) {
    Code before(static_cast<std::size_t>(round) % 130);
    Code from(1 + static_cast<std::size_t>(round) % 40);
    for (Code* code : {&before, &from}) {
      for (std::uint8_t& byte : *code) {
        state = state * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
        byte = static_cast<std::uint8_t>(state >> 56);
      }
    }
    const Culprit culprit = FindCulprit(before, from, kIp);
    EXPECT_LT(static_cast<std::size_t>(culprit.outcome), kOperandOutcomes);
  }
}

}  // namespace operand_decoder_test
}  // namespace tmprof
