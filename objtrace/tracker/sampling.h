// SPDX-License-Identifier: Apache-2.0
// Which of the small allocations are recorded.

#pragma once

#include <cstdint>

#pragma GCC visibility push(hidden)  // no detour by the linker's tables
namespace tmprof::objtrace {

extern __thread std::int64_t bytes_to_sample __attribute__((tls_model("initial-exec")));

// Points lie in the bytes that a thread allocates at exponential distances; an allocation that has
// one, of b bytes 1 - exp(-b / interval) of all, is recorded. What is left of it says nothing of
// where the next point lies: the distance is drawn from its end on.
//
// True: no point lies in these bytes. Else IsSampled() says whether one does.
__attribute__((always_inline)) inline bool IsPassed(std::uint64_t bytes) {
  bool is_passed = false;  // by what the subtraction leaves, which GCC 12 would compute again
  asm("subq %2, %0" : "+m"(bytes_to_sample), "=@ccg"(is_passed) : "r"(bytes));
  return __builtin_expect(is_passed, 1);
}
bool IsSampled();

// In a forked child, or children of one process would all sample the same of what they do alike.
void SampleAnew();

}  // namespace tmprof::objtrace
#pragma GCC visibility pop
