/* SPDX-License-Identifier: GPL-2.0-only */
/* One perf event on every CPU that is online, through hotplug. */
#ifndef TMPROF_CPU_EVENTS_H
#define TMPROF_CPU_EVENTS_H

#include <linux/atomic.h>
#include <linux/list.h>
#include <linux/perf_event.h>
#include <linux/types.h>

#include "driver/core/event_reading.h"
#include "driver/uapi/tmprof.h"

struct tmprof_cpu_event {
	struct perf_event *event; /* NULL: none was made for this CPU */
	bool foreign;		  /* the CPU is not of the event's kind: it has nothing to count */
	struct tmprof_event_reading last;
	atomic_t came; /* online, since it was asked last; set by hotplug, the rest by callers */
};

struct tmprof_cpu_events {
	struct hlist_node node;
	struct perf_event_attr attr;
	perf_overflow_handler_t handler; /* NULL: it counts only */
	/* The handler's context on a CPU; process context; ERR_PTR(-errno). NULL: none. */
	void *(*context)(struct tmprof_cpu_events *events, unsigned int cpu);

	bool enabled;
	bool refused;		      /* it is an event of the kernel's tracing */
	u64 failed;		      /* times that a CPU came online and got none */
	u64 lost_by_closed;	      /* samples */
	struct tmprof_cpu_event *cpu; /* nr_cpu_ids of them */
};

int tmprof_cpu_events_init(void);
void tmprof_cpu_events_exit(void);

struct perf_event_attr tmprof_event_attr(const struct tmprof_event *event);

/* All from here on: process context, may sleep, no CPU hotplug lock held, one caller at a time. */

/* The caller has set attr, handler and context, the rest is zero. Events are made disabled. 0, or
 * the first errno that perf gave, with nothing left behind. `refused` is set if it is an event of
 * the kernel's tracing: -EINVAL. A CPU that does not
 * know the event, as those of another kind in a hybrid processor, goes without as long as another
 * has it. */
int tmprof_cpu_events_open(struct tmprof_cpu_events *events);

/* Waits for the handlers: none runs after it returns. */
void tmprof_cpu_events_close(struct tmprof_cpu_events *events);

void tmprof_cpu_events_enable(struct tmprof_cpu_events *events, bool enable);

/* Makes the events of CPUs that came online since the last call; until then they have none. */
void tmprof_cpu_events_follow(struct tmprof_cpu_events *events);

/* Counts of all CPUs since the last reading, scaled up if the event shared its counter with others;
 * also calls follow(). False: the number is not known. Some CPU came online meanwhile or has no
 * event, or the event was never counted or stepped back. */
bool tmprof_cpu_events_read(struct tmprof_cpu_events *events, u64 *count);

/* Samples lost by the PMU so far, of closed events, too, if the PMU told perf (perf_event_read(2),
 * PERF_FORMAT_LOST). */
u64 tmprof_cpu_events_lost(const struct tmprof_cpu_events *events);

/* CPUs that are online and have their event. */
u32 tmprof_cpu_events_count(const struct tmprof_cpu_events *events);

#endif /* TMPROF_CPU_EVENTS_H */
