/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* What the BPF program that reads memory policies tells of each mapping. */

#pragma once

#include <linux/types.h>

#define TMPROF_POLICY_MASK_WORDS 16 /* CONFIG_NODES_SHIFT is 10 at most (mm/Kconfig) */

enum tmprof_policy_of {
  TMPROF_POLICY_NONE,   /* there is none, and the process's holds */
  TMPROF_POLICY_OWN,    /* `mode` and `nodes` tell it */
  TMPROF_POLICY_SHARED, /* of an object that processes share: by range, and not told */
};

/* In the order of addresses, after one of the process itself, with no addresses. */
struct tmprof_policy {
  __u64 start; /* addresses */
  __u64 end;
  __u32 of;   /* tmprof_policy_of */
  __u32 mode; /* include/uapi/linux/mempolicy.h */
  __u64 nodes[TMPROF_POLICY_MASK_WORDS];
};
