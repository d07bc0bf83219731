/* SPDX-License-Identifier: Apache-2.0 */
/* Two allocations of one size: one is accessed for 3 s, the other once. */

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BYTES = 32 << 20, LINE_BYTES = 64, SECONDS = 3 };

static char* volatile cold;

__attribute__((noinline)) static char* make_cold(void) {
  char* made = malloc(BYTES);
  memset(made, 1, BYTES);
  return made;
}

__attribute__((noinline)) static volatile char* make_hot(void) {
  char* made = malloc(BYTES);
  memset(made, 2, BYTES); /* unlike the other, which it would be merged with */
  return made;
}

int main(void) {
  cold = make_cold();
  volatile char* hot = make_hot();
  struct timespec begin;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    for (int i = 0; i < BYTES; i += LINE_BYTES) ++hot[i];
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - begin.tv_sec < SECONDS);
  return 0;
}
