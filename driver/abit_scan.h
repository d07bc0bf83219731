/* SPDX-License-Identifier: GPL-2.0-only */
/* The full scan (TMP, IPDPS 2021): test, save and clear every accessed bit. */
#ifndef TMPROF_ABIT_SCAN_H
#define TMPROF_ABIT_SCAN_H

#include <linux/types.h>

struct tmprof_session;
struct tmprof_target;

/* Allocates the scan's buffers before it starts. Call with control and step held. 0 or -ENOMEM. */
int tmprof_abit_prepare(struct tmprof_session *session);
void tmprof_abit_free(struct tmprof_session *session);

/* Scans one chunk of the target. Returns when it wants its next turn; U64_MAX: it has exited.
 * Worker, under step. */
u64 tmprof_abit_turn(struct tmprof_session *session, struct tmprof_target *target, u64 now_ns);

#endif /* TMPROF_ABIT_SCAN_H */
