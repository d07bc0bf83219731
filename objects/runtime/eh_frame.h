// SPDX-License-Identifier: Apache-2.0
// Finds a call's caller by the tables that compilers write for exceptions (.eh_frame: System V ABI,
// AMD64 supplement 3.7, and DWARF 5, 6.4). It follows only the registers that lead to a return
// address: the stack pointer and rbp.

#pragma once

#include <cstddef>
#include <cstdint>

namespace tmprof::objtrace {

// The canonical frame address (CFA): the stack pointer as it was before the call to the function.
enum class FrameKind : std::uint8_t {
  kUnknown,  // there is no table, or it is not understood
  kEnd,      // there is no caller: a program or a thread begins here
  kByRsp,    // the stack pointer and an offset
  kByRbp,    // rbp and an offset
  kAtRbp,    // memory at rbp, in a function that aligns its stack
};

// The place of the caller's rbp.
enum class RbpKind : std::uint8_t {
  kSame,   // it is still in rbp
  kAtCfa,  // saved at an offset from the CFA
  kAtRbp,  // saved at an offset from rbp
};

// The return address lies right below the CFA.
struct FrameRule {
  FrameKind kind = FrameKind::kUnknown;
  RbpKind rbp = RbpKind::kSame;
  std::int32_t cfa_offset = 0;  // bytes, multiples of 8
  std::int32_t rbp_offset = 0;

  friend bool operator==(const FrameRule&, const FrameRule&) = default;
};

// The rule of functions with a frame pointer, once it is set up.
inline constexpr FrameRule kFramePointerRule{
    .kind = FrameKind::kByRbp, .rbp = RbpKind::kAtCfa, .cfa_offset = 16, .rbp_offset = -16};

// `table` is the PT_GNU_EH_FRAME of a loaded module. The rule holds when `address` is about to be
// executed. For a call that is to return, that is the call itself, one byte before its return
// address. Allocates nothing. The time is bounded by the size of one function's description.
FrameRule RuleAt(const void* table, std::uint64_t address);

}  // namespace tmprof::objtrace
