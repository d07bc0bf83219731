/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The gate decides when a source is worth its cost (TMP, IPDPS 2021, optimisation 1). It counts
 * events per period. The source is on while the count is above a share of the largest count so far.
 */
#ifndef TMPROF_CORE_GATE_H
#define TMPROF_CORE_GATE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
#endif

#include "driver/core/event_reading.h"

/* The paper's threshold: 20 % of the running maximum. */
#define TMPROF_GATE_THRESHOLD_PERMILLE 200U

/* A period may end late or early by one part in this many. Its count is then taken as it is. */
#define TMPROF_GATE_SLACK_SHARE 8U

/* While a source is off, its event is counted this many times in a period. Each of these counts can
 * open the gate before the period is over (tmprof_gate_decide_part()). */
#define TMPROF_GATE_PARTS 4U

/* Pure. Scales a `count` made in `elapsed_ns` to one period. Otherwise a period that ended late, as
 * on a busy machine, would set a maximum that no later period reaches. Precondition: period_ns is
 * not 0. */
static inline uint64_t tmprof_gate_count_of_period(uint64_t count, uint64_t period_ns,
						   uint64_t elapsed_ns)
{
	uint64_t slack_ns = period_ns / TMPROF_GATE_SLACK_SHARE;

	if (elapsed_ns >= period_ns - slack_ns && elapsed_ns <= period_ns + slack_ns)
		return count;
	return tmprof_scaled_count(count, period_ns, elapsed_ns);
}

struct tmprof_gate_state {
	uint64_t max_count; /* largest count of any period so far */
};

struct tmprof_gate_decision {
	struct tmprof_gate_state next;
	bool active;
	bool known; /* false: the count was unreadable, so the source stays on */
};

/*
 * Pure. 'known' false means that the period's count could not be read: it is not a zero, and it
 * leaves the maximum alone. 'threshold_permille' is at most 1000.
 */
static inline struct tmprof_gate_decision tmprof_gate_decide(struct tmprof_gate_state state,
							     bool known, uint64_t count,
							     uint32_t threshold_permille)
{
	struct tmprof_gate_decision decision = {state, true, known};
	uint64_t max, threshold;

	if (!known)
		return decision;
	max = count > state.max_count ? count : state.max_count;
	/* floor(max * permille / 1000) without the product that could overflow. */
	threshold = max / 1000U * threshold_permille + max % 1000U * threshold_permille / 1000U;
	decision.next.max_count = max;
	decision.active = count > threshold;
	return decision;
}

/*
 * Pure. Decides as tmprof_gate_decide() does, for part of a period in which the source was off. The
 * count can open the gate but leaves the maximum alone: the rate of so short a time is no measure
 * for whole periods.
 */
static inline struct tmprof_gate_decision tmprof_gate_decide_part(struct tmprof_gate_state state,
								  bool known, uint64_t count,
								  uint32_t threshold_permille)
{
	struct tmprof_gate_decision decision =
		tmprof_gate_decide(state, known, count, threshold_permille);

	decision.next = state;
	return decision;
}

#endif /* TMPROF_CORE_GATE_H */
