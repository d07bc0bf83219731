// SPDX-License-Identifier: GPL-2.0-only
/*
 * Keeps the CPU time of watched processes exact at every moment, and wakes user space when one of
 * them has used enough of it. Runs at each context switch of the host with the lock of the CPU's
 * run queue held: it takes no lock that is held elsewhere with that lock wanted. The ring buffer
 * wakes user space from an interrupt afterwards (irq_work). Memory that is shared with user space
 * holds the clocks, so that a look at one takes no system call.
 */

#include <linux/bpf.h>
#include <linux/types.h>

/* These want the types above. */
#include <bpf/bpf_helpers.h>

#include <bpf/bpf_tracing.h>

#include "switch_clock_map.h"

#define KERNEL_THREAD 0x00200000 /* PF_KTHREAD of linux/sched.h */

/* It has only the members used here, and is relocated to the running kernel's layout on loading. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct {
  unsigned int flags;
  int pid;
  int tgid;
};
#pragma clang attribute pop

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, TMPROF_CLOCK_SLOTS);
  __type(key, __s32); /* PID in the initial PID namespace */
  __type(value, __u32);
} watched SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, TMPROF_CLOCK_SLOTS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, __u32);
  __type(value, struct tmprof_clock_slot);
} slots SEC(".maps");

/* One run in so many is timed: a prime, as threads often take turns by a pattern. */
#define RUNS_A_TIMED_ONE 31
/* A longer one was interrupted. */
#define LONGEST_RUN_NS 2000

/* The stay on this CPU that the switch before began. */
struct stay {
  __u64 start_ns;
  __u32 slot;
  __u32 is_watched;
  __u32 runs; /* runs of this program on this CPU */
  __u32 reserved;
};
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct stay);
} here SEC(".maps");

/* Its records are empty: that there is one makes the map readable. */
struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4096);
} wakes SEC(".maps");

static __always_inline void wake_if_due(struct tmprof_clock_slot* slot, __u64 word, __u64 now) {
  __u64 wake = 0;

  if (!slot->armed || tmprof_clock_difference(tmprof_clock_cpu_time(word, now), slot->wake_at) < 0)
    return;
  if (!__sync_lock_test_and_set(&slot->armed, 0)) return;
  bpf_ringbuf_output(&wakes, &wake, sizeof(wake), BPF_RB_FORCE_WAKEUP);
}

static __always_inline void leave(struct stay* stay, __u64 now) {
  struct tmprof_clock_slot* slot = bpf_map_lookup_elem(&slots, &stay->slot);
  const __u64 change = (now << TMPROF_CLOCK_THREAD_BITS) - 1;
  const __u64 length = now - stay->start_ns;

  stay->is_watched = 0;
  if (!slot) return;
  /* CPUs may overwrite each other's: it is a hint. Each computes from one reading. */
  const __u64 longest = *(volatile __u64*)&slot->longest_ns;

  slot->longest_ns = length > longest ? length : longest - (longest - length) / 8;
  __sync_fetch_and_add(&slot->word, change);
}

static __always_inline void enter(struct stay* stay, __u32 index, __u64 now) {
  struct tmprof_clock_slot* slot = bpf_map_lookup_elem(&slots, &index);
  const __u64 change = 1 - (now << TMPROF_CLOCK_THREAD_BITS);

  if (!slot) return;
  stay->start_ns = now;
  stay->slot = index;
  stay->is_watched = 1;
  wake_if_due(slot, __sync_fetch_and_add(&slot->word, change) + change, now);
}

static __always_inline void charge(__u32 index, __u64 since) {
  struct tmprof_clock_slot* slot = bpf_map_lookup_elem(&slots, &index);
  const __u64 took = bpf_ktime_get_ns() - since;

  if (slot)
    __sync_fetch_and_add(&slot->cost_ns,
                         RUNS_A_TIMED_ONE * (took < LONGEST_RUN_NS ? took : LONGEST_RUN_NS));
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, int preempt, struct task_struct* before, struct task_struct* next) {
  const __u32 zero = 0;
  struct stay* stay = bpf_map_lookup_elem(&here, &zero);
  __u32* index = NULL;
  __s32 process;
  __u64 timed_from = 0;
  __u32 charged;

  if (!stay) return 0;
  if (stay->runs++ % RUNS_A_TIMED_ONE == 0) timed_from = bpf_ktime_get_ns();
  if (next->pid && !(next->flags & KERNEL_THREAD)) {
    process = next->tgid;
    index = bpf_map_lookup_elem(&watched, &process);
  }
  if (!index && !stay->is_watched) return 0;
  const __u64 now = bpf_ktime_get_ns();
  charged = stay->slot;
  if (stay->is_watched) leave(stay, now);
  if (index) {
    charged = *index;
    enter(stay, charged, now);
  }
  if (timed_from) charge(charged, timed_from);
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
