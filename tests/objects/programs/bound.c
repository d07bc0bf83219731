/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates and writes memory by two functions, and says on which NUMA nodes its pages lie:
 * "hot 0:1024", pages by node. */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kBlocks = 64, kBlockBytes = 65536, kPageBytes = 4096, kMaxNodes = 64 };

static char* blocks[2][kBlocks];

__attribute__((noinline)) static char* make_hot(void) {
  char* made = malloc(kBlockBytes);
  __asm__ volatile(""); /* no tail call */
  return made;
}

/* Not the same as the one above, or the compiler makes one of both. */
__attribute__((noinline)) static char* make_cold(void) {
  char* made = malloc(kBlockBytes + 16);
  __asm__ volatile("");
  return made;
}

/* It looks at whole pages alone, because memory beside them may be others'. */
static int say(const char* name, char** of) {
  int pages_of[kMaxNodes] = {0};
  for (int i = 0; i < kBlocks; ++i) {
    const uintptr_t first = ((uintptr_t)of[i] + kPageBytes - 1) / kPageBytes * kPageBytes;
    for (uintptr_t page = first; page + kPageBytes <= (uintptr_t)of[i] + kBlockBytes;
         page += kPageBytes) {
      void* at = (void*)page;
      int node = -1;
      if (syscall(SYS_move_pages, 0, 1UL, &at, NULL, &node, 0) != 0 || node < 0 ||
          node >= kMaxNodes) {
        fprintf(stderr, "page %p has no node: %d\n", at, node);
        return 1;
      }
      ++pages_of[node];
    }
  }
  printf("%s", name);
  for (int node = 0; node < kMaxNodes; ++node) {
    if (pages_of[node] > 0) printf(" %d:%d", node, pages_of[node]);
  }
  printf("\n");
  return 0;
}

int main(void) {
  for (int i = 0; i < kBlocks; ++i) {
    blocks[0][i] = make_hot();
    blocks[1][i] = make_cold();
    memset(blocks[0][i], 1, kBlockBytes);
    memset(blocks[1][i], 1, kBlockBytes);
  }
  return say("hot", blocks[0]) | say("cold", blocks[1]);
}
