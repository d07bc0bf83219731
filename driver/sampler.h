/* SPDX-License-Identifier: GPL-2.0-only */
/* Address samples from whichever PMU user space names: IBS, PEBS, or another that has addresses. */
#ifndef TMPROF_SAMPLER_H
#define TMPROF_SAMPLER_H

#include <linux/types.h>

#include "driver/uapi/tmprof.h"

struct tmprof_session;

/* Makes the events, disabled; under control and step. 0, -ENXIO without a sample_event, or what
 * perf said.
 */
int tmprof_sampler_prepare(struct tmprof_session *session);
/* Begins a raw log of its own, once all that is started was prepared; under control and step. */
void tmprof_sampler_begin(struct tmprof_session *session);
/* Ends the events and counts what they left. Under control and step, before the worker ends. */
void tmprof_sampler_free(struct tmprof_session *session);

/* Frees the raw samples, which outlive the sampler. Process context; under control, or when nobody
 * else is there. */
void tmprof_sampler_drop_log(struct tmprof_session *session);

/* Switches the events as the session's state and gate say. Under step. */
void tmprof_sampler_switch(struct tmprof_session *session);

/* Moves samples from the rings into the counters and the log; sees to CPUs that came online. Under
 * step. */
void tmprof_sampler_fold(struct tmprof_session *session);

/* Worker, under step: folds. Returns when to come again. */
u64 tmprof_sampler_step(struct tmprof_session *session);

/* Adds the totals that only the sampler knows. Call with step held. */
void tmprof_sampler_stats(struct tmprof_session *session, struct tmprof_stats *stats);

/* The ioctl; its head and reserved fields are checked. */
int tmprof_sampler_read(struct tmprof_session *session, struct tmprof_read_samples *request);

#endif /* TMPROF_SAMPLER_H */
