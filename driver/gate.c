// SPDX-License-Identifier: GPL-2.0-only

#include <linux/err.h>
#include <linux/ktime.h>

#include "driver/allocation.h"
#include "driver/core/gate.h"
#include "driver/cpu_events.h"
#include "driver/gate.h"
#include "driver/sampler.h"
#include "driver/session.h"
#include "driver/stats.h"

struct tmprof_gate_counter {
	struct tmprof_cpu_events events;
	bool counting; /* the events are there */
	u64 began_ns;  /* the period that runs */
	u64 next_ns;
	struct tmprof_gate_state state;
};

int tmprof_gate_prepare(struct tmprof_session *session, enum tmprof_source source)
{
	const struct tmprof_gate *gate = &session->params.gate[source];
	struct tmprof_gate_counter *counter;
	int error;

	session->gate_open[source] = gate->mode != TMPROF_GATE_ALWAYS_OFF;
	if (gate->mode != TMPROF_GATE_COUNTED)
		return 0;
	counter = tmprof_allocate(sizeof(*counter), NUMA_NO_NODE);
	if (IS_ERR(counter))
		return PTR_ERR(counter);
	counter->events.attr = tmprof_event_attr(&gate->event);

	error = tmprof_cpu_events_open(&counter->events);
	if (error == -ENOMEM || error == -EDQUOT || counter->events.refused) {
		tmprof_release(counter);
		return error;
	}
	counter->counting = !error;
	if (counter->counting)
		tmprof_cpu_events_enable(&counter->events, true);
	counter->began_ns = ktime_get_ns();
	counter->next_ns = counter->began_ns + session->params.gate_period_ns;
	session->gate_counter[source] = counter;
	return 0;
}

void tmprof_gate_free(struct tmprof_session *session, enum tmprof_source source)
{
	struct tmprof_gate_counter *counter = session->gate_counter[source];

	if (!counter)
		return;
	if (counter->counting)
		tmprof_cpu_events_close(&counter->events);
	tmprof_release(counter);
	session->gate_counter[source] = NULL;
}

static void note(struct tmprof_session *session, enum tmprof_source source, bool known, u64 count,
		 const struct tmprof_gate_decision *decision)
{
	struct tmprof_stats *stats = &session->stats;

	spin_lock(&session->stats_lock);
	stats->gate_count[source] = known ? count : TMPROF_UNKNOWN;
	if (known)
		stats->gate_max[source] = decision->next.max_count;
	stats->gate_periods_unknown[source] += !known;
	spin_unlock(&session->stats_lock);
}

static void end_period(struct tmprof_session *session, enum tmprof_source source, u64 now_ns)
{
	struct tmprof_gate_counter *counter = session->gate_counter[source];
	struct tmprof_gate_decision decision;
	u32 threshold = session->params.gate[source].threshold_permille;
	u64 count = 0;
	bool known = counter->counting && tmprof_cpu_events_read(&counter->events, &count);

	count = tmprof_gate_count_of_period(count, session->params.gate_period_ns,
					    now_ns - counter->began_ns);
	counter->began_ns = now_ns;
	if (session->gate_open[source])
		decision = tmprof_gate_decide(counter->state, known, count, threshold);
	else
		decision = tmprof_gate_decide_part(counter->state, known, count, threshold);
	counter->state = decision.next;
	note(session, source, known, count, &decision);
	if (session->gate_open[source] == decision.active)
		return;
	session->gate_open[source] = decision.active;
	tmprof_count_duty(session, source);
	if (source == TMPROF_SAMPLER)
		tmprof_sampler_switch(session);
}

static u64 time_to_next(const struct tmprof_session *session, enum tmprof_source source)
{
	u64 period_ns = session->params.gate_period_ns;

	return session->gate_open[source] ? period_ns : period_ns / TMPROF_GATE_PARTS;
}

u64 tmprof_gate_step(struct tmprof_session *session)
{
	u64 now_ns = ktime_get_ns(), next_ns = U64_MAX;
	enum tmprof_source source;

	for (source = 0; source < TMPROF_SOURCE_COUNT; source++) {
		struct tmprof_gate_counter *counter = session->gate_counter[source];

		if (!counter)
			continue;
		if (counter->next_ns <= now_ns) {
			end_period(session, source, now_ns);
			counter->next_ns = now_ns + time_to_next(session, source);
		}
		next_ns = min(next_ns, counter->next_ns);
	}
	return next_ns;
}
