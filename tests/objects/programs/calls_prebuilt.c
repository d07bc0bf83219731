// SPDX-License-Identifier: Apache-2.0
// Objects of sizes that tell them apart, each by way of a library (prebuilt.c).

#include <stddef.h>
#include <stdlib.h>

void* prebuilt_make(size_t bytes);
void* prebuilt_make_busy(size_t bytes);
void* prebuilt_make_false(size_t bytes);
void prebuilt_call(void (*back)(void));

static void* volatile kept[8];

__attribute__((noinline)) static void plainly(void) { kept[0] = prebuilt_make(1001); }
__attribute__((noinline)) static void busily(void) { kept[1] = prebuilt_make_busy(1002); }
__attribute__((noinline)) static void falsely(void) { kept[2] = prebuilt_make_false(1003); }
__attribute__((noinline)) static void back(void) { kept[3] = malloc(1004); }
__attribute__((noinline)) static void forth(void) {
  prebuilt_call(back);
  __asm__ volatile("");  // no tail call
}

int main(void) {
  for (volatile int i = 0; i < 3; ++i) {
    plainly();
    busily();
    falsely();
    forth();
  }
  return 0;
}
