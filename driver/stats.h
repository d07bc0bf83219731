/* SPDX-License-Identifier: GPL-2.0-only */
/* Counts a session's totals. */
#ifndef TMPROF_STATS_H
#define TMPROF_STATS_H

#include <linux/types.h>

#include "driver/uapi/tmprof.h"

struct tmprof_session;
struct tmprof_walk_counts;

void tmprof_stats_init(struct tmprof_session *session);

/* One hold of a target's mmap lock, and one try that found it taken. */
void tmprof_count_lock(struct tmprof_session *session, u64 held_ns);
void tmprof_count_busy(struct tmprof_session *session);

/* Adds the counts of a walk to the totals that the scan and SCAN_RANGE share. */
void tmprof_count_walk(struct tmprof_session *session, const struct tmprof_walk_counts *counts);

/* A source's state or gate has changed. Under step. */
void tmprof_count_duty(struct tmprof_session *session, enum tmprof_source source);

/* The totals now, without those that counters hold. */
void tmprof_stats_snapshot(struct tmprof_session *session, struct tmprof_stats *stats);

#endif /* TMPROF_STATS_H */
