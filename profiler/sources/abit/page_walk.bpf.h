/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The page-table walk that both kernel ways share. It runs with the mmap_lock of the process held
 * for reading, so that munmap() frees no table that the mapping under the walk has a part in: its
 * last one is walked to the end, for the mappings behind it. A table can still be replaced by a
 * huge page; its entry is read again after the copy.
 */

#pragma once

#include <linux/bpf.h>
#include <linux/types.h>

/* These want the types above. */
#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "page_walk.h"

#define ENTRY_PRESENT 1ULL
#define ENTRY_HUGE (1ULL << 7)
#define SHIFT_2M 21
#define SHIFT_1G 30
#define NEVER (~0ULL)
#define EFAULT 14
#define ENOENT 2
#define ESRCH 3

/* Only what is used; relocated to the running kernel's layout when the program is loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct list_head {
  struct list_head* next;
};
struct mm_struct {
  void* pgd;
};
struct signal_struct {
  struct list_head thread_head;
};
struct task_struct {
  struct mm_struct* mm;
  struct signal_struct* signal;
  struct list_head thread_node;
  int pid;
  int tgid;
  int on_cpu;
};
struct vm_area_struct {
  unsigned long vm_start;
  unsigned long vm_end;
};
#pragma clang attribute pop

/* In a map value, not on the stack: the verifier follows the known bits of stack slots and would
 * never see two walks as equal. */
struct tmprof_walk_request request;
struct tmprof_walk_reply reply;
struct {
  __u64 address;
  __u64 end;
  __u64 upper_table;    /* kernel address of the table of 1 GiB entries … */
  __u64 upper_address;  /* … for these 512 GiB, or NEVER */
  __u64 middle_table;   /* kernel address of the table of 2 MiB entries … */
  __u64 middle_address; /* … for this GiB, or NEVER */
  __u32 point;          /* the one being read */
} walk;
/* A copy of the table of 2 MiB entries, for walks that look at nothing below it. */
struct tmprof_table middle;

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, TMPROF_WALK_MAX_PARTS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, __u32);
  __type(value, struct tmprof_table);
} tables SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, TMPROF_WALK_MAX_PARTS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, __u32);
  __type(value, struct tmprof_walk_part);
} parts SEC(".maps");

static __always_inline int read_entry(__u64* entry, __u64 table, __u64 address, int shift) {
  return bpf_probe_read_kernel(entry, sizeof(*entry),
                               (void*)(table + ((address >> shift) & 511) * 8));
}

static __always_inline __u64 align_up(__u64 address, int shift) {
  return ((address >> shift) + 1) << shift;
}

/* Entries of `middle` that are passed over together if none is present. */
#define GROUP 32
#define GROUP_SHIFT 26 /* bits of the address space that they map */

static __always_inline int group_is_empty(__u32 first) {
  __u64 any = 0;
  int i;

  first &= 511 & ~(GROUP - 1);
#pragma clang loop unroll(full)
  for (i = 0; i < GROUP; i++) any |= middle.entry[first + i];
  return !(any & ENTRY_PRESENT);
}

static __always_inline __u64 table_of(__u64 entry) {
  return (entry & request.frame_mask) + request.direct_map;
}

static __always_inline void emit(__u64 address, __u64 entry, __u32 kind) {
  __u32 index = reply.parts;
  struct tmprof_walk_part* part = bpf_map_lookup_elem(&parts, &index);

  if (!part) return;
  part->address = address;
  part->entry = entry;
  part->kind = kind;
  reply.parts = index + 1;
}

/* Finds the table of 1 GiB entries for walk.address. False: there is none, and the walk moved on.
 */
static __always_inline int descend_to_upper(void) {
  __u64 address = walk.address, table = reply.top_table, entry = 0;
  int hole = 57;

  if (request.levels == 5) {
    hole = 48;
    if (read_entry(&entry, table, address, 48)) goto fault;
    if (!(entry & ENTRY_PRESENT)) goto skip;
    table = table_of(entry);
  }
  hole = 39;
  if (read_entry(&entry, table, address, 39)) goto fault;
  if (!(entry & ENTRY_PRESENT)) goto skip;
  walk.upper_table = table_of(entry);
  walk.upper_address = address >> 39;
  return 1;
fault:
  reply.status = -EFAULT;
skip:
  walk.address = align_up(address, hole);
  return 0;
}

/* Finds the table of 2 MiB entries for walk.address. False: there is none, and the walk moved on.
 */
static __always_inline int descend(void) {
  __u64 address = walk.address, entry = 0;

  if (walk.upper_address != address >> 39 && !descend_to_upper()) return 0;
  if (read_entry(&entry, walk.upper_table, address, SHIFT_1G)) goto fault;
  if (!(entry & ENTRY_PRESENT)) goto skip;
  if (entry & ENTRY_HUGE) {
    emit(address >> SHIFT_1G << SHIFT_1G, entry, TMPROF_PART_1G);
    goto skip;
  }
  walk.middle_table = table_of(entry);
  if (request.mode == TMPROF_WALK_PARTS &&
      bpf_probe_read_kernel(&middle, sizeof(middle), (void*)walk.middle_table))
    goto fault;
  walk.middle_address = address >> SHIFT_1G;
  return 1;
fault:
  reply.status = -EFAULT;
skip:
  walk.address = align_up(address, SHIFT_1G);
  return 0;
}

/* One part, or one hole. True at the end of the walk. */
static __always_inline int step(void) {
  __u64 address = walk.address, entry = 0, again = 0;
  __u32 index = reply.parts;
  struct tmprof_table* copy;

  if (address >= walk.end || index >= TMPROF_WALK_MAX_PARTS || reply.status) return 1;
  if (walk.middle_address != address >> SHIFT_1G && !descend()) return 0;
  walk.address = align_up(address, SHIFT_2M);
  if (request.mode == TMPROF_WALK_PARTS) {
    index = (address >> SHIFT_2M) & 511;
    if (index % GROUP == 0 && group_is_empty(index)) {
      walk.address = align_up(address, GROUP_SHIFT);
      return 0;
    }
    entry = middle.entry[index];
    index = reply.parts;
  } else if (read_entry(&entry, walk.middle_table, address, SHIFT_2M)) {
    reply.status = -EFAULT;
    return 1;
  }
  if (!(entry & ENTRY_PRESENT)) return 0;
  address = address >> SHIFT_2M << SHIFT_2M;
  if (entry & ENTRY_HUGE) {
    emit(address, entry, TMPROF_PART_2M);
    return 0;
  }
  if (request.mode == TMPROF_WALK_TABLES) {
    copy = bpf_map_lookup_elem(&tables, &index);
    if (!copy) return 1;
    if (bpf_probe_read_kernel(copy, sizeof(*copy), (void*)table_of(entry)) ||
        read_entry(&again, walk.middle_table, address, SHIFT_2M) ||
        (again ^ entry) & (request.frame_mask | ENTRY_HUGE | ENTRY_PRESENT)) {
      reply.torn++;
      return 0;
    }
  }
  emit(address, entry, TMPROF_PART_TABLE);
  return 0;
}

static __always_inline void begin(struct task_struct* task, struct vm_area_struct* vma) {
  __u64 last;

  reply.status = 0;
  reply.top_table = (__u64)BPF_CORE_READ(task, mm, pgd);
  if (!reply.top_table) reply.status = -ESRCH;
  if (walk.address < vma->vm_start) walk.address = vma->vm_start;
  if (walk.end > vma->vm_end) {
    last = align_up(vma->vm_end - 1, SHIFT_2M);
    if (walk.end > last) walk.end = last;
  }
}

/* The thread behind a link of its process's list; NULL: past the last. */
static __always_inline struct task_struct* next_thread(__u64 head, struct list_head** link) {
  const __u64 offset = bpf_core_field_offset(struct task_struct, thread_node);

  bpf_probe_read_kernel(link, sizeof(*link), (void*)*link);
  if (!*link || (__u64)*link == head) return NULL;
  return (struct task_struct*)((__u64)*link - offset);
}

static __always_inline __u64 threads_of(struct task_struct* task) {
  return (__u64)BPF_CORE_READ(task, signal) +
         bpf_core_field_offset(struct signal_struct, thread_head);
}

static __always_inline void count_running(struct task_struct* task) {
  const __u64 head = threads_of(task);
  struct list_head* link = (struct list_head*)head;
  __u32 running = 0;
  int i;

  for (i = 0; i < TMPROF_WALK_MAX_THREADS; i++) {
    struct task_struct* thread = next_thread(head, &link);

    if (!thread) break;
    running += BPF_CORE_READ(thread, on_cpu) != 0;
  }
  reply.running = running;
}

static __always_inline void open_walk(void) {
  walk.address = request.start;
  walk.end = request.end;
  walk.upper_address = NEVER;
  walk.middle_address = NEVER;
  reply.parts = 0;
  reply.torn = 0;
  reply.running = 0;
  reply.top_table = 0;
  reply.caller_pid = bpf_get_current_pid_tgid() >> 32;
  reply.started_ns = bpf_ktime_get_ns();
}

static __always_inline void close_walk(void) {
  reply.next = walk.address;
  reply.ended_ns = bpf_ktime_get_ns();
}

static __always_inline void peek(void) {
  reply.caller_pid = bpf_get_current_pid_tgid() >> 32;
  reply.status = bpf_probe_read_kernel(&reply.peeked, sizeof(reply.peeked), (void*)request.peek_at);
}

char LICENSE[] SEC("license") = "GPL";
