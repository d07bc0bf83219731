/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A lock in memory that several processes share. Each process may be killed or stopped while it
 * holds the lock. The lock guards data that any order of changes leaves usable, as a set of a
 * cache's tags, and is held for less than a microsecond. A process that has waited for longer than
 * its patience takes it. If the holder runs after all, several change the set at a time. Tags may
 * then get lost or stand there twice, each of which costs or saves one miss.
 */
#ifndef TMPROF_TESTBED_TIERSIM_SET_LOCK_H
#define TMPROF_TESTBED_TIERSIM_SET_LOCK_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

/* A patience that no running holder uses up unless the machine is overloaded. */
#define TIERSIM_SET_LOCK_PATIENCE_NS 100000000ll

static __attribute__((noinline, unused)) void tiersim_wait_for_set(uint8_t* lock,
                                                                   int64_t patience_ns) {
  struct timespec start, now;
  clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    for (int i = 0; i < 1000; ++i)
      if (!__atomic_load_n(lock, __ATOMIC_RELAXED) &&
          !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
        return;
    sched_yield();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - start.tv_sec) * 1000000000ll + (now.tv_nsec - start.tv_nsec) <
           patience_ns);
}

/* Locks it; 0 is unlocked. Takes it from its holder after `patience_ns`; INT64_MAX: never. */
static inline void tiersim_lock_set(uint8_t* lock, int64_t patience_ns) {
  if (__builtin_expect(__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE), 0))
    tiersim_wait_for_set(lock, patience_ns);
}

static inline void tiersim_unlock_set(uint8_t* lock) {
  __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif /* TMPROF_TESTBED_TIERSIM_SET_LOCK_H */
