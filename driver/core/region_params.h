/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Parameters of a scan by regions (Daptrace, Middleware 2019), and the check of their ranges. */
#ifndef TMPROF_CORE_REGION_PARAMS_H
#define TMPROF_CORE_REGION_PARAMS_H

#include "driver/core/params_verdict.h"
#include "driver/uapi/tmprof.h"

/* The address space without its two largest gaps: program and heap, mappings, stack. */
#define TMPROF_REGION_AREAS 3U
#define TMPROF_REGION_MAX   (1U << 20)
/* Greatest allowed min_regions. Reaching min_regions takes as many steps as its square. */
#define TMPROF_REGION_MIN_MAX 1000U
/* "Well below": an aggregation holds at least so many monitoring intervals. */
#define TMPROF_REGION_CHECKS_MIN 10U

/* The published values. */
static inline struct tmprof_region_params tmprof_region_params_default(void)
{
	struct tmprof_region_params params = {
		.monitoring_ns = 1000000,
		.aggregation_ns = 100000000,
		.update_ns = 1000000000,
		.min_regions = 10,
		.max_regions = 1000,
	};

	return params;
}

/* `check_ns`: what checking one region takes; 0: not known. */
static inline struct tmprof_params_verdict
tmprof_region_params_check(const struct tmprof_region_params *params, __u64 check_ns)
{
	struct tmprof_params_verdict good = {0, NULL, NULL};

	if (!tmprof_in_range(params->min_regions, TMPROF_REGION_AREAS, TMPROF_REGION_MIN_MAX))
		return tmprof_params_refuse("min_regions", "must be from 3 to 1000");
	if (params->max_regions < params->min_regions || params->max_regions > TMPROF_REGION_MAX)
		return tmprof_params_refuse("max_regions", "must be from min_regions to 2^20");
	if (!tmprof_in_range(params->monitoring_ns, 1, TMPROF_INTERVAL_MAX_NS))
		return tmprof_params_refuse("monitoring_ns", "must be above 0 and at most 1 h");
	if (check_ns > params->monitoring_ns / params->max_regions)
		return tmprof_params_refuse("monitoring_ns",
					    "is too short for that many checks: max_regions");
	if (!tmprof_in_range(params->aggregation_ns,
			     TMPROF_REGION_CHECKS_MIN * params->monitoring_ns,
			     TMPROF_INTERVAL_MAX_NS))
		return tmprof_params_refuse("aggregation_ns",
					    "must be from 10 monitoring intervals to 1 h");
	if (!tmprof_in_range(params->update_ns, params->aggregation_ns, TMPROF_INTERVAL_MAX_NS))
		return tmprof_params_refuse("update_ns", "must be from aggregation_ns to 1 h");
	return good;
}

#endif /* TMPROF_CORE_REGION_PARAMS_H */
