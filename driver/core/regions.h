/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Regions of an address space, each judged by one page of it at a time (Daptrace, Middleware 2019).
 * The number of regions, not the footprint, bounds the pages examined in a step.
 *
 * An aggregation interval ends with tmprof_regions_conclude(), which joins regions that are
 * accessed alike. Then the caller takes the result. The next interval begins with
 * tmprof_regions_renew().
 *
 * Regions ascend, do not overlap and cover all areas of the address space, holes inside an area
 * included. Their number is at least min_regions, if there are pages enough, and at most
 * max_regions.
 *
 * Freestanding C11 without floating point or allocation: memory and random numbers are the
 * caller's. Pages are page numbers, ranges half-open. The driver, user space and the tests of both
 * compile it.
 */
#ifndef TMPROF_CORE_REGIONS_H
#define TMPROF_CORE_REGIONS_H

#include <linux/types.h>
#ifdef __KERNEL__
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/stddef.h>
#include <linux/string.h>
#else
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#endif

#include "driver/core/region_params.h"

/* Capacity beyond max_regions, which an update may need before it merges. Each area can cut a
 * region in two, and can have new pages on both sides of old ones. */
#define TMPROF_REGION_SPARE (4 * TMPROF_REGION_AREAS)
/* Greatest count of a region. Its product with the pages of a 57-bit address space fits 64 bits. */
#define TMPROF_REGION_COUNT_MAX (1U << 16)
/* Counts merge that differ by less than a tenth of their mean. */
#define TMPROF_REGION_ALIKE 10U
#define TMPROF_REGION_ANY   (~0ULL)
/* Most trials that are counted, so that the products of tmprof_region_by_chance() fit. */
#define TMPROF_REGION_TRIALS_MAX (1U << 15)
#define TMPROF_REGION_NO_PAGE	 (~0U)
/* A page is remembered by its distance from the start of its region. */
#define TMPROF_REGION_REACH 0xfffffffeULL

/* Lets others have the CPU in the middle of a long loop. A pass over 2^20 regions takes the module
 * tens of milliseconds, and a user-space thread is preempted anyway. */
static inline void tmprof_region_rest(__u32 step)
{
#ifdef __KERNEL__
	if (!(step % 1024))
		cond_resched();
#else
	(void)step;
#endif
}

struct tmprof_area {
	__u64 start;
	__u64 end;
};

/* The evidence is of the pages that were looked at, one at a time, since the last reset. */
struct tmprof_region {
	__u64 start;
	__u64 end;
	__u64 at_risk_ns;     /* target CPU time of those pages before their first accesses */
	__u32 looks;	      /* reads of an accessed bit after a clear */
	__u32 references;     /* those reads that found it set */
	__u32 first_accesses; /* clears after which the first access was seen */
	__u32 sampled;	      /* page, from `start`; TMPROF_REGION_NO_PAGE: none */
	__u32 count;	      /* how much it is accessed, <= TMPROF_REGION_COUNT_MAX */
} __attribute__((packed, aligned(4)));

#ifdef __cplusplus
static_assert(sizeof(struct tmprof_region) == 44, "as published");
#else
_Static_assert(sizeof(struct tmprof_region) == 44, "as published");
#endif

static inline __u64 tmprof_region_pages(const struct tmprof_region *region)
{
	return region->end - region->start;
}

struct tmprof_random {
	__u64 (*next)(void *context);
	void *context;
};

/* Chooses the page of the region to look at next. */
static inline __u64 tmprof_region_pick(struct tmprof_region *region,
				       const struct tmprof_random *random)
{
	__u64 pages = tmprof_region_pages(region);

	if (pages > TMPROF_REGION_REACH)
		pages = TMPROF_REGION_REACH;
	region->sampled = (__u32)(random->next(random->context) % pages);
	return region->start + region->sampled;
}

/*
 * Daptrace's count, for one bit read a monitoring interval after its clear. Estimates how many of
 * the `checks` of an aggregation interval would have found an access if each page had been checked
 * every time: the share found by the checks made, times `checks`.
 */
static inline __u32 tmprof_region_count_checks(const struct tmprof_region *region, __u32 checks)
{
	if (!region->looks)
		return 0;
	return (__u32)((__u64)region->references * checks / region->looks);
}

/*
 * Count from a ladder, which tells more than whether there was an access. Estimates how many of
 * `slots` slots, each `slot_ns` long, would have held an access. If each slot holds one with the
 * probability p, first accesses come once in 1/p slots. Hence p is first accesses over slots
 * watched, the slots of the first accesses included.
 */
static inline __u32 tmprof_region_count_slots(const struct tmprof_region *region, __u32 slots,
					      __u64 slot_ns)
{
	__u64 empty = slot_ns ? region->at_risk_ns / slot_ns : 0;

	if (!region->first_accesses)
		return 0;
	return (__u32)((__u64)region->first_accesses * slots / (region->first_accesses + empty));
}

struct tmprof_region_set {
	struct tmprof_region *regions; /* room for tmprof_regions_capacity() */
	__u32 count;
	__u32 min_regions;
	__u32 max_regions;
	bool join_by_chance; /* neighbours that differ by no more; else by the papers' rule alone */
};

static inline __u32 tmprof_regions_capacity(__u32 max_regions)
{
	return max_regions + TMPROF_REGION_SPARE;
}

static inline __u64 tmprof_regions_pages(const struct tmprof_region_set *set)
{
	__u64 pages = 0;
	__u32 i;

	for (i = 0; i < set->count; i++)
		pages += tmprof_region_pages(&set->regions[i]);
	return pages;
}

/* The region that holds the page; NULL: none. */
static inline struct tmprof_region *tmprof_regions_find(const struct tmprof_region_set *set,
							__u64 page)
{
	__u32 low = 0, high = set->count;

	while (low < high) {
		__u32 middle = low + (high - low) / 2;

		if (set->regions[middle].end <= page)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == set->count || set->regions[low].start > page)
		return NULL;
	return &set->regions[low];
}

/*
 * Merges the mappings into areas by cutting at the largest gaps only, ascending: at most
 * TMPROF_REGION_AREAS. `mappings` ascend and do not overlap; empty ones are skipped. Among equal
 * gaps, those at the lowest addresses are cut. Returns the number of areas.
 */
static inline __u32 tmprof_region_areas(const struct tmprof_area *mappings, size_t mapping_count,
					struct tmprof_area *areas)
{
	__u64 cuts[TMPROF_REGION_AREAS - 1] = {0}; /* gaps, descending */
	__u64 least, end = 0;
	__u32 equal = 0, count = 0, c, k;
	size_t i;

	for (i = 0; i < mapping_count; i++) {
		__u64 gap = end && mappings[i].start > end ? mappings[i].start - end : 0;

		if (mappings[i].start >= mappings[i].end)
			continue;
		for (c = 0; c < TMPROF_REGION_AREAS - 1 && gap <= cuts[c]; c++)
			;
		for (k = TMPROF_REGION_AREAS - 2; c < TMPROF_REGION_AREAS - 1 && k > c; k--)
			cuts[k] = cuts[k - 1];
		if (c < TMPROF_REGION_AREAS - 1)
			cuts[c] = gap;
		end = mappings[i].end;
	}
	/* Gaps as long as the shortest cut may be more than there are cuts left. */
	least = cuts[TMPROF_REGION_AREAS - 2];
	for (c = 0; c < TMPROF_REGION_AREAS - 1; c++)
		equal += cuts[c] == least;
	for (i = 0; i < mapping_count; i++) {
		bool cut = !count;
		__u64 gap;

		if (mappings[i].start >= mappings[i].end)
			continue;
		if (count) {
			gap = mappings[i].start - areas[count - 1].end;
			cut = gap > least;
			if (gap && gap == least && equal) {
				cut = true;
				equal--;
			}
		}
		if (cut)
			areas[count++].start = mappings[i].start;
		areas[count - 1].end = mappings[i].end;
	}
	return count;
}

static inline struct tmprof_region tmprof_region_make(__u64 start, __u64 end, __u32 count)
{
	struct tmprof_region region = {
		.start = start,
		.end = end,
		.sampled = TMPROF_REGION_NO_PAGE,
		.count = count,
	};

	return region;
}

/* Makes [start, at) and [at, end) of region `index`. Both keep its count; what was seen of it must
 * have been reset. */
static inline void tmprof_regions_cut(struct tmprof_region_set *set, __u32 index, __u64 at)
{
	struct tmprof_region *region = &set->regions[index];

	memmove(region + 1, region, (set->count - index) * sizeof(*region));
	set->count++;
	region[0] = tmprof_region_make(region->start, at, region->count);
	region[1] = tmprof_region_make(at, region[1].end, region[1].count);
}

/* Halves the largest region, of equals the lowest, until there are enough. */
static inline void tmprof_regions_reach_min(struct tmprof_region_set *set)
{
	while (set->count < set->min_regions) {
		__u32 largest = 0, i;
		__u64 pages;

		for (i = 1; i < set->count; i++)
			if (tmprof_region_pages(&set->regions[i]) >
			    tmprof_region_pages(&set->regions[largest]))
				largest = i;
		if (!set->count)
			return;
		pages = tmprof_region_pages(&set->regions[largest]);
		if (pages < 2)
			return;
		tmprof_regions_cut(set, largest, set->regions[largest].start + pages / 2);
	}
}

/*
 * Makes the first regions: one for each area, the middle one cut into equal parts to reach
 * min_regions. If the middle area has too few pages, the largest regions are halved. `regions` has
 * room for tmprof_regions_capacity(params->max_regions).
 */
static inline void tmprof_regions_start(struct tmprof_region_set *set,
					struct tmprof_region *regions,
					const struct tmprof_region_params *params,
					const struct tmprof_area *areas, __u32 area_count)
{
	const __u32 middle = area_count / 2;
	__u32 i, part;

	set->regions = regions;
	set->count = 0;
	set->join_by_chance = true;
	set->min_regions = params->min_regions;
	set->max_regions = params->max_regions;
	for (i = 0; i < area_count; i++) {
		__u64 start = areas[i].start, pages = areas[i].end - areas[i].start;
		__u32 parts = i == middle ? set->min_regions - (area_count - 1) : 1;

		if (parts > pages)
			parts = (__u32)pages;
		for (part = 0; part < parts; part++) {
			__u64 end = part + 1 == parts ? areas[i].end : start + pages / parts;

			regions[set->count++] = tmprof_region_make(start, end, 0);
			start = end;
		}
	}
	tmprof_regions_reach_min(set);
}

static inline __u32 tmprof_region_sum(__u32 a, __u32 b)
{
	return a > ~0U - b ? ~0U : a + b;
}

static inline void tmprof_region_join(struct tmprof_region *into, const struct tmprof_region *from)
{
	__u64 pages = tmprof_region_pages(into) + tmprof_region_pages(from);
	__u64 weighted =
		into->count * tmprof_region_pages(into) + from->count * tmprof_region_pages(from);

	/* If only one region was looked at, the result takes that one's count. */
	if (!into->looks == !from->looks)
		into->count = (__u32)((weighted + pages / 2) / pages);
	else if (from->looks)
		into->count = from->count;
	into->end = from->end;
	into->at_risk_ns += from->at_risk_ns;
	into->looks = tmprof_region_sum(into->looks, from->looks);
	into->references = tmprof_region_sum(into->references, from->references);
	into->first_accesses = tmprof_region_sum(into->first_accesses, from->first_accesses);
	into->sampled = TMPROF_REGION_NO_PAGE;
}

static inline __u64 tmprof_region_trials(const struct tmprof_region *region)
{
	if (!region->looks)
		return 1;
	return region->looks < TMPROF_REGION_TRIALS_MAX ? region->looks : TMPROF_REGION_TRIALS_MAX;
}

/*
 * True if chance can explain the difference of two counts: it is at most `part` standard
 * deviations. Each count is the share of its trials that found an access, with the variance p (1 -
 * p) / trials. The estimate of p pools the trials of both regions and one more trial that counts
 * one half: even if all trials agree, the next one might not.
 */
static inline bool tmprof_region_by_chance(const struct tmprof_region *a,
					   const struct tmprof_region *b, __u64 apart, __u64 part)
{
	__u64 of_a = tmprof_region_trials(a), of_b = tmprof_region_trials(b);
	__u64 share = (a->count * of_a + b->count * of_b + TMPROF_REGION_COUNT_MAX / 2) /
		      (of_a + of_b + 1);
	__u64 variance =
		share * (TMPROF_REGION_COUNT_MAX - share); /* times of_a of_b / their sum */

	return apart * apart * of_a * of_b <= part * part * variance * (of_a + of_b);
}

/* A region that was not looked at is unknown, not cold: it is like no region that was looked at. */
static inline bool tmprof_region_alike(const struct tmprof_region_set *set,
				       const struct tmprof_region *a, const struct tmprof_region *b,
				       __u64 part)
{
	__u64 apart = a->count > b->count ? a->count - b->count : b->count - a->count;
	__u64 mean_twice = (__u64)a->count + b->count;

	if (!a->looks != !b->looks)
		return false;
	return !apart || 2 * apart * TMPROF_REGION_ALIKE < part * mean_twice ||
	       (a->looks && set->join_by_chance && tmprof_region_by_chance(a, b, apart, part));
}

/* Joins neighbours, in ascending order, while there are more than `least` regions. Their counts are
 * equal, differ by less than `part` / 10 of their mean, or by at most `part` times the difference
 * that chance makes. TMPROF_REGION_ANY joins any neighbours. No result exceeds `most_pages`. */
static inline void tmprof_regions_join_alike(struct tmprof_region_set *set, __u64 part,
					     __u64 most_pages, __u32 least)
{
	__u32 last = 0, i;
	__u32 joins = set->count > least ? set->count - least : 0;

	if (!joins)
		return;
	for (i = 1; i < set->count; i++) {
		struct tmprof_region *before = &set->regions[last];
		const struct tmprof_region *region = &set->regions[i];

		tmprof_region_rest(i);
		if (joins && before->end == region->start &&
		    (part == TMPROF_REGION_ANY || tmprof_region_alike(set, before, region, part)) &&
		    region->end - before->start <= most_pages) {
			tmprof_region_join(before, region);
			joins--;
		} else {
			set->regions[++last] = *region;
		}
	}
	set->count = last + 1;
}

/* Joins regions until there are at most max_regions. Each round joins neighbours that differ more
 * than those of the round before. The last rounds join any neighbours. That is enough: the regions
 * of an area adjoin, and there are at most min_regions areas. */
static inline void tmprof_regions_reach_max(struct tmprof_region_set *set)
{
	const __u64 share = tmprof_regions_pages(set) / set->min_regions;
	__u64 part;

	/* Counts differ by at most twice their mean. */
	for (part = 2; part <= 4 * TMPROF_REGION_ALIKE; part *= 2)
		tmprof_regions_join_alike(set, part, share, set->max_regions);
	tmprof_regions_join_alike(set, TMPROF_REGION_ANY, share, set->max_regions);
	tmprof_regions_join_alike(set, TMPROF_REGION_ANY, ~0ULL, set->max_regions);
}

/*
 * Joins neighbours whose counts differ by less than a tenth of their mean, or by no more than
 * chance makes. The new count is their mean by size. A region that was not looked at joins only
 * others that were not. No region grows beyond 1 / min_regions of all pages. Otherwise the lowest
 * addresses would take all the joins that min_regions allows.
 */
static inline void tmprof_regions_merge(struct tmprof_region_set *set)
{
	if (!set->count)
		return;
	tmprof_regions_join_alike(set, 1, tmprof_regions_pages(set) / set->min_regions,
				  set->min_regions);
	tmprof_regions_reach_max(set);
}

static inline void tmprof_regions_reset(struct tmprof_region_set *set)
{
	__u32 i;

	for (i = 0; i < set->count; i++) {
		struct tmprof_region *region = &set->regions[i];

		tmprof_region_rest(i);
		*region = tmprof_region_make(region->start, region->end, region->count);
	}
}

/* Splits each region of two pages or more at a random page, if there are fewer than half of
 * max_regions. The observations must have been reset. */
static inline void tmprof_regions_split(struct tmprof_region_set *set,
					const struct tmprof_random *random)
{
	__u32 parts = 0, i;

	if (set->count >= set->max_regions / 2)
		return;
	for (i = 0; i < set->count; i++)
		parts += tmprof_region_pages(&set->regions[i]) > 1 ? 2 : 1;
	/* Goes from the last region down, because all regions but the first move up. */
	for (i = set->count, set->count = parts; i-- > 0;) {
		struct tmprof_region region = set->regions[i];
		__u64 pages = tmprof_region_pages(&region);
		__u64 at;

		tmprof_region_rest(i);
		if (pages > 1) {
			at = region.start + 1 + random->next(random->context) % (pages - 1);
			set->regions[--parts] = tmprof_region_make(at, region.end, region.count);
			region.end = at;
		}
		set->regions[--parts] = region;
	}
}

/* Makes a region of the one page `page`, because an address sample tells that it differs from its
 * neighbours. The observations must have been reset. 0; -ENOENT: no region holds the page; -ENOSPC:
 * there are max_regions already. */
static inline int tmprof_regions_split_at(struct tmprof_region_set *set, __u64 page)
{
	struct tmprof_region *region = tmprof_regions_find(set, page);
	__u32 index, cuts;

	if (!region)
		return -ENOENT;
	index = (__u32)(region - set->regions);
	cuts = (region->start < page) + (page + 1 < region->end);
	if (set->count + cuts > set->max_regions)
		return -ENOSPC;
	if (page + 1 < region->end)
		tmprof_regions_cut(set, index, page + 1);
	if (set->regions[index].start < page)
		tmprof_regions_cut(set, index, page);
	return 0;
}

/*
 * Fits the regions to an address space that has changed. Parts outside the areas go; new pages come
 * in regions of their own, with the count 0. tmprof_region_areas() gives `areas`. The observations
 * must have been reset.
 */
static inline void tmprof_regions_update(struct tmprof_region_set *set,
					 const struct tmprof_area *areas, __u32 area_count)
{
	const __u32 first = tmprof_regions_capacity(set->max_regions) - set->count;
	__u32 from = first, old_end = first + set->count, made = 0, a;

	/* The old regions make way at the end of the array, and the new ones never catch up with
	 * them. A region gives one piece to each area. Each area has at most one new piece before
	 * each old area and one after them. */
	memmove(&set->regions[first], set->regions, set->count * sizeof(*set->regions));
	for (a = 0; a < area_count; a++) {
		__u64 at = areas[a].start;

		while (from < old_end && set->regions[from].end <= at)
			from++;
		while (at < areas[a].end) {
			struct tmprof_region old;

			if (from == old_end || set->regions[from].start >= areas[a].end) {
				set->regions[made++] = tmprof_region_make(at, areas[a].end, 0);
				break;
			}
			old = set->regions[from];
			if (old.start > at) {
				set->regions[made++] = tmprof_region_make(at, old.start, 0);
				at = old.start;
			}
			if (old.end > areas[a].end)
				old.end = areas[a].end;
			else
				from++;
			set->regions[made++] = tmprof_region_make(at, old.end, old.count);
			at = old.end;
		}
	}
	set->count = made;
	if (set->count)
		tmprof_regions_reach_max(set);
	tmprof_regions_reach_min(set);
}

/* A phase change is to show within an epoch of a second. */
#define TMPROF_REGION_AGGREGATION_LONGEST_NS 800000000ULL

/*
 * Adapts max_regions to the time that the last aggregation took, `took_ns`, because budgets can
 * make an aggregation wait. Fewer regions are kept if it took longer than is of use, more if it
 * took half of that or less. This time is the only measure of a step's cost.
 */
static inline void tmprof_regions_fit(struct tmprof_region_set *set,
				      const struct tmprof_region_params *bounds, __u64 took_ns)
{
	__u64 longest_ns = TMPROF_REGION_AGGREGATION_LONGEST_NS;
	/* At this bound, regions are split if there are fewer than 2 * min_regions. */
	__u32 least = 4 * bounds->min_regions;
	__u32 most = set->max_regions;

	if (least > bounds->max_regions)
		least = bounds->max_regions;
	if (longest_ns < 2 * bounds->aggregation_ns)
		longest_ns = 2 * bounds->aggregation_ns;
	if (took_ns > longest_ns) {
		/* Assumed number of regions that took `took_ns`: twice those now, at most
		 * max_regions. */
		__u64 there = most < 2 * set->count ? most : 2 * set->count;
		/* In ppm, so that a long interval times many regions fits. */
		__u64 fewer = there * (longest_ns * 1000 / (took_ns / 1000 + 1)) / 1000000;

		set->max_regions = fewer > least ? (__u32)fewer : least;
	} else if (2 * took_ns <= longest_ns) {
		__u64 more = (__u64)most + most / 4;

		set->max_regions = more < bounds->max_regions ? (__u32)more : bounds->max_regions;
	}
}

/* Each aggregation makes regions of at most max_regions / this number of sampled pages. */
#define TMPROF_REGION_SAMPLED_SHARE 8

/* Ends an aggregation that took `took_ns`: adapts max_regions to that time and joins regions that
 * are alike. The regions and their counts are then the result of the aggregation. */
static inline void tmprof_regions_conclude(struct tmprof_region_set *set,
					   const struct tmprof_region_params *bounds, __u64 took_ns)
{
	tmprof_regions_fit(set, bounds, took_ns);
	tmprof_regions_merge(set);
}

/*
 * Prepares the regions of the next aggregation. `areas`: the areas of the address space if they
 * have changed since the last time, else NULL. `sampled`: pages that address samples found, in
 * descending order of weight.
 */
static inline void tmprof_regions_renew(struct tmprof_region_set *set,
					const struct tmprof_area *areas, __u32 area_count,
					const __u64 *sampled, __u32 sampled_count,
					const struct tmprof_random *random)
{
	__u32 most = set->max_regions / TMPROF_REGION_SAMPLED_SHARE, i;

	tmprof_regions_reset(set);
	if (areas)
		tmprof_regions_update(set, areas, area_count);
	for (i = 0; i < sampled_count && i < most; i++)
		if (tmprof_regions_split_at(set, sampled[i]) == -ENOSPC)
			break;
	tmprof_regions_split(set, random);
}

#endif /* TMPROF_CORE_REGIONS_H */
