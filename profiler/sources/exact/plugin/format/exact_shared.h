/* SPDX-License-Identifier: GPL-2.0-or-later OR Apache-2.0 */
/*
 * The memory that all processes of one exact recording share: the modelled last-level cache and the
 * count of executed instructions that ends epochs. tmprof makes it, a System V segment, and each
 * traced process attaches it by its number. It is marked for removal at once: it goes with the last
 * process that has it, however that ends. C and C++.
 *
 * Zeros are its state at the beginning. A process may die at any moment, or be stopped for ever:
 * every value in it is then still one that the others can go on with.
 */
#ifndef TMPROF_TESTBED_TIERSIM_FORMAT_EXACT_SHARED_H
#define TMPROF_TESTBED_TIERSIM_FORMAT_EXACT_SHARED_H

#include <stdint.h>

#define TMPROF_EXACT_SHARED_MAGIC 0x3148535443415845ull /* "EXACTSH1" */

/* Locks of the cache. Each lock guards the sets whose number has its low bits. */
#define TMPROF_EXACT_SET_LOCKS 4096u

struct tmprof_exact_shared {
  uint64_t magic;          /* set by tmprof */
  uint64_t bytes;          /* size of all of it; set by tmprof */
  uint32_t address_spaces; /* numbers given away */
  uint32_t threads;        /* that run; too high by those of killed processes */
  uint64_t instructions;   /* executed, as far as the processes have told */
  uint64_t border; /* number of instructions at which the open epoch ends; 0: none has begun */
  uint32_t epoch;  /* index of the open one, and a futex that is woken when it changes */
  uint32_t reserved;
  uint8_t set_locks[TMPROF_EXACT_SET_LOCKS];
  /* The tags of the cache follow, and its next victims. */
};

/* Returns the size of a segment for a cache of this many lines and sets; 0 and 0 mean no cache. */
static inline uint64_t tmprof_exact_shared_bytes(uint64_t lines, uint64_t sets) {
  return sizeof(struct tmprof_exact_shared) + lines * sizeof(uint64_t) + sets;
}

#endif /* TMPROF_TESTBED_TIERSIM_FORMAT_EXACT_SHARED_H */
