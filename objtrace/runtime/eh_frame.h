// SPDX-License-Identifier: Apache-2.0
// How to get from a call to its caller, by the tables that compilers leave for exceptions
// (.eh_frame: System V ABI, AMD64 supplement 3.7, and DWARF 5, 6.4). Of all registers, those alone
// that lead to a return address: the stack pointer and rbp.

#pragma once

#include <cstddef>
#include <cstdint>

namespace tmprof::objtrace {

// The canonical frame address (CFA): the stack pointer as it was before the call to the function.
enum class FrameKind : std::uint8_t {
  kUnknown,  // there is no table, or it says what is not understood
  kEnd,      // nobody called it: where a program or a thread begins
  kByRsp,    // the stack pointer and an offset
  kByRbp,    // rbp and an offset
  kAtRbp,    // what lies there: a function that aligns its stack
};

// Where the caller's rbp is.
enum class RbpKind : std::uint8_t {
  kSame,   // it is still in rbp
  kAtCfa,  // saved at an offset from the CFA
  kAtRbp,  // or from rbp
};

// The return address lies right below the CFA.
struct FrameRule {
  FrameKind kind = FrameKind::kUnknown;
  RbpKind rbp = RbpKind::kSame;
  std::int32_t cfa_offset = 0;  // bytes, multiples of 8
  std::int32_t rbp_offset = 0;

  friend bool operator==(const FrameRule&, const FrameRule&) = default;
};

// Of functions that keep a frame pointer, once they have it.
inline constexpr FrameRule kFramePointerRule{
    .kind = FrameKind::kByRbp, .rbp = RbpKind::kAtCfa, .cfa_offset = 16, .rbp_offset = -16};

// `table`: a loaded module's PT_GNU_EH_FRAME. The rule holds while `address` is to be executed; of
// a call that is to return, that is the call itself, one byte before its return address. Allocates
// nothing, and takes no longer than what the module says of one function.
FrameRule RuleAt(const void* table, std::uint64_t address);

}  // namespace tmprof::objtrace
