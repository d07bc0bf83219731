/* SPDX-License-Identifier: Apache-2.0 */
/* The tracer that Tracer's evaluation compares with: each object on a page of its own, which is
 * protected; an access faults, is counted, and opens the page. A buffer of 25 MB says which pages
 * are open, the oldest of which is protected again when it is full. Repeated accesses to an open
 * page are not seen. */

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "bench/objects_tree/tree.h"

enum { PAGE_BYTES = 4096, BUFFER_BYTES = 25 * 1000 * 1000, OPEN_PAGES = BUFFER_BYTES / PAGE_BYTES };
enum { MAX_PAGES = 1 << 20 };

static char* pool;
static size_t used;
static uint32_t counts[MAX_PAGES];
static char* open_pages[OPEN_PAGES];
static size_t opened;

static void on_fault(int signal_number, siginfo_t* info, void* context) {
  (void)context;
  char* page = (char*)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE_BYTES - 1));
  if (page < pool || page >= pool + used * PAGE_BYTES) {
    signal(signal_number, SIG_DFL);
    return;
  }
  ++counts[(size_t)(page - pool) / PAGE_BYTES];
  char** place = &open_pages[opened++ % OPEN_PAGES];
  if (*place != NULL) mprotect(*place, PAGE_BYTES, PROT_NONE);
  *place = page;
  mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE);
}

void* tree_allocate(size_t bytes) {
  if (pool == NULL) {
    pool = mmap(NULL, (size_t)MAX_PAGES * PAGE_BYTES, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool == MAP_FAILED) abort();
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    if (sigaction(SIGSEGV, &action, NULL) != 0) abort();
  }
  if (bytes > PAGE_BYTES || used == MAX_PAGES) return NULL;
  return pool + used++ * PAGE_BYTES;
}

/* In the order of a whole tree: all objects go together. */
void tree_free(void* object, size_t bytes) {
  (void)object;
  (void)bytes;
}
