/* SPDX-License-Identifier: GPL-2.0-only */
/* The driver's own scan of either mode: whose turn it is, and what the budget allows. */
#ifndef TMPROF_SCAN_TURNS_H
#define TMPROF_SCAN_TURNS_H

#include <linux/types.h>

struct tmprof_session;

/* Allocates the scan's buffers before it starts. Call with control and step held. 0 or -ENOMEM. */
int tmprof_scan_prepare(struct tmprof_session *session);
void tmprof_scan_free(struct tmprof_session *session);

/* One turn of one target if one is due and the budget allows. Returns when to come again, in ns of
 * CLOCK_MONOTONIC; U64_MAX: not before something changes. Worker, under step. */
u64 tmprof_scan_step(struct tmprof_session *session);

#endif /* TMPROF_SCAN_TURNS_H */
