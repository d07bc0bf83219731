/* SPDX-License-Identifier: GPL-2.0-only */
/* The scan by regions (Daptrace, Middleware 2019): one page of each, whatever the footprint. */
#ifndef TMPROF_REGION_SCAN_H
#define TMPROF_REGION_SCAN_H

#include <linux/types.h>

struct tmprof_read_regions;
struct tmprof_session;
struct tmprof_target;

/* Allocates the scan's buffers before it starts. Call with control and step held. 0 or -ENOMEM. */
int tmprof_region_prepare(struct tmprof_session *session);
void tmprof_region_free(struct tmprof_session *session);

/* Clears or reads the pages of some regions. Returns when the target wants its next turn; U64_MAX:
 * it has exited. Worker, under step. */
u64 tmprof_region_turn(struct tmprof_session *session, struct tmprof_target *target, u64 now_ns);

/* No turns come for a while: what was cleared is not read. Under step. */
void tmprof_region_hold(struct tmprof_session *session, struct tmprof_target *target);

/* READ_REGIONS. */
int tmprof_region_read(struct tmprof_session *session, struct tmprof_read_regions *request);
/* Those that are unread count as overwritten. Under control. */
void tmprof_region_drop_log(struct tmprof_session *session);

#endif /* TMPROF_REGION_SCAN_H */
