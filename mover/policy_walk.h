/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* The record that the BPF program writes for each mapping when it reads memory policies. */

#pragma once

#include <linux/types.h>

#define TMPROF_POLICY_MASK_WORDS 16 /* CONFIG_NODES_SHIFT is 10 at most (mm/Kconfig) */

enum tmprof_policy_of {
  TMPROF_POLICY_NONE,   /* no policy; the process's applies */
  TMPROF_POLICY_OWN,    /* given by `mode` and `nodes` */
  TMPROF_POLICY_SHARED, /* a shared object's policies, by range; not told */
};

/* Records come in the order of addresses. The first one is the process's own and has no
 * addresses. */
struct tmprof_policy {
  __u64 start; /* addresses */
  __u64 end;
  __u32 of;   /* tmprof_policy_of */
  __u32 mode; /* include/uapi/linux/mempolicy.h */
  __u64 nodes[TMPROF_POLICY_MASK_WORDS];
};
