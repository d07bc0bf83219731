/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The time that a thread waits for memory, by a model of a processor that executes out of order.
 *
 * Loads that miss overlap: a group of them waits for one latency together, each for an equal part.
 * A load joins the group unless it depends on a load of it, comes too many instructions after the
 * first one, or finds the group full. It depends on one whose line holds a pointer to nearby: that
 * is how a list, a tree or a table of pointers is followed. What depends in another
 * way, as by an index, is not seen, and overlaps.
 *
 * No locking: of one thread.
 */
#ifndef TMPROF_TESTBED_TIERSIM_MISS_OVERLAP_H
#define TMPROF_TESTBED_TIERSIM_MISS_OVERLAP_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Entries of a reorder buffer: 512 of Golden Cove (Intel 64 and IA-32 Architectures Optimization
 * Reference Manual), 320 of Zen 4 (Software Optimization Guide for the AMD Zen4
 * Microarchitecture). */
#define TIERSIM_OVERLAP_INSTRUCTIONS 320u
/* Lines that an L1 cache waits for at a time: 16 of Golden Cove (the same manual). */
#define TIERSIM_OVERLAP_LINES 16u
#define TIERSIM_OVERLAP_WORDS 8u /* words of a line */
/* A pointer leads to what lies no further than this behind the place where it points: the fields
 * of a small object. */
#define TIERSIM_POINTER_BYTES 256u

struct tiersim_missed_line {
  uint64_t* stall; /* the waiting time is added to this */
  uint64_t words[TIERSIM_OVERLAP_WORDS];
};

struct tiersim_misses {
  uint64_t first_instruction;
  uint32_t count;
  struct tiersim_missed_line lines[TIERSIM_OVERLAP_LINES];
};

/* Ends the group: its lines share `latency`, the first ones what does not divide. Counters only
 * grow, and others may read them meanwhile. */
static inline void tiersim_misses_close(struct tiersim_misses* misses, uint64_t latency) {
  for (uint32_t i = 0; i < misses->count; ++i) {
    uint64_t* const stall = misses->lines[i].stall;
    const uint64_t part = latency / misses->count + (i < latency % misses->count ? 1 : 0);
    __atomic_store_n(stall, __atomic_load_n(stall, __ATOMIC_RELAXED) + part, __ATOMIC_RELAXED);
  }
  misses->count = 0;
}

static inline bool tiersim_misses_lead_to(const struct tiersim_misses* misses, uint64_t address) {
  for (uint32_t i = 0; i < misses->count; ++i) {
    for (uint32_t w = 0; w < TIERSIM_OVERLAP_WORDS; ++w) {
      const uint64_t beyond = address - misses->lines[i].words[w] + TIERSIM_POINTER_BYTES;
      if (beyond < 2 * TIERSIM_POINTER_BYTES) return true;
    }
  }
  return false;
}

/* A load from `address`, the thread's instruction number `instruction`, has missed. `words`: its
 * line. */
static inline void tiersim_misses_add(struct tiersim_misses* misses, uint64_t address,
                                      uint64_t instruction, uint64_t* stall,
                                      const uint64_t words[TIERSIM_OVERLAP_WORDS],
                                      uint64_t latency) {
  if (misses->count && (misses->count == TIERSIM_OVERLAP_LINES ||
                        instruction - misses->first_instruction >= TIERSIM_OVERLAP_INSTRUCTIONS ||
                        tiersim_misses_lead_to(misses, address)))
    tiersim_misses_close(misses, latency);
  if (!misses->count) misses->first_instruction = instruction;
  struct tiersim_missed_line* const line = &misses->lines[misses->count++];
  line->stall = stall;
  memcpy(line->words, words, sizeof(line->words));
}

#endif /* TMPROF_TESTBED_TIERSIM_MISS_OVERLAP_H */
