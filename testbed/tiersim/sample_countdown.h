/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Countdown to the next event to sample. */
#ifndef TMPROF_TESTBED_TIERSIM_SAMPLE_COUNTDOWN_H
#define TMPROF_TESTBED_TIERSIM_SAMPLE_COUNTDOWN_H

#include <stdint.h>

/* The low 4 bits of each interval are chance, as IBS' are (AMD APM vol. 2, 13.3: IbsRandEn), so
 * that a loop of as many instructions as a period is not sampled at one place only. */
#define TIERSIM_JITTER_BITS 4u

struct tiersim_random {
  uint64_t state; /* never 0 */
};

/* Marsaglia, "Xorshift RNGs", 2003. */
static inline uint64_t tiersim_next_random(struct tiersim_random* random) {
  random->state ^= random->state << 13;
  random->state ^= random->state >> 7;
  random->state ^= random->state << 17;
  return random->state;
}

/* Events from a sample to the next: `period` on average, at least 1. period: at least 16. */
static inline uint64_t tiersim_next_interval(struct tiersim_random* random, uint64_t period) {
  const uint64_t jitter = tiersim_next_random(random) >> (64 - TIERSIM_JITTER_BITS);
  const uint64_t half = 1ull << (TIERSIM_JITTER_BITS - 1);
  return period - half + jitter + (tiersim_next_random(random) >> 63);
}

#endif /* TMPROF_TESTBED_TIERSIM_SAMPLE_COUNTDOWN_H */
