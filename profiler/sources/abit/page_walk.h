/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The interface of the page-table programs to user space: a request, a reply, copies of tables.
 */

#pragma once

#include <linux/types.h>

/* One part is 2 MiB of address space or one huge leaf; a table takes 4 KiB, so 2 MiB in all. */
#define TMPROF_WALK_MAX_PARTS 512
#define TMPROF_TABLE_ENTRIES 512
#define TMPROF_WALK_MAX_POINTS 1024
#define TMPROF_WALK_MAX_THREADS 256 /* threads of a process that are looked at */

enum tmprof_walk_mode {
  TMPROF_WALK_TABLES = 0, /* parts, and the entries of each last-level table */
  TMPROF_WALK_PARTS = 1,  /* parts only */
  TMPROF_WALK_PEEK = 2,   /* the eight bytes at kernel address `peek_at` */
  TMPROF_WALK_POINTS = 3, /* the entries that map single addresses; syscall program only */
};

enum tmprof_part_kind {
  TMPROF_PART_TABLE = 1,
  TMPROF_PART_2M = 2,
  TMPROF_PART_1G = 3,
  TMPROF_PART_BASE = 4, /* only for a point: an entry of a last-level table */
};

struct tmprof_walk_request {
  __s32 pid; /* a number of the initial PID namespace */
  __u32 mode;
  __u32 levels; /* levels of the page tables: 4 or 5 */
  __u32 reserved;
  __u64 start; /* the walk ends with the last table of the mapping that holds it */
  __u64 end;
  __u64 direct_map; /* kernel address of physical address 0 */
  __u64 frame_mask; /* the physical-address bits of an entry */
  __u64 peek_at;
  __u32 points;
  __u32 reserved2;
};

struct tmprof_walk_reply {
  __s32 status;     /* 0 or a negative errno */
  __s32 caller_pid; /* the caller's number in the initial PID namespace */
  __u32 parts;
  __u32 torn;    /* tables that were replaced while they were copied; left out */
  __u32 running; /* threads of the process that were on a CPU */
  __u32 reserved;
  __u64 next;      /* address at which a walk that ran out of room goes on */
  __u64 top_table; /* kernel address of the top-level table; names the address space */
  __u64 peeked;
  __u64 started_ns; /* CLOCK_MONOTONIC */
  __u64 ended_ns;
};

struct tmprof_walk_part {
  __u64 address;
  __u64 entry; /* that points to the table, or is the leaf */
  __u32 kind;
  __u32 reserved;
};

/* In: the address. Out: the rest. */
struct tmprof_walk_point {
  __u64 address;
  __u64 entry; /* the leaf, or the first entry on the way that is not present */
  __u32 kind;  /* enum tmprof_part_kind; 0: nothing is mapped there */
  __s32 status;
};

struct tmprof_table {
  __u64 entry[TMPROF_TABLE_ENTRIES];
};
