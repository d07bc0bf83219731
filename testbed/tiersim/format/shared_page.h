/* SPDX-License-Identifier: GPL-2.0-or-later OR Apache-2.0 */
/*
 * The memory that tiersim, inside QEMU, and vpmu, inside the guest's kernel, share: BAR 2 of an
 * ivshmem-plain device (QEMU's manual, "Inter-VM Shared Memory device"). C, for both.
 *
 * The guest says which address spaces are traced, when an epoch ends and what is sampled; tiersim
 * answers with counters and samples. Nothing is polled: after a change the guest executes
 * TIERSIM_DOORBELL in kernel mode, and tiersim acts on the change before the next instruction, on
 * the vCPU that executed it. A write to CR3 rings, too.
 *
 * Each field has one writer, named below. What belongs to a CPU is written and read on that CPU
 * only: by its kernel and by the thread of its vCPU, which never run at the same time.
 */
#ifndef TMPROF_TESTBED_TIERSIM_FORMAT_SHARED_PAGE_H
#define TMPROF_TESTBED_TIERSIM_FORMAT_SHARED_PAGE_H

#include <linux/types.h>

#define TIERSIM_SHARED_MAGIC 0x314d49535245494cULL
#define TIERSIM_SHARED_VERSION 2
#define TIERSIM_SHARED_BYTES (4U << 20) /* a BAR's size is a power of two */

/* xchg %r14,%r14: does nothing, and no compiler emits it. */
#define TIERSIM_DOORBELL ".byte 0x4d, 0x87, 0xf6"

#define TIERSIM_MAX_CPUS 8
#define TIERSIM_MAX_NODES 16
#define TIERSIM_MAX_SPACES 1024 /* an exec takes a new one; none is used again */
#define TIERSIM_SLOTS 4         /* sampling events that a CPU has room for at a time */
#define TIERSIM_RING_SAMPLES 4096

/* Events of traced address spaces that can be counted, and sampled each Nth time; attr.config of
 * vpmu's events. */
enum tiersim_event {
  TIERSIM_OPS, /* instructions of user mode */
  TIERSIM_LLC_MISSES,
  TIERSIM_LLC_LOAD_MISSES,
  TIERSIM_DTLB_MISSES,
  TIERSIM_DTLB_LOAD_MISSES,
  TIERSIM_EVENTS,
};

/* Who served an access. */
enum tiersim_level {
  TIERSIM_NO_ACCESS, /* the sampled instruction accesses no memory */
  TIERSIM_L1,
  TIERSIM_LLC,
  TIERSIM_MEMORY,
};

enum {
  TIERSIM_SAMPLE_STORE = 1 << 0,
  TIERSIM_SAMPLE_DTLB_MISS = 1 << 1,
};

struct tiersim_sample {
  __u64 time_ns; /* CLOCK_MONOTONIC: now_ns, and what is known to have passed since */
  __u64 pc;
  __u64 address;          /* virtual; 0 without an access */
  __u64 physical_address; /* 0 without an access */
  __u32 pid;              /* process of the address space */
  __u32 latency_ns;       /* charged for it */
  __u16 node;             /* TIERSIM_NODE_UNKNOWN without an access */
  __u8 slot;
  __u8 level; /* enum tiersim_level */
  __u8 flags;
  __u8 reserved[3];
};

#define TIERSIM_NODE_UNKNOWN 0xffff

/* A sampling event of one CPU. */
struct tiersim_slot {
  /* Written by the guest. */
  __u32 event;      /* enum tiersim_event */
  __u32 generation; /* changes with whatever else changes here */
  __u64 period;     /* 0: none */
  __u64 first;      /* events until the first sample; 1 to period */
  /* Written by tiersim; `left` is up to date after a doorbell. */
  __u64 left; /* events until the next sample */
  __u64 lost; /* samples, ever, that found the ring full */
};

struct tiersim_cpu {
  struct tiersim_slot slots[TIERSIM_SLOTS];
  /* Written by tiersim; OPS are up to date after a doorbell, the others always. */
  __u64 counters[TIERSIM_EVENTS];
  __u64 head; /* samples ever put into the ring */
  /* Written by the guest. */
  __u64 tail;   /* samples ever taken out */
  __u64 now_ns; /* CLOCK_MONOTONIC, shortly before a doorbell */
};

/* Page frames [start_pfn, end_pfn) lie on the node. */
struct tiersim_node {
  __u64 start_pfn;
  __u64 end_pfn;
  __u32 node;
  __u32 reserved;
};

enum tiersim_space_state {
  TIERSIM_SPACE_LIVE = 1,
  TIERSIM_SPACE_LEFT = 2,    /* for another, by exec */
  TIERSIM_SPACE_EXITED = 3,  /* with its process */
  TIERSIM_SPACE_STOPPED = 4, /* no longer traced: its process lives on */
};

struct tiersim_space {
  __u64 cr3; /* physical address of the top page table; 0: lives in another one's until exec */
  __u64 start_time_ticks; /* /proc/PID/stat field 22 */
  __u32 target;           /* the same for all spaces of one process */
  __u32 pid;
  __u32 state; /* enum tiersim_space_state */
  __u32 reserved;
  char name[16]; /* /proc/PID/comm */
};

struct tiersim_shared {
  /* Written by tiersim, before the guest starts. */
  __u64 magic;
  __u32 version;
  /* Written by tiersim, at a doorbell. */
  __u32 write_error;    /* errno of the first write that failed, 0 none */
  __u64 epochs_written; /* to the truth stream */
  __u64 charged_ns;     /* latencies and page walks so far */

  /* Written by the guest. */
  __u64 fold;           /* each vCPU hands its counts over when this has changed */
  __u64 close;          /* when this has changed, the counts handed over are written as an epoch */
  __u64 epoch_start_ns; /* CLOCK_MONOTONIC */
  __u64 epoch_end_ns;
  __u32 finish;      /* 1: that epoch is the last one */
  __u32 node_count;  /* valid entries of nodes */
  __u32 space_count; /* valid entries of spaces; written after the entry */
  __u32 reserved;
  struct tiersim_node nodes[TIERSIM_MAX_NODES];
  struct tiersim_space spaces[TIERSIM_MAX_SPACES];

  struct tiersim_cpu cpu[TIERSIM_MAX_CPUS];
  struct tiersim_sample ring[TIERSIM_MAX_CPUS][TIERSIM_RING_SAMPLES];
};

#endif /* TMPROF_TESTBED_TIERSIM_FORMAT_SHARED_PAGE_H */
