/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Memory that a session may use, with a limit. The includer supplies the allocator: the module
 * passes kmalloc with GFP_KERNEL_ACCOUNT, user space and the tests pass their own.
 *
 * No locking: users that share one tmprof_memory must serialise.
 */
#ifndef TMPROF_CORE_MEMORY_H
#define TMPROF_CORE_MEMORY_H

#include <linux/types.h>
#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/stddef.h>
#else
#include <errno.h>
#include <stddef.h>
#endif

struct tmprof_memory {
	/* NULL when there is none; the contents need not be zero, the alignment is 8 or more. */
	void *(*allocate)(void *context, size_t bytes);
	void (*release)(void *context, void *block, size_t bytes);
	void *context;

	__u64 limit_bytes;
	__u64 used_bytes;
	__u64 peak_bytes;
	__u64 limit_hits; /* allocations refused by the limit */
	__u64 failures;	  /* allocations refused by `allocate` */
};

/* 0, -ENOSPC at the limit, -ENOMEM when there is no memory. */
static inline int tmprof_memory_get(struct tmprof_memory *memory, size_t bytes, void **block)
{
	if (bytes > memory->limit_bytes || memory->used_bytes > memory->limit_bytes - bytes) {
		memory->limit_hits++;
		return -ENOSPC;
	}
	*block = memory->allocate(memory->context, bytes);
	if (!*block) {
		memory->failures++;
		return -ENOMEM;
	}
	memory->used_bytes += bytes;
	if (memory->used_bytes > memory->peak_bytes)
		memory->peak_bytes = memory->used_bytes;
	return 0;
}

static inline void tmprof_memory_put(struct tmprof_memory *memory, void *block, size_t bytes)
{
	memory->used_bytes -= bytes;
	memory->release(memory->context, block, bytes);
}

#endif /* TMPROF_CORE_MEMORY_H */
