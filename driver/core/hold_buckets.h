/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The buckets of TMPROF_IOC_LOCK_HOLDS. Below 256 ns they are 64 ns wide. From 256 ns on there are
 * four per power of two, so a bucket's end is at most a quarter above any time in it.
 */
#ifndef TMPROF_CORE_HOLD_BUCKETS_H
#define TMPROF_CORE_HOLD_BUCKETS_H

#include <linux/types.h>

#include "driver/uapi/tmprof.h"

#define TMPROF_HOLD_UNIT_NS 64ULL

static inline __u32 tmprof_hold_bucket(__u64 hold_ns)
{
	__u64 units = hold_ns / TMPROF_HOLD_UNIT_NS;
	__u32 power, bucket;

	if (units < 4)
		return (__u32)units;
	power = 63U - (__u32)__builtin_clzll(units);
	bucket = 4 * (power - 1) + (__u32)(units >> (power - 2)) % 4;
	return bucket < TMPROF_HOLD_BUCKETS ? bucket : TMPROF_HOLD_BUCKETS - 1;
}

/* Returns a time that all holds in the bucket were shorter than. TMPROF_UNKNOWN: it is the last
 * bucket, which has no end. */
static inline __u64 tmprof_hold_bucket_end_ns(__u32 bucket)
{
	if (bucket >= TMPROF_HOLD_BUCKETS - 1)
		return TMPROF_UNKNOWN;
	if (bucket < 4)
		return (bucket + 1) * TMPROF_HOLD_UNIT_NS;
	return (4ULL + bucket % 4 + 1) << (bucket / 4 - 1) << 6;
}

/*
 * Returns a quantile of the hold times: at least `permille` of 1000 holds were shorter than the
 * result. It is the end of the bucket in which the quantile lies, so it is at most a quarter above
 * the quantile. TMPROF_UNKNOWN: there were no holds, or the quantile lies in the last bucket.
 */
static inline __u64 tmprof_hold_quantile_ns(const __u64 *holds, __u32 permille)
{
	__u64 total = 0, before = 0;
	__u32 bucket;

	for (bucket = 0; bucket < TMPROF_HOLD_BUCKETS; bucket++)
		total += holds[bucket];
	for (bucket = 0; total && bucket < TMPROF_HOLD_BUCKETS; bucket++) {
		before += holds[bucket];
		if (before * 1000 >= total * permille && before)
			return tmprof_hold_bucket_end_ns(bucket);
	}
	return TMPROF_UNKNOWN;
}

#endif /* TMPROF_CORE_HOLD_BUCKETS_H */
