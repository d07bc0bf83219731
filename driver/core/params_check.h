/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Checks all of a session's parameters before the driver takes any of them. The client calls the
 * same function, because an errno cannot name a field.
 */
#ifndef TMPROF_CORE_PARAMS_CHECK_H
#define TMPROF_CORE_PARAMS_CHECK_H

#include <linux/perf_event.h>
#include <linux/types.h>
#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/stddef.h>
#include <linux/string.h>
#else
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#endif

#include "driver/core/params_verdict.h"
#include "driver/core/region_params.h"
#include "driver/uapi/tmprof.h"

/* Below 1 ms a timer's own cost shows. */
#define TMPROF_INTERVAL_MIN_NS 1000000ULL
#define TMPROF_SECOND_NS       1000000000ULL
/* 2^18 entries were scanned in 10 to 16 ms on an emulated CPU. A hold of the lock ends sooner. */
#define TMPROF_CHUNK_MAX_ENTRIES (1U << 18)
/* Both epochs' sets of one target at their smallest: a root and a leaf each. */
#define TMPROF_MEMORY_MIN_BYTES (4U * 4096U)
#define TMPROF_RING_MIN_SAMPLES 16U
#define TMPROF_RING_MAX_SAMPLES (1U << 16)
#define TMPROF_LOG_MAX_SAMPLES	(1U << 20)
#define TMPROF_REGION_LOG_MAX	(1U << 20)
/* Timers of the worker keep about so long a wait. */
#define TMPROF_MONITORING_MIN_NS 100000ULL
/* At least, a read and a clear of one page: two walks of four levels whose tables are cached. */
#define TMPROF_REGION_CHECK_NS 100U
#define TMPROF_PERMILLE_MAX    1000U

static inline bool tmprof_event_is_zero(const struct tmprof_event *event)
{
	return !event->type && !event->flags && !event->config && !event->config1 &&
	       !event->config2;
}

/* NULL: good. `allowed`: the flags that mean something for this use of the event. */
static inline const char *tmprof_event_refusal(const struct tmprof_event *event, __u32 allowed)
{
	if (!(event->flags & TMPROF_EVENT_PRESENT))
		return tmprof_event_is_zero(event) ? NULL : "must be zero without EVENT_PRESENT";
	/* They count where the kernel's code or one word of memory is passed, which says nothing of
	 * memory as a whole. ftrace:function would even patch each function of the kernel. The
	 * types of kprobes and uprobes are numbered at run time: START refuses their events. */
	if (event->type == PERF_TYPE_TRACEPOINT || event->type == PERF_TYPE_BREAKPOINT)
		return "must not be a tracepoint or breakpoint";
	if (event->flags & ~allowed)
		return "has a flag that is unknown or not for this use";
	return NULL;
}

static inline bool tmprof_all_zero(const __u64 *words, __u32 count)
{
	__u32 i;

	for (i = 0; i < count; i++)
		if (words[i])
			return false;
	return true;
}

static inline struct tmprof_params_verdict tmprof_params_check(const struct tmprof_params *params)
{
	static const char *const gate_mode[TMPROF_SOURCE_COUNT] = {"gate[ABIT].mode",
								   "gate[SAMPLER].mode"};
	static const char *const gate_threshold[TMPROF_SOURCE_COUNT] = {
		"gate[ABIT].threshold_permille", "gate[SAMPLER].threshold_permille"};
	static const char *const gate_event[TMPROF_SOURCE_COUNT] = {"gate[ABIT].event",
								    "gate[SAMPLER].event"};
	struct tmprof_params_verdict good = {0, NULL, NULL}, regions;
	const char *refusal;
	__u32 sampling, i;

	if (params->head.version != TMPROF_ABI_VERSION) {
		good.error = -EPROTO;
		good.field = "head.version";
		good.reason = "must be TMPROF_ABI_VERSION";
		return good;
	}
	if (params->head.size != sizeof(*params))
		return tmprof_params_refuse("head.size", "must be that of struct tmprof_params");
	if (params->head.flags)
		return tmprof_params_refuse("head.flags", "has an unknown flag");
	if (params->head.reserved)
		return tmprof_params_refuse("head.reserved", "must be 0");

	if (!tmprof_in_range(params->scan_interval_ns, TMPROF_INTERVAL_MIN_NS,
			     TMPROF_INTERVAL_MAX_NS))
		return tmprof_params_refuse("scan_interval_ns", "must be from 1 ms to 1 h");
	if (!tmprof_in_range(params->scan_budget_ns, 1, TMPROF_SECOND_NS))
		return tmprof_params_refuse("scan_budget_ns", "must be from 1 ns to 1 s");
	if (!tmprof_in_range(params->scan_chunk_entries, 1, TMPROF_CHUNK_MAX_ENTRIES))
		return tmprof_params_refuse("scan_chunk_entries", "must be from 1 to 262144");
	if (params->flush_policy > TMPROF_FLUSH_EVERY_NTH)
		return tmprof_params_refuse("flush_policy", "is unknown");
	if ((params->flush_policy == TMPROF_FLUSH_EVERY_NTH) != (params->flush_every > 0))
		return tmprof_params_refuse("flush_every",
					    "must be at least 1 with FLUSH_EVERY_NTH, else 0");
	if (params->abit_mode > TMPROF_ABIT_REGIONS)
		return tmprof_params_refuse("abit_mode", "is unknown");
	if (params->abit_mode == TMPROF_ABIT_REGIONS && params->flush_policy != TMPROF_FLUSH_NEVER)
		return tmprof_params_refuse("flush_policy",
					    "must be FLUSH_NEVER with ABIT_REGIONS");

	if (params->epoch_ns &&
	    !tmprof_in_range(params->epoch_ns, TMPROF_INTERVAL_MIN_NS, TMPROF_INTERVAL_MAX_NS))
		return tmprof_params_refuse("epoch_ns", "must be 0, or from 1 ms to 1 h");
	if (params->memory_limit_bytes < TMPROF_MEMORY_MIN_BYTES)
		return tmprof_params_refuse("memory_limit_bytes", "must be at least 16 KiB");

	sampling = TMPROF_EVENT_PRESENT | TMPROF_EVENT_EXCLUDE_KERNEL | TMPROF_EVENT_PHYS_ADDR |
		   TMPROF_EVENT_DATA_SRC | TMPROF_EVENT_PRECISE_MASK;
	if (params->sample_event.flags & TMPROF_EVENT_DATA_SRC)
		sampling |= TMPROF_EVENT_ONLY_MISSES;
	refusal = tmprof_event_refusal(&params->sample_event, sampling);
	if (refusal)
		return tmprof_params_refuse("sample_event", refusal);
	/* perf refuses the top bit (kernel/events/core.c, 6.1). */
	if (((params->sample_event.flags & TMPROF_EVENT_PRESENT) != 0) !=
		    (params->sample_period > 0) ||
	    params->sample_period >> 63)
		return tmprof_params_refuse(
			"sample_period",
			"must be at least 1 and below 2^63 with a sample_event, else 0");
	if (!tmprof_in_range(params->ring_samples, TMPROF_RING_MIN_SAMPLES,
			     TMPROF_RING_MAX_SAMPLES) ||
	    (params->ring_samples & (params->ring_samples - 1)))
		return tmprof_params_refuse("ring_samples",
					    "must be a power of two from 16 to 65536");
	if (params->log_samples > TMPROF_LOG_MAX_SAMPLES)
		return tmprof_params_refuse("log_samples", "must be at most 1048576");

	if (!tmprof_in_range(params->gate_period_ns, TMPROF_INTERVAL_MIN_NS,
			     TMPROF_INTERVAL_MAX_NS))
		return tmprof_params_refuse("gate_period_ns", "must be from 1 ms to 1 h");
	for (i = 0; i < TMPROF_SOURCE_COUNT; i++) {
		const struct tmprof_gate *gate = &params->gate[i];
		bool counted = gate->mode == TMPROF_GATE_COUNTED;

		if (gate->mode > TMPROF_GATE_COUNTED)
			return tmprof_params_refuse(gate_mode[i], "is unknown");
		if (gate->threshold_permille > (counted ? TMPROF_PERMILLE_MAX : 0))
			return tmprof_params_refuse(
				gate_threshold[i],
				"must be at most 1000 with GATE_COUNTED, else 0");
		refusal = tmprof_event_refusal(&gate->event,
					       TMPROF_EVENT_PRESENT | TMPROF_EVENT_EXCLUDE_KERNEL);
		if (refusal)
			return tmprof_params_refuse(gate_event[i], refusal);
		if (counted != ((gate->event.flags & TMPROF_EVENT_PRESENT) != 0))
			return tmprof_params_refuse(gate_event[i],
						    "must be there with GATE_COUNTED, else zero");
	}
	regions = tmprof_region_params_check(&params->regions, TMPROF_REGION_CHECK_NS);
	if (regions.error)
		return regions;
	if (params->regions.monitoring_ns < TMPROF_MONITORING_MIN_NS)
		return tmprof_params_refuse("monitoring_ns", "must be at least 100 us");
	if (params->region_log > TMPROF_REGION_LOG_MAX)
		return tmprof_params_refuse("region_log", "must be at most 1048576");
	if (!tmprof_all_zero(params->reserved, sizeof(params->reserved) / sizeof(__u64)))
		return tmprof_params_refuse("reserved", "must be 0");
	return good;
}

/* The parameters of a new session. */
static inline void tmprof_params_defaults(struct tmprof_params *params)
{
	memset(params, 0, sizeof(*params));
	params->head.size = sizeof(*params);
	params->head.version = TMPROF_ABI_VERSION;
	/* TMP, IPDPS 2021: a pass each second, for less than 1 % of it. */
	params->scan_interval_ns = TMPROF_SECOND_NS;
	params->scan_budget_ns = TMPROF_SECOND_NS / 100;
	/* About 0.25 ms, at the 61 ns per entry of the emulated CPU above. */
	params->scan_chunk_entries = 4096;
	params->flush_policy = TMPROF_FLUSH_NEVER;
	/* Both epochs' counters for 32 GiB of touched base pages, at 16 bytes each. */
	params->memory_limit_bytes = 256ULL << 20;
	params->ring_samples = 1024;
	params->gate_period_ns = TMPROF_SECOND_NS;
	params->regions = tmprof_region_params_default();
	/* 4 MiB, as Daptrace's buffer: 6.5 s of one target with the most regions. */
	params->region_log = 65536;
}

#endif /* TMPROF_CORE_PARAMS_CHECK_H */
