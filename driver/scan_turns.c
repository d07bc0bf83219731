// SPDX-License-Identifier: GPL-2.0-only
/*
 * Targets take turns, a hold of the mmap lock at a time, so that a large one does not keep the
 * others waiting. A turn waits for the budget, unless it reads what was cleared to be read.
 */

#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "driver/abit_scan.h"
#include "driver/region_scan.h"
#include "driver/region_watch.h"
#include "driver/scan_turns.h"
#include "driver/session.h"
#include "driver/target.h"

static bool by_regions(const struct tmprof_session *session)
{
	return session->params.abit_mode == TMPROF_ABIT_REGIONS;
}

/* Each target's first turn comes at once; what has exited does not come back. */
static void reset_turns(struct tmprof_session *session)
{
	struct tmprof_target *target;
	unsigned long index;

	mutex_lock(&session->targets);
	xa_for_each (&session->by_id, index, target) {
		if (target->turn_ns != U64_MAX)
			target->turn_ns = 0;
		target->pass = (struct tmprof_pass){.number = target->pass.number};
		tmprof_region_forget(&target->watch);
	}
	mutex_unlock(&session->targets);
}

int tmprof_scan_prepare(struct tmprof_session *session)
{
	int error =
		by_regions(session) ? tmprof_region_prepare(session) : tmprof_abit_prepare(session);

	if (error)
		return error;
	session->scan_budget = (struct tmprof_budget){
		.share_ppm = max_t(u64, session->params.scan_budget_ns / 1000, 1),
		.limit_ns = session->params.scan_budget_ns,
		.floor_ns = -(s64)NSEC_PER_SEC,
		.balance_ns = session->params.scan_budget_ns,
	};
	session->scan_budget_at_ns = ktime_get_ns();
	session->scan_held = false;
	reset_turns(session);
	return 0;
}

void tmprof_scan_free(struct tmprof_session *session)
{
	tmprof_abit_free(session);
	tmprof_region_free(session);
}

/* 0: there is budget; else when there will be. */
static u64 affordable_ns(struct tmprof_session *session, u64 now_ns)
{
	struct tmprof_budget *budget = &session->scan_budget;
	u64 elapsed_ns = min_t(u64, now_ns - session->scan_budget_at_ns, NSEC_PER_SEC);

	if (session->params.scan_budget_ns == NSEC_PER_SEC)
		return 0;
	tmprof_budget_earn(budget, elapsed_ns);
	session->scan_budget_at_ns = now_ns;
	if (budget->balance_ns > 0)
		return 0;
	return now_ns + min_t(u64,
			      div64_u64((1 - budget->balance_ns) * TMPROF_PPM, budget->share_ppm),
			      NSEC_PER_SEC);
}

static u64 due_of(const struct tmprof_target *target, u64 affordable_ns)
{
	return target->watch.phase == TMPROF_REGIONS_IDLE ? max(target->turn_ns, affordable_ns)
							  : target->turn_ns;
}

/* The next target in turn that is due, with a reference; NULL: none, and `next_ns` is lowered to
 * when one will be. */
static struct tmprof_target *next_due(struct tmprof_session *session, u64 now_ns, u64 affordable_ns,
				      u64 *next_ns)
{
	struct tmprof_target *target, *found = NULL;
	unsigned long index;

	mutex_lock(&session->targets);
	xa_for_each_start (&session->by_id, index, target, session->scan_turn + 1UL) {
		if (due_of(target, affordable_ns) <= now_ns) {
			found = target;
			goto out;
		}
		*next_ns = min(*next_ns, due_of(target, affordable_ns));
	}
	xa_for_each (&session->by_id, index, target) {
		if (target->id > session->scan_turn)
			break;
		if (due_of(target, affordable_ns) <= now_ns) {
			found = target;
			goto out;
		}
		*next_ns = min(*next_ns, due_of(target, affordable_ns));
	}
out:
	if (found)
		kref_get(&found->ref);
	mutex_unlock(&session->targets);
	return found;
}

/* Puts the regions on hold: pages cleared but not yet read would be read at some later time. */
static void hold_all(struct tmprof_session *session)
{
	struct tmprof_target *target;
	unsigned long index;

	mutex_lock(&session->targets);
	xa_for_each (&session->by_id, index, target)
		tmprof_region_hold(session, target);
	mutex_unlock(&session->targets);
}

u64 tmprof_scan_step(struct tmprof_session *session)
{
	u64 now_ns = ktime_get_ns(), next_ns = U64_MAX, spent_ns;
	struct tmprof_target *target;
	bool held = !tmprof_session_active(session, TMPROF_ABIT);

	if (held && !session->scan_held)
		hold_all(session);
	session->scan_held = held;
	if (held)
		return U64_MAX;
	target = next_due(session, now_ns, affordable_ns(session, now_ns), &next_ns);
	if (!target)
		return next_ns;
	session->scan_turn = target->id;
	target->turn_ns = by_regions(session) ? tmprof_region_turn(session, target, now_ns)
					      : tmprof_abit_turn(session, target, now_ns);
	spent_ns = ktime_get_ns() - now_ns;
	tmprof_budget_charge(&session->scan_budget, spent_ns);
	spin_lock(&session->stats_lock);
	session->stats.scan_ns += spent_ns;
	spin_unlock(&session->stats_lock);
	tmprof_target_put(target);
	return now_ns;
}
