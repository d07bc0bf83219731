// SPDX-License-Identifier: GPL-2.0-only

#include <linux/string.h>

#include "driver/allocation.h"
#include "driver/region_watch.h"

void tmprof_region_forget(struct tmprof_region_watch *watch)
{
	tmprof_release(watch->set.regions);
	tmprof_release(watch->cleared_ns);
	memset(watch, 0, sizeof(*watch));
}

void tmprof_region_see_sample(struct tmprof_region_watch *watch, u64 vpn)
{
	if (watch->set.regions)
		tmprof_region_sample(&watch->samples, vpn);
}
