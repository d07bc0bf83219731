/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory for sessions: bounded over all of them, and never worth the life of a process. */
#ifndef TMPROF_ALLOCATION_H
#define TMPROF_ALLOCATION_H

#include <linux/gfp.h>
#include <linux/numa.h>
#include <linux/types.h>

/* An allocation that fails is refused to the caller or counted. It calls no OOM killer, and it is
 * charged to the memory cgroup of the session's opener. */
#define TMPROF_GFP (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* Zeroed memory, best on `node` (NUMA_NO_NODE: any). ERR_PTR(-EDQUOT): all sessions together would
 * have more than the module's option max_memory_bytes. ERR_PTR(-ENOMEM). May sleep. */
void *tmprof_allocate(size_t bytes, int node);

/* The same for an array of `count` elements of `bytes` bytes each. */
void *tmprof_allocate_array(size_t count, size_t bytes, int node);

/* NULL and error pointers are ignored. */
void tmprof_release(const void *block);

/* Takes `bytes` of max_memory_bytes for memory that the caller allocates itself. False: they would
 * be too much. */
bool tmprof_take_share(size_t bytes);
void tmprof_return_share(size_t bytes);

/* The module's option max_memory_bytes. */
u64 tmprof_most_memory(void);

#endif /* TMPROF_ALLOCATION_H */
