/* SPDX-License-Identifier: Apache-2.0 */
/* A library that allocates, and has a variable. */

#include <stdlib.h>

/* It moves the next function. */
#ifdef BYTES_BEFORE
__attribute__((used)) static void before(void) { __asm__ volatile(".skip " BYTES_BEFORE ", 0x90"); }
#endif

extern char library_table[4 << 20];
char library_table[4 << 20];
__attribute__((used)) static char hidden_table[1 << 16];

void* library_make(size_t bytes);
void* library_make(size_t bytes) {
  void* volatile made = malloc(bytes);
  return made;
}
