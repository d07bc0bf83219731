/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The program on context switches and user space share this: one slot for each watched process. */

#pragma once

#include <linux/types.h>

#define TMPROF_CLOCK_SLOTS 1024
/* One word holds both, so that a reader never sees one without the other. */
#define TMPROF_CLOCK_THREAD_BITS 12
#define TMPROF_CLOCK_TIME_MASK ((1ULL << (64 - TMPROF_CLOCK_THREAD_BITS)) - 1)

/* Times are CLOCK_MONOTONIC or CPU time in nanoseconds, modulo 2^52: differences are meant. */
struct tmprof_clock_slot {
  /* The low bits count threads on a CPU. The bits above have the CPU time of all stays on a CPU
   * that have ended, less the start of each that has not. */
  __u64 word;
  __u64 wake_at; /* CPU time */
  __u32 armed;   /* the program clears it when it wakes user space */
  __u32 reserved;
  __u64 longest_ns; /* stay on a CPU of late */
  __u64 cost_ns;    /* cost of the program's runs for its threads, by a sample of them */
  __u64 padding[3]; /* to one cache line */
};

static inline __u64 tmprof_clock_cpu_time(__u64 word, __u64 now_ns) {
  const __u64 threads = word & ((1ULL << TMPROF_CLOCK_THREAD_BITS) - 1);

  return ((word >> TMPROF_CLOCK_THREAD_BITS) + threads * now_ns) & TMPROF_CLOCK_TIME_MASK;
}

/* Positive: `time` is after `other`. */
static inline __s64 tmprof_clock_difference(__u64 time, __u64 other) {
  return (__s64)((time - other) << TMPROF_CLOCK_THREAD_BITS) >> TMPROF_CLOCK_THREAD_BITS;
}
