// SPDX-License-Identifier: GPL-2.0-only
/* Iterates over the mappings of a process and reports their memory policies. It works since Linux
 * 5.14, whose policies have one set of nodes. The mmap_lock is held for reading, so that no
 * mapping's policy changes meanwhile. The process's own may change, and is then read anew a
 * moment later. */

#include <linux/bpf.h>
#include <linux/types.h>

/* These want the types above. */
#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#include "policy_walk.h"

#define TMPFS_MAGIC 0x01021994 /* include/uapi/linux/magic.h */
#define HUGETLBFS_MAGIC 0x958458f6

/* Only the fields in use; they are relocated to the running kernel's layout when the program is
 * loaded. */
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct {
  unsigned long bits[1];
} nodemask_t;
struct mempolicy {
  unsigned short mode;
  nodemask_t nodes;
};
struct super_block {
  unsigned long s_magic;
};
struct inode {
  struct super_block* i_sb;
};
struct rb_node {
  unsigned long __rb_parent_color;
};
struct rb_root {
  struct rb_node* rb_node;
};
struct shared_policy {
  struct rb_root root;
};
struct shmem_inode_info {
  struct shared_policy policy;
  struct inode vfs_inode;
};
struct file {
  struct inode* f_inode;
};
struct vm_operations_struct {
  void* get_policy;
};
struct vm_area_struct {
  unsigned long vm_start;
  unsigned long vm_end;
  const struct vm_operations_struct* vm_ops;
  struct file* vm_file;
  struct mempolicy* vm_policy;
};
struct task_struct {
  int pid;
  int tgid;
  struct mempolicy* mempolicy;
};
struct bpf_iter_meta {
  struct seq_file* seq;
  __u64 seq_num;
};
struct bpf_iter__task_vma {
  struct bpf_iter_meta* meta;
  struct task_struct* task;
  struct vm_area_struct* vma;
};
#pragma clang attribute pop

static __always_inline void tell(struct tmprof_policy* told, const struct mempolicy* policy) {
  __u32 bytes = bpf_core_field_size(policy->nodes);
  unsigned short mode = 0;

  __builtin_memset(told->nodes, 0, sizeof(told->nodes));
  told->mode = 0;
  told->of = TMPROF_POLICY_NONE;
  if (!policy) return;
  if (bytes > sizeof(told->nodes)) bytes = sizeof(told->nodes);
  bpf_core_read(&mode, sizeof(mode), &policy->mode);
  bpf_core_read(told->nodes, bytes, &policy->nodes);
  told->mode = mode;
  told->of = TMPROF_POLICY_OWN;
}

/* Finds the policy as __get_vma_policy() of mm/mempolicy.c does. */
static __always_inline void tell_of_mapping(struct tmprof_policy* told,
                                            struct vm_area_struct* vma) {
  unsigned long magic = 0;

  told->start = vma->vm_start;
  told->end = vma->vm_end;
  tell(told, BPF_CORE_READ(vma, vm_policy));
  if (!BPF_CORE_READ(vma, vm_ops, get_policy)) return;
  magic = BPF_CORE_READ(vma, vm_file, f_inode, i_sb, s_magic);
  if (magic == HUGETLBFS_MAGIC) return;
  if (magic == TMPFS_MAGIC) {
    struct inode* inode = BPF_CORE_READ(vma, vm_file, f_inode);
    struct shmem_inode_info* info =
        (void*)inode - bpf_core_field_offset(struct shmem_inode_info, vfs_inode);

    told->of = BPF_CORE_READ(info, policy.root.rb_node) ? TMPROF_POLICY_SHARED : TMPROF_POLICY_NONE;
    return;
  }
  told->of = TMPROF_POLICY_SHARED;
}

SEC("iter/task_vma")
int tell_policies(struct bpf_iter__task_vma* context) {
  struct task_struct* task = context->task;
  struct vm_area_struct* vma = context->vma;
  struct tmprof_policy told = {};

  /* Threads with file tables of their own are iterated over, too. */
  if (!task || !vma || task->pid != task->tgid) return 0;
  if (context->meta->seq_num == 0) {
    tell(&told, BPF_CORE_READ(task, mempolicy));
    bpf_seq_write(context->meta->seq, &told, sizeof(told));
  }
  tell_of_mapping(&told, vma);
  bpf_seq_write(context->meta->seq, &told, sizeof(told));
  return 0;
}

char LICENSE[] SEC("license") = "GPL";
