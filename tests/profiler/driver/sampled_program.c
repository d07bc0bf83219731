// SPDX-License-Identifier: Apache-2.0
/*
 * A program whose address samples are known: it writes them itself, to a PMU that lets it
 * (tests/driver/fake_sampler), which hands each on while this program is the current one.
 *
 * Usage: sampled_program WHAT
 *   exact: page i of 8 gets i + 1 loads from memory, and 2 stores if i is odd; 3 more samples count
 *     for nothing
 *   phases: 3 s of one load and 1000 cache misses each 5 ms, without misses in the second one
 *   sparse: until it is killed, at work on a mapping of 1 TiB, on a page at each third of it
 * The first line of its output is the number of its first page.
 */

#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/driver/fake_sampler/script.h"

#define PAGES 8
#define PAGE_BYTES 4096
#define FROM_MEMORY(op)                        \
  (PERF_MEM_S(OP, op) | PERF_MEM_S(LVL, HIT) | \
   (uint64_t)PERF_MEM_LVLNUM_RAM << PERF_MEM_LVLNUM_SHIFT)
#define FROM_CACHE (PERF_MEM_S(OP, LOAD) | (uint64_t)PERF_MEM_LVLNUM_L2 << PERF_MEM_LVLNUM_SHIFT)

static int script;
static char* pages;

static void script_one(uint64_t kind, uint64_t value, uint64_t data_source) {
  struct script_record record = {kind, value, data_source, 0};

  if (write(script, &record, sizeof(record)) != sizeof(record)) {
    perror("script");
    exit(1);
  }
}

static void sample(int page, uint64_t data_source) {
  script_one(KIND_SAMPLE, (uintptr_t)(pages + (size_t)page * PAGE_BYTES), data_source);
}

/* In the middle of its life, so that all of it falls into epochs of which it is a target. */
static void exact(void) {
  sleep(1);
  for (int page = 0; page < PAGES; page++) {
    for (int i = 0; i <= page; i++) sample(page, FROM_MEMORY(LOAD));
    for (int i = 0; i < 2 * (page % 2); i++) sample(page, FROM_MEMORY(STORE));
  }
  sample(0, FROM_CACHE);
  sample(0, PERF_MEM_S(OP, PFETCH) | FROM_MEMORY(LOAD));
  script_one(KIND_NO_ADDRESS, 0, FROM_MEMORY(LOAD));
  sleep(1);
}

static void phases(void) {
  for (int step = 0; step < 600; step++) {
    sample(0, FROM_MEMORY(LOAD));
    script_one(KIND_COUNT, step / 200 == 1 ? 0 : 1000, 0);
    usleep(5000);
  }
}

static int sparse(void) {
  const size_t bytes = (size_t)1 << 40;
  volatile char* all =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  if (all == MAP_FAILED) {
    perror("1 TiB");
    return 1;
  }
  madvise((void*)all, bytes, MADV_NOHUGEPAGE);
  printf("%lu\n", (unsigned long)((uintptr_t)all / PAGE_BYTES));
  fflush(stdout);
  for (;;)
    for (int i = 0; i < 3; i++) all[bytes / 3 * i]++;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  if (strcmp(argv[1], "sparse") == 0) return sparse();
  script = open(SCRIPT_PATH, O_WRONLY | O_CLOEXEC);
  pages =
      mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (script < 0 || pages == MAP_FAILED) {
    perror("sampled_program");
    return 1;
  }
  madvise(pages, PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
  memset(pages, 1, PAGES * PAGE_BYTES);
  printf("%lu\n", (unsigned long)((uintptr_t)pages / PAGE_BYTES));
  fflush(stdout);
  if (strcmp(argv[1], "exact") == 0)
    exact();
  else
    phases();
  return 0;
}
