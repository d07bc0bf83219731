// SPDX-License-Identifier: GPL-2.0-only
/*
 * A pass goes through one target's address space in chunks. A pass that runs out of budget resumes
 * at the same address later. A chunk's findings are gathered under the mmap lock and counted after
 * its release, since counting may allocate.
 */

#include <linux/bitmap.h>
#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "driver/abit_scan.h"
#include "driver/allocation.h"
#include "driver/compat/compat.h"
#include "driver/core/counter_store.h"
#include "driver/page_walk.h"
#include "driver/session.h"
#include "driver/stats.h"
#include "driver/target.h"

/* A writer holds the mmap lock for the time of one mmap() or munmap(); this is about the shortest
 * sleep that a timer keeps. */
#define BUSY_RETRY_NS 100000

struct found {
	u64 vpn;
	u32 span_pages;
	u16 node;
};

struct tmprof_scan_buffers {
	struct tmprof_walk walk;
	u32 count;
	u32 capacity;
	struct found found[];
};

static void gather(struct tmprof_walk *walk, const struct tmprof_block *block)
{
	struct tmprof_scan_buffers *buffers = container_of(walk, struct tmprof_scan_buffers, walk);
	unsigned int unit;

	for_each_set_bit (unit, block->accessed, block->units) {
		/* A chunk ends with the table in which its entries run out. */
		if (WARN_ON_ONCE(buffers->count == buffers->capacity))
			return;
		buffers->found[buffers->count++] = (struct found){
			.vpn = block->vpn + unit,
			.span_pages = block->span_pages,
			.node = block->node[unit],
		};
	}
}

int tmprof_abit_prepare(struct tmprof_session *session)
{
	u32 capacity = session->params.scan_chunk_entries + TMPROF_BLOCK_UNITS;
	struct tmprof_scan_buffers *buffers;

	buffers = tmprof_allocate(struct_size(buffers, found, capacity), NUMA_NO_NODE);
	if (IS_ERR(buffers))
		return PTR_ERR(buffers);
	buffers->capacity = capacity;
	buffers->walk.flags = TMPROF_WALK_CLEAR | TMPROF_WALK_NODES;
	buffers->walk.emit = gather;
	session->scan_buffers = buffers;
	return 0;
}

void tmprof_abit_free(struct tmprof_session *session)
{
	tmprof_release(session->scan_buffers);
	session->scan_buffers = NULL;
}

static void count_found(struct tmprof_session *session, struct tmprof_target *target)
{
	const struct tmprof_scan_buffers *buffers = session->scan_buffers;
	u64 refused = 0;
	u32 i;

	mutex_lock(&session->counters);
	for (i = 0; i < buffers->count && !target->removed; i++) {
		const struct found *found = &buffers->found[i];
		struct tmprof_observation seen = {
			.vpn = found->vpn,
			.references = 1,
			.node = found->node,
			.span = tmprof_span_of(found->span_pages),
		};

		refused += tmprof_store_add(&target->counts, &seen) != 0;
	}
	mutex_unlock(&session->counters);

	spin_lock(&session->stats_lock);
	session->stats.pages_refused += refused;
	spin_unlock(&session->stats_lock);
}

static bool flush_due(const struct tmprof_session *session, const struct tmprof_target *target)
{
	switch (session->params.flush_policy) {
	case TMPROF_FLUSH_PASS_END:
		return true;
	case TMPROF_FLUSH_EVERY_NTH:
		return (target->pass.number + 1) % session->params.flush_every == 0;
	default:
		return false;
	}
}

static void end_pass(struct tmprof_session *session, struct tmprof_target *target,
		     struct mm_struct *mm)
{
	struct tmprof_pass *pass = &target->pass;
	u64 now_ns = ktime_get_ns();
	bool late = now_ns > pass->due_ns;
	bool flushed = false;

	/* Bits cleared by an earlier pass count, too. The translation of a hot page may have stayed
	 * in a TLB ever since, so that this pass found the page idle. */
	if (mm && !pass->flushed && flush_due(session, target)) {
		tmprof_flush(mm);
		flushed = true;
		pass->flushed = true;
	}
	pass->number++;
	pass->under_way = false;

	spin_lock(&target->lock);
	target->passes++;
	target->scanned_pages = pass->present_pages;
	spin_unlock(&target->lock);

	spin_lock(&session->stats_lock);
	session->stats.passes++;
	session->stats.passes_late += late;
	session->stats.flushes += flushed;
	session->stats.flush_ns += flushed ? ktime_get_ns() - now_ns : 0;
	spin_unlock(&session->stats_lock);
}

/* It has exited. Returns when its next turn is: never. */
static u64 give_up(struct tmprof_session *session, struct tmprof_target *target)
{
	target->pass.under_way = false;
	spin_lock(&session->stats_lock);
	session->stats.passes_failed++;
	session->stats.targets_gone++;
	spin_unlock(&session->stats_lock);
	return U64_MAX;
}

static void begin_pass(struct tmprof_session *session, struct tmprof_target *target, u64 now_ns)
{
	struct tmprof_pass *pass = &target->pass;
	u64 interval_ns = session->params.scan_interval_ns;

	pass->under_way = true;
	pass->at = 0;
	pass->present_pages = 0;
	/* Keeps its beat, but does not hurry to make up for what was missed. */
	pass->due_ns += interval_ns;
	if (pass->due_ns <= now_ns)
		pass->due_ns = now_ns + interval_ns;
}

static void count_chunk(struct tmprof_session *session, struct tmprof_pass *pass,
			const struct tmprof_walk_counts *counts, u64 held_ns)
{
	pass->present_pages += counts->present_pages;
	if (counts->cleared)
		pass->flushed = false;
	tmprof_count_walk(session, counts);
	tmprof_count_lock(session, held_ns);
	spin_lock(&session->stats_lock);
	session->stats.chunks++;
	session->stats.present_pages += counts->present_pages;
	session->stats.leaves += counts->leaves;
	session->stats.references += counts->references;
	spin_unlock(&session->stats_lock);
}

/* Returns when this target wants its next turn. */
static u64 scan_chunk(struct tmprof_session *session, struct tmprof_target *target,
		      struct mm_struct *mm, u64 now_ns)
{
	struct tmprof_scan_buffers *buffers = session->scan_buffers;
	struct tmprof_pass *pass = &target->pass;
	u64 locked_ns, held_ns;

	if (!mmap_read_trylock(mm)) {
		tmprof_count_busy(session);
		return now_ns + BUSY_RETRY_NS;
	}
	locked_ns = ktime_get_ns();
	buffers->count = 0;
	memset(&buffers->walk.counts, 0, sizeof(buffers->walk.counts));
	pass->at = tmprof_walk(&buffers->walk, mm, pass->at, TASK_SIZE_MAX,
			       session->params.scan_chunk_entries);
	mmap_read_unlock(mm);
	held_ns = ktime_get_ns() - locked_ns;
	count_chunk(session, pass, &buffers->walk.counts, held_ns);
	count_found(session, target);
	if (pass->at < TASK_SIZE_MAX)
		return now_ns;
	end_pass(session, target, mm);
	return pass->due_ns;
}

u64 tmprof_abit_turn(struct tmprof_session *session, struct tmprof_target *target, u64 now_ns)
{
	struct tmprof_pass *pass = &target->pass;
	u32 address_space;
	struct mm_struct *mm;
	u64 next_ns;

	if (!pass->under_way)
		begin_pass(session, target, now_ns);
	mm = tmprof_target_mm(target, &address_space);
	if (!mm)
		return give_up(session, target);
	if (address_space != pass->address_space) {
		/* Another program: the pass begins anew. */
		pass->address_space = address_space;
		pass->at = 0;
		pass->present_pages = 0;
	}
	if (!pass->at && tmprof_target_shares_with(session, target, mm)) {
		/* The bits are counted for the other target. */
		pass->under_way = false;
		next_ns = pass->due_ns;
	} else {
		next_ns = scan_chunk(session, target, mm, now_ns);
	}
	tmprof_target_mm_put(mm);
	return next_ns;
}
