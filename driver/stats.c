// SPDX-License-Identifier: GPL-2.0-only

#include <linux/kernel.h>
#include <linux/ktime.h>

#include "driver/core/hold_buckets.h"
#include "driver/page_walk.h"
#include "driver/session.h"
#include "driver/stats.h"

void tmprof_stats_init(struct tmprof_session *session)
{
	struct tmprof_stats *stats = &session->stats;
	u64 now_ns = ktime_get_ns();
	enum tmprof_source source;

	for (source = 0; source < TMPROF_SOURCE_COUNT; source++) {
		stats->gate_count[source] = TMPROF_UNKNOWN;
		stats->gate_max[source] = TMPROF_UNKNOWN;
		session->duty[source].changed_ns = now_ns;
	}
}

void tmprof_count_lock(struct tmprof_session *session, u64 held_ns)
{
	struct tmprof_stats *stats = &session->stats;

	spin_lock(&session->stats_lock);
	stats->mmap_lock_holds++;
	stats->mmap_lock_ns += held_ns;
	stats->mmap_lock_max_ns = max(stats->mmap_lock_max_ns, held_ns);
	session->lock_holds[tmprof_hold_bucket(held_ns)]++;
	spin_unlock(&session->stats_lock);
}

void tmprof_count_busy(struct tmprof_session *session)
{
	spin_lock(&session->stats_lock);
	session->stats.mmap_lock_busy++;
	spin_unlock(&session->stats_lock);
}

void tmprof_count_walk(struct tmprof_session *session, const struct tmprof_walk_counts *counts)
{
	struct tmprof_stats *stats = &session->stats;

	spin_lock(&session->stats_lock);
	stats->cleared_bits += counts->cleared;
	stats->races += counts->races;
	stats->skipped_leaves += counts->skipped;
	spin_unlock(&session->stats_lock);
}

/* Under stats_lock. */
static void sum_duty(struct tmprof_session *session, enum tmprof_source source, u64 now_ns)
{
	struct tmprof_duty *duty = &session->duty[source];
	u64 elapsed_ns = now_ns - duty->changed_ns;

	session->stats.started_ns[source] += duty->started ? elapsed_ns : 0;
	session->stats.active_ns[source] += duty->active ? elapsed_ns : 0;
	duty->changed_ns = now_ns;
}

void tmprof_count_duty(struct tmprof_session *session, enum tmprof_source source)
{
	spin_lock(&session->stats_lock);
	sum_duty(session, source, ktime_get_ns());
	session->duty[source].started = session->state[source] != TMPROF_STOPPED;
	session->duty[source].active = tmprof_session_active(session, source);
	spin_unlock(&session->stats_lock);
}

void tmprof_stats_snapshot(struct tmprof_session *session, struct tmprof_stats *stats)
{
	enum tmprof_source source;

	spin_lock(&session->stats_lock);
	for (source = 0; source < TMPROF_SOURCE_COUNT; source++) {
		sum_duty(session, source, ktime_get_ns());
		session->stats.gate_open[source] = session->gate_open[source];
	}
	*stats = session->stats;
	spin_unlock(&session->stats_lock);
}
