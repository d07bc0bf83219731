/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Count of an event between two readings. */
#ifndef TMPROF_CORE_EVENT_READING_H
#define TMPROF_CORE_EVENT_READING_H

#ifdef __KERNEL__
#include <linux/math64.h>
#include <linux/types.h>
#else
#include <stdbool.h>
#include <linux/types.h>
#endif

#include "driver/uapi/tmprof.h"

/* The value at which counts saturate: the largest one that is not TMPROF_UNKNOWN. */
#define TMPROF_MAX_COUNT (TMPROF_UNKNOWN - 1)

/* A reading of perf: its count, the time that it was enabled, and its time on a counter. */
struct tmprof_event_reading {
	__u64 count;
	__u64 enabled_ns;
	__u64 running_ns;
};

__extension__ typedef unsigned __int128 tmprof_product; /* also of a pedantic compiler */

/* floor(count * enabled / running), `running` not 0; saturates, where a division of 128 bits by 64
 * would fault. */
static inline __u64 tmprof_scaled_count(__u64 count, __u64 enabled_ns, __u64 running_ns)
{
	tmprof_product product = (tmprof_product)count * enabled_ns;
	__u64 scaled;

	if ((__u64)(product >> 64) >= running_ns)
		return TMPROF_MAX_COUNT;
#ifdef __KERNEL__
	scaled = mul_u64_u64_div_u64(count, enabled_ns, running_ns);
#else
	scaled = (__u64)(product / running_ns);
#endif
	return scaled < TMPROF_MAX_COUNT ? scaled : TMPROF_MAX_COUNT;
}

/*
 * Pure. Adds what was counted from `last` to `now`, scaled up where the event shared its counter
 * with others, to `sum`, which saturates. False: not known, as it was never on a counter or a
 * reading stepped back; `sum` is as it was.
 */
static inline bool tmprof_event_add(const struct tmprof_event_reading *last,
				    const struct tmprof_event_reading *now, __u64 *sum)
{
	__u64 counted = now->count - last->count;
	__u64 enabled_ns = now->enabled_ns - last->enabled_ns;
	__u64 running_ns = now->running_ns - last->running_ns;

	if (now->count < last->count || now->enabled_ns < last->enabled_ns ||
	    now->running_ns < last->running_ns)
		return false;
	if (enabled_ns && !running_ns)
		return false;
	if (running_ns < enabled_ns)
		counted = tmprof_scaled_count(counted, enabled_ns, running_ns);
	*sum = counted < TMPROF_MAX_COUNT - *sum ? *sum + counted : TMPROF_MAX_COUNT;
	return true;
}

#endif /* TMPROF_CORE_EVENT_READING_H */
