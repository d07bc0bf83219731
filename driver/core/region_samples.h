/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The pages with the most address samples, kept in little memory by "space-saving" (Metwally,
 * Agrawal, El Abbadi, ICDT 2005). A page that finds no room takes the place, and the count, of the
 * page with the fewest samples. A page with more than one in TMPROF_REGION_SAMPLED of all samples
 * is kept, whenever they came.
 *
 * Freestanding C11, as driver/core/regions.h.
 */
#ifndef TMPROF_CORE_REGION_SAMPLES_H
#define TMPROF_CORE_REGION_SAMPLES_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
#endif

#define TMPROF_REGION_SAMPLED 32

/* All zero: none. */
struct tmprof_region_samples {
	__u32 count; /* number of pages */
	__u32 samples[TMPROF_REGION_SAMPLED];
	__u64 page[TMPROF_REGION_SAMPLED];
};

static inline void tmprof_region_sample(struct tmprof_region_samples *kept, __u64 page)
{
	__u32 least = 0, i;

	for (i = 0; i < kept->count && kept->page[i] != page; i++)
		if (kept->samples[i] < kept->samples[least])
			least = i;
	if (i == kept->count) {
		if (kept->count < TMPROF_REGION_SAMPLED) {
			kept->samples[kept->count++] = 0;
		} else {
			i = least;
		}
		kept->page[i] = page;
	}
	if (kept->samples[i] < ~0U)
		kept->samples[i]++;
}

/* Takes out the page that has most samples, of equals the lowest. False: there is none. */
static inline bool tmprof_region_most_sampled(struct tmprof_region_samples *kept, __u64 *page)
{
	__u32 most = 0, i;

	if (!kept->count)
		return false;
	for (i = 1; i < kept->count; i++)
		if (kept->samples[i] > kept->samples[most] ||
		    (kept->samples[i] == kept->samples[most] && kept->page[i] < kept->page[most]))
			most = i;
	*page = kept->page[most];
	kept->count--;
	kept->page[most] = kept->page[kept->count];
	kept->samples[most] = kept->samples[kept->count];
	return true;
}

/* Takes out all, in that order. `pages` has room for TMPROF_REGION_SAMPLED. Returns how many. */
static inline __u32 tmprof_region_take_samples(struct tmprof_region_samples *kept, __u64 *pages)
{
	__u32 count = 0;

	while (tmprof_region_most_sampled(kept, &pages[count]))
		count++;
	return count;
}

#endif /* TMPROF_CORE_REGION_SAMPLES_H */
