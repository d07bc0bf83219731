// SPDX-License-Identifier: GPL-2.0-only
/*
 * The exposure ladder runs in user space over this call, as it does over BPF reads and MADV_COLD.
 * It thus has one implementation, whatever clears the bits. Results are gathered in kernel memory
 * first, because copying to the caller may fault, and the caller may be the target.
 */

#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "driver/allocation.h"
#include "driver/compat/compat.h"
#include "driver/page_walk.h"
#include "driver/range_scan.h"
#include "driver/session.h"
#include "driver/stats.h"
#include "driver/target.h"

/* One hold of the mmap lock: 16 tables. */
#define ENTRIES_PER_HOLD (16 * TMPROF_BLOCK_UNITS)

/* Huge leaves of 2 MiB that can overlap an unaligned range of the largest size. */
#define MAX_LEAVES (TMPROF_MAX_SCAN_PAGES / TMPROF_BLOCK_UNITS + 1)

struct tmprof_range_buffers {
	struct tmprof_walk walk;
	struct tmprof_scan_range *request;
	bool leaves_cut;
	struct tmprof_scan_leaf leaves[MAX_LEAVES];
	DECLARE_BITMAP(select, TMPROF_MAX_SCAN_PAGES);
	DECLARE_BITMAP(present, TMPROF_MAX_SCAN_PAGES);
	DECLARE_BITMAP(accessed, TMPROF_MAX_SCAN_PAGES);
	u64 frames[TMPROF_MAX_SCAN_PAGES];
	u16 nodes[TMPROF_MAX_SCAN_PAGES];
};

static void note_leaf(struct tmprof_range_buffers *buffers, const struct tmprof_block *block)
{
	struct tmprof_scan_range *request = buffers->request;

	if (!request->leaves)
		return;
	if (request->leaf_count == min_t(u32, request->leaf_capacity, MAX_LEAVES)) {
		buffers->leaves_cut = true;
		return;
	}
	buffers->leaves[request->leaf_count++] = (struct tmprof_scan_leaf){
		.vpn = block->vpn,
		.span_pages = block->span_pages,
		.node = block->node[0],
		.leaf_flags = (block->hugetlb ? TMPROF_LEAF_HUGETLB : 0) |
			      (test_bit(0, block->accessed) ? TMPROF_LEAF_ACCESSED : 0) |
			      (test_bit(0, block->cleared) ? TMPROF_LEAF_CLEARED : 0),
	};
}

static void gather_huge(struct tmprof_range_buffers *buffers, const struct tmprof_block *block)
{
	struct tmprof_scan_range *request = buffers->request;
	u64 first = max_t(u64, block->vpn, request->start_vpn);
	u64 end = min_t(u64, block->vpn + block->span_pages, request->start_vpn + request->pages);
	u32 index = first - request->start_vpn;
	u32 pages = end - first;
	u32 i;

	bitmap_set(buffers->present, index, pages);
	if (test_bit(0, block->accessed))
		bitmap_set(buffers->accessed, index, pages);
	for (i = 0; i < pages; i++) {
		if (request->frames)
			buffers->frames[index + i] = block->frame[0] + (first - block->vpn) + i;
		if (request->nodes)
			buffers->nodes[index + i] = block->node[0];
	}
}

/* Lays 64 pages' bits from `vpn` on into a bitmap that begins at `start_vpn`. Only pages of the
 * bitmap have one. */
static void lay_bits(unsigned long *bitmap, u64 start_vpn, u64 vpn, unsigned long bits)
{
	unsigned long index, shift;

	if (!bits)
		return;
	if (vpn < start_vpn) {
		bits >>= start_vpn - vpn;
		vpn = start_vpn;
	}
	index = (vpn - start_vpn) / BITS_PER_LONG;
	shift = (vpn - start_vpn) % BITS_PER_LONG;
	bitmap[index] |= bits << shift;
	if (shift && bits >> (BITS_PER_LONG - shift))
		bitmap[index + 1] |= bits >> (BITS_PER_LONG - shift);
}

static void gather_table(struct tmprof_range_buffers *buffers, const struct tmprof_block *block)
{
	struct tmprof_scan_range *request = buffers->request;
	unsigned int word, unit;

	for (word = 0; word < ARRAY_SIZE(block->present); word++) {
		u64 vpn = block->vpn + word * BITS_PER_LONG;

		lay_bits(buffers->present, request->start_vpn, vpn, block->present[word]);
		lay_bits(buffers->accessed, request->start_vpn, vpn, block->accessed[word]);
	}
	if (!request->frames && !request->nodes)
		return;
	for_each_set_bit (unit, block->present, TMPROF_BLOCK_UNITS) {
		u32 index = block->vpn + unit - request->start_vpn;

		if (request->frames)
			buffers->frames[index] = block->frame[unit];
		if (request->nodes)
			buffers->nodes[index] = block->node[unit];
	}
}

static void gather(struct tmprof_walk *walk, const struct tmprof_block *block)
{
	struct tmprof_range_buffers *buffers =
		container_of(walk, struct tmprof_range_buffers, walk);

	if (block->span_pages == 1) {
		gather_table(buffers, block);
		return;
	}
	note_leaf(buffers, block);
	gather_huge(buffers, block);
}

static int check(const struct tmprof_scan_range *request)
{
	u64 end = request->start_vpn + request->pages;

	if (!request->pages || request->pages > TMPROF_MAX_SCAN_PAGES)
		return -EINVAL;
	if (end < request->start_vpn || end > TASK_SIZE_MAX >> PAGE_SHIFT)
		return -EINVAL;
	if (request->head.flags & (TMPROF_SCAN_FLUSH | TMPROF_SCAN_SELECT) &&
	    !(request->head.flags & TMPROF_SCAN_CLEAR))
		return -EINVAL;
	if (!!(request->head.flags & TMPROF_SCAN_SELECT) != !!request->select)
		return -EINVAL;
	if (!request->leaves && request->leaf_capacity)
		return -EINVAL;
	if (request->head.flags & TMPROF_SCAN_FLUSH && !tmprof_can_flush())
		return -EOPNOTSUPP;
	if (request->frames && !tmprof_may_see_frames())
		return -EPERM;
	return 0;
}

static size_t bitmap_bytes(const struct tmprof_scan_range *request)
{
	return BITS_TO_LONGS(request->pages) * sizeof(long);
}

static int prepare(struct tmprof_session *session, struct tmprof_scan_range *request)
{
	struct tmprof_range_buffers *buffers = session->range_buffers;

	if (!buffers) {
		buffers = tmprof_allocate(sizeof(*buffers), NUMA_NO_NODE);
		if (IS_ERR(buffers))
			return PTR_ERR(buffers);
		session->range_buffers = buffers;
	}
	buffers->request = request;
	buffers->leaves_cut = false;
	bitmap_zero(buffers->present, request->pages);
	bitmap_zero(buffers->accessed, request->pages);
	if (request->frames)
		memset(buffers->frames, 0xff, request->pages * sizeof(buffers->frames[0]));
	if (request->nodes)
		memset(buffers->nodes, 0xff, request->pages * sizeof(buffers->nodes[0]));
	memset(&buffers->walk.counts, 0, sizeof(buffers->walk.counts));
	buffers->walk.flags = request->frames ? TMPROF_WALK_FRAMES : 0;
	if (request->nodes || request->leaves)
		buffers->walk.flags |= TMPROF_WALK_ALL_NODES;
	buffers->walk.emit = gather;
	buffers->walk.select = NULL;
	if (request->head.flags & TMPROF_SCAN_CLEAR)
		buffers->walk.flags |= TMPROF_WALK_CLEAR;
	if (request->head.flags & TMPROF_SCAN_SELECT) {
		if (copy_from_user(buffers->select, u64_to_user_ptr(request->select),
				   bitmap_bytes(request)))
			return -EFAULT;
		buffers->walk.select = buffers->select;
		buffers->walk.select_vpn = request->start_vpn;
		buffers->walk.select_pages = request->pages;
	}
	request->leaf_count = 0;
	request->present_pages = 0;
	request->accessed_pages = 0;
	request->lock_ns = 0;
	request->mapped_end_vpn = 0;
	return 0;
}

static int lock(struct tmprof_session *session, struct mm_struct *mm, bool may_wait)
{
	if (mmap_read_trylock(mm))
		return 0;
	tmprof_count_busy(session);
	if (!may_wait)
		return -EAGAIN;
	return mmap_read_lock_killable(mm);
}

static u64 next_vpn(struct mm_struct *mm, unsigned long end)
{
	unsigned long next = tmprof_next_mapped(mm, end, ENTRIES_PER_HOLD);

	return next == ULONG_MAX ? TMPROF_NO_VPN : next >> PAGE_SHIFT;
}

static int walk_range(struct tmprof_session *session, struct mm_struct *mm,
		      struct tmprof_scan_range *request)
{
	struct tmprof_range_buffers *buffers = session->range_buffers;
	unsigned long at = request->start_vpn << PAGE_SHIFT;
	unsigned long end = at + ((unsigned long)request->pages << PAGE_SHIFT);
	struct vm_area_struct *mapping;
	bool first = true;

	while (at < end) {
		u64 locked_ns, held_ns;
		int error;

		if (fatal_signal_pending(current))
			return -EINTR;
		error = lock(session, mm, !(first && request->head.flags & TMPROF_SCAN_TRYLOCK));
		if (error)
			return error;
		locked_ns = ktime_get_ns();
		if (first) {
			mapping = find_vma(mm, at);
			if (mapping && mapping->vm_start <= at)
				request->mapped_end_vpn = mapping->vm_end >> PAGE_SHIFT;
		}
		at = tmprof_walk(&buffers->walk, mm, at, end, ENTRIES_PER_HOLD);
		if (at >= end)
			request->next_vpn = next_vpn(mm, end);
		mmap_read_unlock(mm);
		held_ns = ktime_get_ns() - locked_ns;
		request->lock_ns = max(request->lock_ns, held_ns);
		tmprof_count_lock(session, held_ns);
		first = false;
		cond_resched();
	}
	return 0;
}

static bool copy_one(u64 to, const void *from, size_t bytes)
{
	return !to || !copy_to_user(u64_to_user_ptr(to), from, bytes);
}

static int copy_results(const struct tmprof_range_buffers *buffers)
{
	const struct tmprof_scan_range *request = buffers->request;

	if (!copy_one(request->present, buffers->present, bitmap_bytes(request)) ||
	    !copy_one(request->accessed, buffers->accessed, bitmap_bytes(request)) ||
	    !copy_one(request->frames, buffers->frames, request->pages * sizeof(u64)) ||
	    !copy_one(request->nodes, buffers->nodes, request->pages * sizeof(u16)) ||
	    !copy_one(request->leaves, buffers->leaves,
		      request->leaf_count * sizeof(buffers->leaves[0])))
		return -EFAULT;
	return buffers->leaves_cut ? -ENOSPC : 0;
}

static int scan(struct tmprof_session *session, struct tmprof_target *target,
		struct tmprof_scan_range *request)
{
	struct tmprof_range_buffers *buffers = session->range_buffers;
	struct tmprof_stats *stats = &session->stats;
	u64 flush_ns = 0;
	struct mm_struct *mm;
	int error;

	mm = tmprof_target_mm(target, &request->address_space);
	if (!mm)
		return -ESRCH;
	request->start_ns = ktime_get_ns();
	error = walk_range(session, mm, request);
	request->running_threads = tmprof_target_running(target);
	if (request->head.flags & TMPROF_SCAN_FLUSH && buffers->walk.counts.cleared) {
		flush_ns = ktime_get_ns();
		tmprof_flush(mm);
		flush_ns = ktime_get_ns() - flush_ns;
	}
	request->end_ns = ktime_get_ns();
	tmprof_target_mm_put(mm);
	/* Base pages that collapse behind the walk are met again, in a huge leaf. */
	request->present_pages = bitmap_weight(buffers->present, request->pages);
	request->accessed_pages = bitmap_weight(buffers->accessed, request->pages);
	request->cleared_bits = buffers->walk.counts.cleared;
	request->races = buffers->walk.counts.races;

	tmprof_count_walk(session, &buffers->walk.counts);
	spin_lock(&session->stats_lock);
	stats->range_calls++;
	stats->range_ns += request->end_ns - request->start_ns;
	stats->flushes += flush_ns != 0;
	stats->flush_ns += flush_ns;
	spin_unlock(&session->stats_lock);
	return error;
}

int tmprof_range_scan(struct tmprof_session *session, struct tmprof_scan_range *request)
{
	struct tmprof_target *target;
	int error = check(request);

	if (error)
		return error;
	target = tmprof_target_get(session, request->target_id);
	if (!target)
		return -ENOENT;
	if (mutex_lock_killable(&session->range)) {
		error = -EINTR;
		goto put;
	}
	error = prepare(session, request);
	if (!error)
		error = scan(session, target, request);
	if (!error)
		error = copy_results(session->range_buffers);
	mutex_unlock(&session->range);
put:
	tmprof_target_put(target);
	return error;
}

void tmprof_range_free(struct tmprof_session *session)
{
	tmprof_release(session->range_buffers);
}
