// SPDX-License-Identifier: GPL-2.0-only
/* The walk as a syscall program: Linux 6.10 and later (kfuncs in syscall programs). */

#include "page_walk.bpf.h"

/* More than any walk takes: one round per part and one per hole. */
#define MAX_STEPS (1 << 16)

extern struct task_struct* bpf_task_from_pid(__s32 pid) __ksym;
extern void bpf_task_release(struct task_struct* task) __ksym;

static long step_callback(__u32 index, void* unused) { return step(); }

static long mapping_callback(struct task_struct* task, struct vm_area_struct* vma, void* unused) {
  begin(task, vma);
  bpf_loop(MAX_STEPS, step_callback, NULL, 0);
  return 0;
}

/* Its number, or 0. */
static __always_inline int thread_with_memory(struct task_struct* task) {
  const __u64 head = threads_of(task);
  struct list_head* link = (struct list_head*)head;
  int i;

  for (i = 0; i < MAX_THREADS; i++) {
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
  /* -ENOENT: nothing is mapped there; -EBUSY: a writer has the mmap_lock. */
  found = bpf_find_vma(task, request.start, mapping_callback, NULL, 0);
  if (found) reply.status = BPF_CORE_READ(task, mm) ? found : -ESRCH;
  count_running(task);
  bpf_task_release(task);
  close_walk();
  return 0;
}
