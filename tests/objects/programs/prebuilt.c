// SPDX-License-Identifier: Apache-2.0
// A library that others have built, without frame pointers: it allocates on behalf of who calls it.

#include <stddef.h>
#include <stdlib.h>

// rbp is the caller's.
void* prebuilt_make(size_t bytes) {
  void* made = malloc(bytes);
  __asm__ volatile("");  // no tail call
  return made;
}

// rbp is a number.
void* prebuilt_make_busy(size_t bytes) {
  register unsigned long busy __asm__("rbp") = 8;
  __asm__ volatile("" : "+r"(busy));
  void* made = malloc(bytes + busy - 8);
  __asm__ volatile("" : : "r"(busy));
  return made;
}

// rbp leads to what looks like a frame: another function's.
__attribute__((noinline)) void prebuilt_never_called(void) { __asm__ volatile(""); }

void* prebuilt_make_false(size_t bytes) {
  void* volatile false_frame[2] = {0, (char*)&prebuilt_never_called + 1};
  register void* volatile* at __asm__("rbp") = false_frame;
  __asm__ volatile("" : "+r"(at) : : "memory");
  void* made = malloc(bytes);
  __asm__ volatile("" : : "r"(at) : "memory");
  return made;
}

// Calls back into the caller's code, which allocates.
void prebuilt_call(void (*back)(void)) {
  register unsigned long busy __asm__("rbp") = 8;
  __asm__ volatile("" : "+r"(busy));
  back();
  __asm__ volatile("" : : "r"(busy));
}
