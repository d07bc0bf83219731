// SPDX-License-Identifier: GPL-2.0-only
/* Each block begins with its size, so that a release needs no count of elements. */

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "driver/allocation.h"

struct block {
	size_t bytes;
	u8 data[] __aligned(16);
};

static unsigned long max_memory_bytes = 1UL << 30;
module_param(max_memory_bytes, ulong, 0644);
MODULE_PARM_DESC(max_memory_bytes,
		 "memory of all sessions together; also the largest memory_limit_bytes of one");

static atomic64_t memory_bytes = ATOMIC64_INIT(0);

static int get_memory_bytes(char *text, const struct kernel_param *unused)
{
	return sysfs_emit(text, "%lld\n", atomic64_read(&memory_bytes));
}

static const struct kernel_param_ops memory_bytes_ops = {.get = get_memory_bytes};
module_param_cb(memory_bytes, &memory_bytes_ops, NULL, 0444);
MODULE_PARM_DESC(memory_bytes, "memory that all sessions hold now");

u64 tmprof_most_memory(void)
{
	return READ_ONCE(max_memory_bytes);
}

bool tmprof_take_share(size_t bytes)
{
	if (atomic64_add_return(bytes, &memory_bytes) <= tmprof_most_memory())
		return true;
	atomic64_sub(bytes, &memory_bytes);
	return false;
}

void tmprof_return_share(size_t bytes)
{
	atomic64_sub(bytes, &memory_bytes);
}

/* Large blocks are made of single pages at once: to look for adjoining ones may take long. */
static void *allocate_pages(size_t bytes, int node)
{
	if (node == NUMA_NO_NODE && bytes > PAGE_SIZE << PAGE_ALLOC_COSTLY_ORDER)
		return __vmalloc(bytes, TMPROF_GFP | __GFP_ZERO);
	return kvzalloc_node(bytes, TMPROF_GFP, node);
}

void *tmprof_allocate(size_t bytes, int node)
{
	size_t with_head = size_add(bytes, sizeof(struct block));
	struct block *block;

	if (with_head > INT_MAX || !tmprof_take_share(with_head))
		return ERR_PTR(-EDQUOT);
	block = allocate_pages(with_head, node);
	if (!block) {
		tmprof_return_share(with_head);
		return ERR_PTR(-ENOMEM);
	}
	block->bytes = with_head;
	return block->data;
}

void *tmprof_allocate_array(size_t count, size_t bytes, int node)
{
	return tmprof_allocate(array_size(count, bytes), node);
}

void tmprof_release(const void *data)
{
	const struct block *block;

	if (IS_ERR_OR_NULL(data))
		return;
	block = container_of(data, struct block, data);
	tmprof_return_share(block->bytes);
	kvfree(block);
}
