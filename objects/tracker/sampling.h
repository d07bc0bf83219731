// SPDX-License-Identifier: Apache-2.0
// Chooses the small allocations that are recorded.

#pragma once

#include <cstdint>

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

extern __thread std::int64_t bytes_to_sample __attribute__((tls_model("initial-exec")));

// Sampling points lie at exponential distances in the bytes that a thread allocates. An allocation
// that has a point is recorded: 1 - exp(-b / interval) of all with b bytes. The next distance is
// drawn from the end of the allocation on, because the rest of it tells nothing about the next
// point.
//
// True: no point lies in these bytes. Else IsSampled() decides.
__attribute__((always_inline)) inline bool IsPassed(std::uint64_t bytes) {
  bool is_passed = false;  // the flags of the subtraction, which GCC 12 would compute again
  asm("subq %2, %0" : "+m"(bytes_to_sample), "=@ccg"(is_passed) : "r"(bytes));
  return __builtin_expect(is_passed, 1);
}
bool IsSampled();

// Draws anew in a forked child. Otherwise all children of one process would sample alike.
void SampleAnew();

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
