/* SPDX-License-Identifier: Apache-2.0 */
/* A program that brings its own malloc(3), as some do: it cuts from one mapping and frees nothing.
 */

#define _GNU_SOURCE
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static const size_t kArenaBytes = (size_t)16 << 20;
static char* arena;
static size_t used;

void* malloc(size_t bytes) {
  if (arena == NULL) {
    void* mapped =
        mmap(NULL, kArenaBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return NULL;
    arena = mapped;
  }
  bytes = (bytes + 15) / 16 * 16;
  if (bytes > kArenaBytes - used) return NULL;
  used += bytes;
  return arena + used - bytes;
}
void free(void* object) { (void)object; }
void* calloc(size_t elements, size_t bytes) { return malloc(elements * bytes); }
void* realloc(void* object, size_t bytes) {
  void* made = malloc(bytes);
  if (made != NULL && object != NULL) {
    const size_t left = (size_t)(arena + used - (char*)object);
    memmove(made, object, bytes < left ? bytes : left);
  }
  return made;
}

int main(void) {
  int own = 0;
  for (int i = 0; i < 100; ++i) {
    char* made = malloc(100001);
    own += made >= arena && made < arena + kArenaBytes;
    *(volatile char*)made = 1;
    free(made);
  }
  printf("%d of its own\n", own);
  return 0;
}
