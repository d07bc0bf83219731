// SPDX-License-Identifier: GPL-2.0-only
/* The walk as a syscall program: Linux 6.10 and later (kfuncs in syscall programs). */

#include "page_walk.bpf.h"

/* More than any walk takes: one round per part and one per hole. */
#define MAX_STEPS (1 << 16)

extern struct task_struct* bpf_task_from_pid(__s32 pid) __ksym;
extern void bpf_task_release(struct task_struct* task) __ksym;
/* An iterator over numbers: a loop whose rounds the verifier need not follow one by one. */
struct bpf_iter_num {
  __u64 state;
};
extern int bpf_iter_num_new(struct bpf_iter_num* numbers, int first, int end) __ksym;
extern int* bpf_iter_num_next(struct bpf_iter_num* numbers) __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num* numbers) __ksym;

static long step_callback(__u32 index, void* unused) { return step(); }

static long mapping_callback(struct task_struct* task, struct vm_area_struct* vma, void* unused) {
  begin(task, vma);
  bpf_loop(MAX_STEPS, step_callback, NULL, 0);
  return 0;
}

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, TMPROF_WALK_MAX_POINTS);
  __uint(map_flags, BPF_F_MMAPABLE);
  __type(key, __u32);
  __type(value, struct tmprof_walk_point);
} points SEC(".maps");

/* With the mmap_lock held, and the address in a mapping. */
static long point_callback(struct task_struct* task, struct vm_area_struct* vma, void* unused) {
  struct tmprof_walk_point* point;
  __u64 table, entry = 0;
  __u32 index = walk.point;
  int shift;

  point = bpf_map_lookup_elem(&points, &index);
  if (!point) return 0;
  table = (__u64)BPF_CORE_READ(task, mm, pgd);
  reply.top_table = table;
  point->status = table ? 0 : -ESRCH;
  if (!table) return 0;
  for (shift = 48; shift >= 12; shift -= 9) {
    if (shift == 48 && request.levels != 5) continue;
    if (read_entry(&entry, table, point->address, shift)) {
      point->status = -EFAULT;
      return 0;
    }
    point->entry = entry;
    if (!(entry & ENTRY_PRESENT)) return 0;
    if (shift == 12) point->kind = TMPROF_PART_BASE;
    if (shift == SHIFT_2M && (entry & ENTRY_HUGE)) point->kind = TMPROF_PART_2M;
    if (shift == SHIFT_1G && (entry & ENTRY_HUGE)) point->kind = TMPROF_PART_1G;
    if (point->kind) return 0;
    table = table_of(entry);
  }
  return 0;
}

static __always_inline void read_points(struct task_struct* task) {
  struct bpf_iter_num numbers;
  struct tmprof_walk_point* point;
  __u32 index;
  long found;
  int* next;

  bpf_iter_num_new(&numbers, 0, request.points);
  while ((next = bpf_iter_num_next(&numbers))) {
    index = *next;
    point = bpf_map_lookup_elem(&points, &index);
    if (!point) break;
    walk.point = index;
    point->entry = 0;
    point->kind = 0;
    /* -ENOENT: nothing is mapped there; -EBUSY: a writer has the mmap_lock. */
    found = bpf_find_vma(task, point->address, point_callback, NULL, 0);
    if (found) point->status = found;
  }
  bpf_iter_num_destroy(&numbers);
}

/* Its number, or 0. */
static __always_inline int thread_with_memory(struct task_struct* task) {
  const __u64 head = threads_of(task);
  struct list_head* link = (struct list_head*)head;
  int i;

  for (i = 0; i < TMPROF_WALK_MAX_THREADS; i++) {
    struct task_struct* thread = next_thread(head, &link);

    if (!thread) break;
    if (BPF_CORE_READ(thread, mm)) return BPF_CORE_READ(thread, pid);
  }
  return 0;
}

SEC("syscall")
int run_walk(void* unused) {
  struct task_struct* task;
  int other;
  long found;

  if (request.mode == TMPROF_WALK_PEEK) {
    peek();
    return 0;
  }
  open_walk();
  reply.status = -ESRCH;
  task = bpf_task_from_pid(request.pid);
  if (!task) return 0;
  if (!BPF_CORE_READ(task, mm)) {
    /* The main thread may exit before the others; bpf_find_vma() wants one that has not. */
    other = thread_with_memory(task);
    bpf_task_release(task);
    if (!other) return 0;
    task = bpf_task_from_pid(other);
    if (!task) return 0;
  }
  if (request.mode == TMPROF_WALK_POINTS) {
    reply.status = 0;
    read_points(task);
    count_running(task);
    bpf_task_release(task);
    close_walk();
    return 0;
  }
  /* -ENOENT: nothing is mapped there; -EBUSY: a writer has the mmap_lock. */
  found = bpf_find_vma(task, request.start, mapping_callback, NULL, 0);
  if (found) reply.status = BPF_CORE_READ(task, mm) ? found : -ESRCH;
  count_running(task);
  bpf_task_release(task);
  close_walk();
  return 0;
}
