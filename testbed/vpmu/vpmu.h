/* SPDX-License-Identifier: GPL-2.0-only */
/* The guest's side of tiersim: testbed/tiersim/format/shared_page.h says how the two talk. */
#ifndef TMPROF_TESTBED_VPMU_H
#define TMPROF_TESTBED_VPMU_H

#include <linux/dcache.h>
#include <linux/tracepoint.h>
#include <linux/types.h>

#include "testbed/tiersim/format/shared_page.h"

extern struct tiersim_shared *vpmu_shared;
extern struct dentry *vpmu_folder; /* debugfs "vpmu" */

/* Has tiersim look at what this CPU's side of the shared memory says. */
static inline void vpmu_ring_doorbell(void)
{
	asm volatile(TIERSIM_DOORBELL ::: "memory");
}

/* The kernel's tracepoint of that name, which is exported to modules by the list of all only. Never
 * NULL: an error pointer. */
struct tracepoint *vpmu_tracepoint(const char *name);

/* trace.c: which processes are traced, and epochs. */
int vpmu_trace_start(void);
void vpmu_trace_stop(void);

/* pmu.c: the events. */
int vpmu_pmu_start(void);
void vpmu_pmu_stop(void);

#endif /* TMPROF_TESTBED_VPMU_H */
