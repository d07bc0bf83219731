// SPDX-License-Identifier: GPL-2.0-only
/*
 * A pass goes through one target's address space in chunks. Targets take turns chunk by chunk, so
 * that a large one does not keep the others waiting, and a pass that runs out of budget goes on
 * where it was. What a chunk finds is gathered under the mmap lock and counted after it, since
 * counting may allocate.
 */

#include <linux/bitmap.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "driver/abit_scan.h"
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

/* Each target's first pass begins at once; what has exited does not come back. */
static void reset_passes(struct tmprof_session *session)
{
	struct tmprof_target *target;
	unsigned long index;

	mutex_lock(&session->targets);
	xa_for_each (&session->by_id, index, target) {
		bool gone = target->pass.due_ns == U64_MAX;

		target->pass = (struct tmprof_pass){
			.number = target->pass.number,
			.due_ns = gone ? U64_MAX : 0,
		};
	}
	mutex_unlock(&session->targets);
}

int tmprof_scan_prepare(struct tmprof_session *session)
{
	u32 capacity = session->params.scan_chunk_entries + TMPROF_BLOCK_UNITS;
	struct tmprof_scan_buffers *buffers;

	buffers = kvzalloc(struct_size(buffers, found, capacity), GFP_KERNEL_ACCOUNT);
	if (!buffers)
		return -ENOMEM;
	buffers->capacity = capacity;
	buffers->walk.flags = TMPROF_WALK_CLEAR | TMPROF_WALK_NODES;
	buffers->walk.emit = gather;
	session->scan_buffers = buffers;
	session->scan_budget = (struct tmprof_budget){
		.share_ppm = max_t(u64, session->params.scan_budget_ns / 1000, 1),
		.limit_ns = session->params.scan_budget_ns,
		.floor_ns = -(s64)NSEC_PER_SEC,
		.balance_ns = session->params.scan_budget_ns,
	};
	session->scan_budget_at_ns = ktime_get_ns();
	reset_passes(session);
	return 0;
}

void tmprof_scan_free(struct tmprof_session *session)
{
	kvfree(session->scan_buffers);
	session->scan_buffers = NULL;
}

static bool unlimited(const struct tmprof_session *session)
{
	return session->params.scan_budget_ns == NSEC_PER_SEC;
}

/* 0: there is budget; else when there will be. */
static u64 budget_wait(struct tmprof_session *session, u64 now_ns)
{
	struct tmprof_budget *budget = &session->scan_budget;
	u64 elapsed_ns = min_t(u64, now_ns - session->scan_budget_at_ns, NSEC_PER_SEC);

	if (unlimited(session))
		return 0;
	tmprof_budget_earn(budget, elapsed_ns);
	session->scan_budget_at_ns = now_ns;
	if (budget->balance_ns > 0)
		return 0;
	return now_ns + min_t(u64,
			      div64_u64((1 - budget->balance_ns) * TMPROF_PPM, budget->share_ppm),
			      NSEC_PER_SEC);
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

	/* What an earlier pass cleared counts: the page may be hot enough that its translation has
	 * been in a TLB ever since, and be found idle by this pass. */
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

/* It has exited. */
static void give_up(struct tmprof_session *session, struct tmprof_target *target)
{
	target->pass.under_way = false;
	target->pass.due_ns = U64_MAX;
	spin_lock(&session->stats_lock);
	session->stats.passes_failed++;
	session->stats.targets_gone++;
	spin_unlock(&session->stats_lock);
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

static u64 take_turn(struct tmprof_session *session, struct tmprof_target *target, u64 now_ns)
{
	struct tmprof_pass *pass = &target->pass;
	u32 address_space;
	struct mm_struct *mm;
	u64 next_ns;

	if (!pass->under_way)
		begin_pass(session, target, now_ns);
	mm = tmprof_target_mm(target, &address_space);
	if (!mm) {
		give_up(session, target);
		return pass->due_ns;
	}
	if (address_space != pass->address_space) {
		/* Another program: the pass begins anew. */
		pass->address_space = address_space;
		pass->at = 0;
		pass->present_pages = 0;
	}
	next_ns = scan_chunk(session, target, mm, now_ns);
	mmput_async(mm);
	return next_ns;
}

static u64 due_of(const struct tmprof_target *target)
{
	return target->pass.under_way ? target->pass.retry_ns : target->pass.due_ns;
}

/* The next target in turn that is due, with a reference; NULL: none, and `next_ns` is lowered to
 * when one will be. */
static struct tmprof_target *next_due(struct tmprof_session *session, u64 now_ns, u64 *next_ns)
{
	struct tmprof_target *target, *found = NULL;
	unsigned long index;

	mutex_lock(&session->targets);
	xa_for_each_start (&session->by_id, index, target, session->scan_turn + 1UL) {
		if (due_of(target) <= now_ns) {
			found = target;
			goto out;
		}
		*next_ns = min(*next_ns, due_of(target));
	}
	xa_for_each (&session->by_id, index, target) {
		if (target->id > session->scan_turn)
			break;
		if (due_of(target) <= now_ns) {
			found = target;
			goto out;
		}
		*next_ns = min(*next_ns, due_of(target));
	}
out:
	if (found)
		kref_get(&found->ref);
	mutex_unlock(&session->targets);
	return found;
}

u64 tmprof_scan_step(struct tmprof_session *session)
{
	u64 now_ns = ktime_get_ns(), next_ns = U64_MAX, spent_ns, wait_ns;
	struct tmprof_target *target;

	if (!tmprof_session_active(session, TMPROF_ABIT))
		return U64_MAX;
	target = next_due(session, now_ns, &next_ns);
	if (!target)
		return next_ns;
	wait_ns = budget_wait(session, now_ns);
	if (!wait_ns) {
		session->scan_turn = target->id;
		target->pass.retry_ns = take_turn(session, target, now_ns);
		spent_ns = ktime_get_ns() - now_ns;
		tmprof_budget_charge(&session->scan_budget, spent_ns);
		spin_lock(&session->stats_lock);
		session->stats.scan_ns += spent_ns;
		spin_unlock(&session->stats_lock);
		wait_ns = now_ns;
	}
	tmprof_target_put(target);
	return wait_ns;
}
