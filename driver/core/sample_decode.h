/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Decodes one hardware sample's word on the memory hierarchy: perf's data-source word (union
 * perf_mem_data_src, include/uapi/linux/perf_event.h), reduced to the needs of hotness.
 */
#ifndef TMPROF_CORE_SAMPLE_DECODE_H
#define TMPROF_CORE_SAMPLE_DECODE_H

#include <linux/perf_event.h>
#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
#endif

enum tmprof_data_source {
	TMPROF_SOURCE_UNKNOWN,	  /* the hardware did not say where the data came from */
	TMPROF_SOURCE_NOT_DEMAND, /* prefetch, instruction fetch, or no memory operation */
	TMPROF_SOURCE_CACHE, /* served at or before a last-level cache, own or another socket's */
	TMPROF_SOURCE_UNCACHED, /* I/O or uncached memory: no page that could be placed */
	TMPROF_SOURCE_LOCAL_MEMORY,
	TMPROF_SOURCE_REMOTE_MEMORY, /* another node's, CXL or persistent memory */
};

#define TMPROF_DATA_SRC_FIELD(word, field, bits)                                                   \
	((uint32_t)((word) >> PERF_MEM_##field##_SHIFT) & ((1U << (bits)) - 1U))

static inline uint32_t tmprof_data_src_is_store(uint64_t word)
{
	return TMPROF_DATA_SRC_FIELD(word, OP, 5) & PERF_MEM_OP_STORE;
}

/*
 * mem_lvl_num is preferred; the older mem_lvl bits decide where it is absent: 0 before Linux 4.14,
 * PERF_MEM_LVLNUM_NA where the PMU fills mem_lvl only. A miss bit in mem_lvl says nothing about
 * who served the access.
 */
static inline enum tmprof_data_source tmprof_decode_data_source(uint64_t word)
{
	uint32_t op = TMPROF_DATA_SRC_FIELD(word, OP, 5);
	uint32_t level = TMPROF_DATA_SRC_FIELD(word, LVL, 14);
	uint32_t number = TMPROF_DATA_SRC_FIELD(word, LVLNUM, 4);
	uint32_t remote = TMPROF_DATA_SRC_FIELD(word, REMOTE, 1);

	if (op & (PERF_MEM_OP_PFETCH | PERF_MEM_OP_EXEC))
		return TMPROF_SOURCE_NOT_DEMAND;
	if (!(op & (PERF_MEM_OP_LOAD | PERF_MEM_OP_STORE)))
		return TMPROF_SOURCE_NOT_DEMAND;

	switch (number) {
	case PERF_MEM_LVLNUM_RAM:
		return remote ? TMPROF_SOURCE_REMOTE_MEMORY : TMPROF_SOURCE_LOCAL_MEMORY;
	case PERF_MEM_LVLNUM_PMEM:
	case PERF_MEM_LVLNUM_CXL:
		return TMPROF_SOURCE_REMOTE_MEMORY;
	case PERF_MEM_LVLNUM_IO:
		return TMPROF_SOURCE_UNCACHED;
	case PERF_MEM_LVLNUM_L1:
	case PERF_MEM_LVLNUM_L2:
	case PERF_MEM_LVLNUM_L3:
	case PERF_MEM_LVLNUM_L4:
	case PERF_MEM_LVLNUM_ANY_CACHE:
	case PERF_MEM_LVLNUM_LFB:
		return TMPROF_SOURCE_CACHE;
	default:
		break;
	}

	if (level & (PERF_MEM_LVL_IO | PERF_MEM_LVL_UNC))
		return TMPROF_SOURCE_UNCACHED;
	if (level & (PERF_MEM_LVL_REM_RAM1 | PERF_MEM_LVL_REM_RAM2))
		return TMPROF_SOURCE_REMOTE_MEMORY;
	if (level & PERF_MEM_LVL_LOC_RAM)
		return TMPROF_SOURCE_LOCAL_MEMORY;
	if (level & (PERF_MEM_LVL_REM_CCE1 | PERF_MEM_LVL_REM_CCE2))
		return TMPROF_SOURCE_CACHE;
	if ((level & PERF_MEM_LVL_HIT) &&
	    (level & (PERF_MEM_LVL_L1 | PERF_MEM_LVL_LFB | PERF_MEM_LVL_L2 | PERF_MEM_LVL_L3)))
		return TMPROF_SOURCE_CACHE;
	return TMPROF_SOURCE_UNKNOWN;
}

/*
 * Tells if the sample counts towards hotness (TMP): a demand access served from beyond the LLC.
 * `only_misses`: its event samples nothing but accesses that missed the LLC, so that one from an
 * unknown source counts as well. Intel's events of L3 misses report no source
 * (arch/x86/events/intel/ds.c, precise_datala_hsw()), nor do stores of IBS
 * (arch/x86/events/amd/ibs.c, perf_ibs_get_mem_lvl()).
 */
static inline uint32_t tmprof_beyond_llc(enum tmprof_data_source source, uint32_t only_misses)
{
	return source == TMPROF_SOURCE_LOCAL_MEMORY || source == TMPROF_SOURCE_REMOTE_MEMORY ||
	       (only_misses && source == TMPROF_SOURCE_UNKNOWN);
}

#endif /* TMPROF_CORE_SAMPLE_DECODE_H */
