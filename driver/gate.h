/* SPDX-License-Identifier: GPL-2.0-only */
/* The gate: turns a source on and off by counting events (TMP, IPDPS 2021, optimisation 1). */
#ifndef TMPROF_GATE_H
#define TMPROF_GATE_H

#include <linux/types.h>

#include "driver/uapi/tmprof.h"

struct tmprof_session;

/* Before a source starts; under control and step. An event that perf refuses leaves the gate open
 * and its counts unknown. 0 or -ENOMEM. */
int tmprof_gate_prepare(struct tmprof_session *session, enum tmprof_source source);
void tmprof_gate_free(struct tmprof_session *session, enum tmprof_source source);

/* Worker, under step: reads the counts once a period. Returns when to come again. */
u64 tmprof_gate_step(struct tmprof_session *session);

#endif /* TMPROF_GATE_H */
