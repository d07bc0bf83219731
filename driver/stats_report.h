/* SPDX-License-Identifier: GPL-2.0-only */
/* Gives out a session's totals: STATS, LOCK_HOLDS, and debugfs. */
#ifndef TMPROF_STATS_REPORT_H
#define TMPROF_STATS_REPORT_H

#include "driver/uapi/tmprof.h"

struct tmprof_session;

/* The ioctls. */
int tmprof_stats_get(struct tmprof_session *session, struct tmprof_stats *request);
void tmprof_lock_holds_get(struct tmprof_session *session, struct tmprof_lock_holds *request);

/* debugfs files. tmprof/NUMBER/stats has lines of "name value". tmprof/NUMBER/lock_holds has a line
 * of "end_ns holds" for each bucket with holds; the end of the last bucket is "unknown". */
void tmprof_debug_init(void);
void tmprof_debug_exit(void);
void tmprof_debug_add(struct tmprof_session *session);
void tmprof_debug_remove(struct tmprof_session *session);

#endif /* TMPROF_STATS_REPORT_H */
