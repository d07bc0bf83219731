// SPDX-License-Identifier: GPL-2.0-only
/* The walk as an iterator over the mappings of a task: Linux 5.12 and later. */

#include "page_walk.bpf.h"

/* Parts and holes of one pass; the verifier follows every round of a plain loop. */
#define MAX_STEPS 256

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct bpf_iter_meta {
  struct seq_file* seq;
};
struct bpf_iter__task_vma {
  struct bpf_iter_meta* meta;
  struct task_struct* task;
  struct vm_area_struct* vma;
};
#pragma clang attribute pop

SEC("iter/task_vma")
int run_walk(struct bpf_iter__task_vma* context) {
  struct task_struct* task = context->task;
  struct vm_area_struct* vma = context->vma;
  __u8 done = 1;
  int i;

  /* Threads without memory, as a main one that has exited before the others, have no mappings. */
  if (!task || !vma || task->tgid != request.pid || vma->vm_end <= request.start) return 0;
  if (request.mode == TMPROF_WALK_PEEK) {
    peek();
  } else if (vma->vm_start <= request.start) {
    open_walk();
    begin(task, vma);
    for (i = 0; i < MAX_STEPS; i++)
      if (step()) break;
    count_running(task);
    close_walk();
  } else {
    reply.status = -ENOENT;
  }
  /* Ends the read() that drives this iterator, which asks for one byte. */
  bpf_seq_write(context->meta->seq, &done, sizeof(done));
  return 0;
}
