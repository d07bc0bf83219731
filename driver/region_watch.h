/* SPDX-License-Identifier: GPL-2.0-only */
/* The regions of one target, and where its scan stands. */
#ifndef TMPROF_REGION_WATCH_H
#define TMPROF_REGION_WATCH_H

#include <linux/prandom.h>
#include <linux/types.h>

#include "driver/core/ladder.h"
#include "driver/core/region_exposure.h"
#include "driver/core/region_parts.h"
#include "driver/core/region_samples.h"
#include "driver/core/regions.h"

enum tmprof_region_phase {
	TMPROF_REGIONS_IDLE = 0,
	TMPROF_REGIONS_CLEARING, /* a page of each */
	TMPROF_REGIONS_READING,	 /* they were cleared */
};

/* The regions of a target. Used by the worker only, under session->step; all zero: none yet. */
struct tmprof_region_watch {
	struct tmprof_region_set set;	    /* its regions: NULL, none yet */
	struct tmprof_region_unseen unseen; /* mappings that are not looked at */
	u32 address_space;
	enum tmprof_region_phase phase;
	u32 at;		 /* region to go on with */
	u64 *cleared_ns; /* times of this step: see region_exposure.h */
	u64 cpu_ns;	 /* the target's, when the latest step was to begin */

	/* The fields below describe the running aggregation. */
	u32 steps;
	u64 started_ns;	    /* since when it waits for nothing but its pages and budgets; 0: it does
			     * not */
	u64 started_cpu_ns; /* the target's */
	u64 took_ns;	    /* before that */
	u64 took_cpu_ns;

	u64 updated_ns;
	struct tmprof_budget clears; /* a second of the target's CPU time pays region_clears */
	u64 earned_cpu_ns;	     /* up to here */
	struct rnd_state random;
	struct tmprof_region_samples samples; /* since the aggregation began */
};

/* Gives up what is kept. Under step, or with the target's last reference. */
void tmprof_region_forget(struct tmprof_region_watch *watch);

/* An address sample of the target. Under step. */
void tmprof_region_see_sample(struct tmprof_region_watch *watch, u64 vpn);

#endif /* TMPROF_REGION_WATCH_H */
