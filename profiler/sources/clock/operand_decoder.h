// SPDX-License-Identifier: Apache-2.0
// Finds the memory that the interrupted program was waiting for, from its code and registers. Pure.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "profiler/sources/perf/perf_record.h"

namespace tmprof {

enum class OperandOutcome : std::uint8_t {
  kAddress,        // the address follows from the sampled registers
  kNoOperand,      // the instruction touches no memory
  kClobbered,      // it has overwritten a register of its own address
  kVectorIndex,    // gather or scatter: vector registers are not sampled
  kThreadLocal,    // relative to FS or GS, whose base is not sampled
  kBranchTarget,   // control may have come from elsewhere: the predecessor would be a guess
  kAfterTransfer,  // behind a call, jump, return or system call: other code ran just before
  kUndecodable,    // code bytes missing or not valid
};
inline constexpr std::size_t kOperandOutcomes = 8;

// "address", "no_operand", "clobbered", …
const char* Name(OperandOutcome outcome);

// True if an instruction with a memory operand held up the program, address known or not.
constexpr bool WaitsForMemory(OperandOutcome outcome) {
  return outcome == OperandOutcome::kAddress || outcome == OperandOutcome::kClobbered ||
         outcome == OperandOutcome::kVectorIndex || outcome == OperandOutcome::kThreadLocal;
}

// Position in GeneralRegisters.
using RegisterIndex = std::uint8_t;

struct MemoryOperand {
  std::optional<RegisterIndex> base;
  std::optional<RegisterIndex> index;
  std::uint8_t scale = 1;
  std::int64_t displacement = 0;  // absolute where the operand is relative to rip
  bool wraps_at_32_bits = false;
  bool is_store = false;  // a read-modify-write is a store

  std::uint64_t Address(const GeneralRegisters& registers) const;
};

struct Culprit {
  OperandOutcome outcome = OperandOutcome::kUndecodable;
  // Set for kAddress; `second` for string instructions with two operands.
  MemoryOperand first;
  std::optional<MemoryOperand> second;
};

// How many bytes around an IP are looked at: enough to see the direct branches of a function body.
inline constexpr std::size_t kCodeBytesBefore = 512;
inline constexpr std::size_t kCodeBytesFrom = 512;

// The CPU completes the oldest instruction that has not retired, then takes the interrupt (Downs,
// "Where Do Interrupts Happen?", 2019): the instruction that held it up is the one before `ip`, the
// one before that where the last two are a fused compare-and-branch, or a repeated string
// instruction at `ip` itself. `before` ends just before `ip`, `from` starts at it.
//
// Never looks back across the target of a direct branch within the bytes given (indirect jumps and
// branches from further away are not seen), and never re-reads the target's memory.
Culprit FindCulprit(std::span<const std::uint8_t> before, std::span<const std::uint8_t> from,
                    std::uint64_t ip);

}  // namespace tmprof
