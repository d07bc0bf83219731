/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Result of a check of parameters. */
#ifndef TMPROF_CORE_PARAMS_VERDICT_H
#define TMPROF_CORE_PARAMS_VERDICT_H

#include <linux/types.h>
#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/stddef.h>
#else
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#endif

/* Above an hour nobody waits for the result. */
#define TMPROF_INTERVAL_MAX_NS 3600000000000ULL

struct tmprof_params_verdict {
	int error;	    /* 0, -EPROTO or -EINVAL */
	const char *field;  /* the first in their order; NULL when all are good */
	const char *reason; /* the rule that it breaks */
};

static inline struct tmprof_params_verdict tmprof_params_refuse(const char *field,
								const char *reason)
{
	struct tmprof_params_verdict verdict = {-EINVAL, field, reason};

	return verdict;
}

static inline bool tmprof_in_range(__u64 value, __u64 least, __u64 most)
{
	return value >= least && value <= most;
}

#endif /* TMPROF_CORE_PARAMS_VERDICT_H */
