/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Memory within regions that a scan never looks at, such as device memory, and regions cut around
 * it. The evidence of a region comes from the rest of its pages, and says nothing of that memory.
 *
 * Freestanding C11, like driver/core/regions.h.
 */
#ifndef TMPROF_CORE_REGION_PARTS_H
#define TMPROF_CORE_REGION_PARTS_H

#include "driver/core/event_reading.h"
#include "driver/core/regions.h"

/* Areas that are remembered for one process. The largest are kept. */
#define TMPROF_REGION_UNSEEN 16U

struct tmprof_region_unseen {
	__u32 count;
	struct tmprof_area areas[TMPROF_REGION_UNSEEN]; /* ascending and apart */
};

/* Adds [start, end), which lies behind all areas added before. Adjoining areas become one. If there
 * is no room, the smallest of all is left out, and of equals the lowest. */
static inline void tmprof_region_leave_out(struct tmprof_region_unseen *unseen, __u64 start,
					   __u64 end)
{
	struct tmprof_area *areas = unseen->areas;
	__u32 smallest = 0, i;

	if (unseen->count && areas[unseen->count - 1].end == start) {
		areas[unseen->count - 1].end = end;
		return;
	}
	if (unseen->count == TMPROF_REGION_UNSEEN) {
		for (i = 1; i < unseen->count; i++)
			if (areas[i].end - areas[i].start <
			    areas[smallest].end - areas[smallest].start)
				smallest = i;
		if (areas[smallest].end - areas[smallest].start > end - start)
			return;
		memmove(&areas[smallest], &areas[smallest + 1],
			(unseen->count - smallest - 1) * sizeof(areas[0]));
		unseen->count--;
	}
	areas[unseen->count].start = start;
	areas[unseen->count].end = end;
	unseen->count++;
}

/* Pages of [start, end) that lie in no unseen area. */
static inline __u64 tmprof_region_seen_pages(const struct tmprof_region_unseen *unseen, __u64 start,
					     __u64 end)
{
	__u64 pages = end - start;
	__u32 i;

	for (i = 0; i < unseen->count; i++) {
		const struct tmprof_area *area = &unseen->areas[i];
		__u64 from = area->start > start ? area->start : start;
		__u64 to = area->end < end ? area->end : end;

		if (from < to)
			pages -= to - from;
	}
	return pages;
}

/* floor(count * part / whole), `part` at most `whole`; 0 if `whole` is 0. */
static inline __u64 tmprof_region_share(__u64 count, __u64 part, __u64 whole)
{
	return whole ? tmprof_scaled_count(count, part, whole) : 0;
}

/*
 * Sets `part` to the part of `region` that begins at `from`: the pages up to the next border of an
 * unseen area, or to the end of the region. A part in an unseen area has no evidence. The others
 * share the region's looks by their pages, and the rest of its evidence by their looks, so that
 * their sums are the region's. Call with `from` = region->start first, then with part->end, until
 * that is region->end.
 */
static inline void tmprof_region_part(const struct tmprof_region *region,
				      const struct tmprof_region_unseen *unseen, __u64 from,
				      struct tmprof_region *part)
{
	__u64 whole = tmprof_region_seen_pages(unseen, region->start, region->end);
	__u64 before = tmprof_region_seen_pages(unseen, region->start, from), with;
	__u64 looks_before, looks_with;
	__u32 i;

	*part = tmprof_region_make(from, region->end, region->count);
	for (i = 0; i < unseen->count; i++) {
		const struct tmprof_area *area = &unseen->areas[i];

		if (area->start > from && area->start < part->end)
			part->end = area->start;
		if (area->end > from && area->end < part->end)
			part->end = area->end;
	}
	with = tmprof_region_seen_pages(unseen, region->start, part->end);
	if (with == before)
		return;
	looks_before = tmprof_region_share(region->looks, before, whole);
	looks_with = tmprof_region_share(region->looks, with, whole);
	part->looks = (__u32)(looks_with - looks_before);
	part->references =
		(__u32)(tmprof_region_share(region->references, looks_with, region->looks) -
			tmprof_region_share(region->references, looks_before, region->looks));
	part->at_risk_ns = tmprof_region_share(region->at_risk_ns, looks_with, region->looks) -
			   tmprof_region_share(region->at_risk_ns, looks_before, region->looks);
}

#endif /* TMPROF_CORE_REGION_PARTS_H */
