/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * When a source is worth its cost (TMP, IPDPS 2021, optimisation 1): events are counted per period,
 * and the source is on while the count is above a share of the largest count seen so far.
 */
#ifndef TMPROF_CORE_GATE_H
#define TMPROF_CORE_GATE_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdbool.h>
#include <stdint.h>
#endif

/* The paper's threshold: 20 % of the running maximum. */
#define TMPROF_GATE_THRESHOLD_PERMILLE 200U

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

#endif /* TMPROF_CORE_GATE_H */
