/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Exposure of the pages of a step: the time between their clear and their read. A step's regions
 * are cleared in order, some in each hold of the target's mmap lock. Between two holds any time may
 * pass, because a writer may have the lock or another task the CPU. A page's exposure counts from
 * the end of the hold that cleared it. Time before the clear never counts: it would make a hot page
 * look cold.
 *
 * Freestanding C11, as driver/core/regions.h. Memory is the caller's.
 */
#ifndef TMPROF_CORE_REGION_EXPOSURE_H
#define TMPROF_CORE_REGION_EXPOSURE_H

#include <linux/types.h>

/* Regions cleared, or read, in one hold of the mmap lock: a walk of a page each. */
#define TMPROF_REGION_HOLD 64

/* Number of holds in a step of up to `regions` regions. */
static inline __u32 tmprof_region_holds(__u32 regions)
{
	return regions / TMPROF_REGION_HOLD + (regions % TMPROF_REGION_HOLD != 0);
}

/* `cleared_ns`: when each hold of the step ended, tmprof_region_holds() of them. Notes the hold
 * that began with region `first`, a multiple of TMPROF_REGION_HOLD. */
static inline void tmprof_region_cleared(__u64 *cleared_ns, __u32 first, __u64 now_ns)
{
	cleared_ns[first / TMPROF_REGION_HOLD] = now_ns;
}

/* Time at which the pages of a step of `regions`, all cleared, are to be read: no exposure is
 * shorter than `monitoring_ns`. */
static inline __u64 tmprof_region_read_due(const __u64 *cleared_ns, __u32 regions,
					   __u64 monitoring_ns)
{
	return cleared_ns[tmprof_region_holds(regions) - 1] + monitoring_ns;
}

static inline __u64 tmprof_region_exposure(const __u64 *cleared_ns, __u32 region, __u64 now_ns)
{
	__u64 since_ns = cleared_ns[region / TMPROF_REGION_HOLD];

	return now_ns > since_ns ? now_ns - since_ns : 0;
}

#endif /* TMPROF_CORE_REGION_EXPOSURE_H */
