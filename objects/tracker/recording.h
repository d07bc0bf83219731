// SPDX-License-Identifier: Apache-2.0
// Records allocations and mappings, each with its stack.

#pragma once

#include <unwind.h>

#include <cstdint>

#include "objects/tracker/log.h"
#include "objects/tracker/sampling.h"
#include "objects/tracker/state.h"

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

inline constexpr int kOwnFrames = 2;  // Record() and the function that the program called

// Unwound calls, including Record() and its caller.
struct Walk {
  static constexpr int kMost = kOwnFrames + kLogFrames;
  std::uint64_t address[kMost];
  std::uint64_t place[kMost];  // on the stack
  int depth = 0;
};

// A callback of _Unwind_Backtrace() that fills a Walk.
_Unwind_Reason_Code AddFrame(_Unwind_Context* context, void* into);

// `caller` is a return address of the program.
void Record(void* object, std::uint64_t bytes, LogEventKind kind, bool is_sampled,
            const void* caller);

// Inlined into each function that the program calls, because of kOwnFrames. `is_counted`:
// IsPassed() was asked.
__attribute__((always_inline)) inline void* Allocated(void* object, std::uint64_t bytes,
                                                      bool is_counted = false) {
  if (state == nullptr || object == nullptr) return object;
  if (within) {
    if (is_counted) bytes_to_sample += static_cast<std::int64_t>(bytes);
    return object;
  }
  const bool is_small = bytes < request.threshold;
  if (is_small && ((!is_counted && IsPassed(bytes)) || !IsSampled())) return object;
  Record(object, bytes, LogEventKind::kAllocated, is_small, __builtin_return_address(0));
  asm volatile("");  // prevents a tail call, because its frame is counted
  return object;
}

// Returns true if the object was tracked. Precondition: it is not freed yet, because another thread
// may get its address afterwards.
bool Freeing(void* object);

void TellOfRange(LogEventKind kind, const void* start, std::uint64_t bytes);

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
