// SPDX-License-Identifier: GPL-2.0-only
/*
 * Some events, such as page faults, patch the kernel's code when they are made or freed. They take
 * the CPU hotplug lock for that themselves, so nothing is made or freed under that lock here. When
 * a CPU goes, perf takes its event off. When it comes back, the hotplug callback only notes so, and
 * the next reading or follow() makes the event anew.
 */

#include <linux/atomic.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/err.h>

#include "driver/allocation.h"
#include "driver/compat/compat.h"
#include "driver/cpu_events.h"

static enum cpuhp_state hotplug_state;

/* Adds what one event has counted since the last reading. */
static bool read_one(struct tmprof_cpu_event *slot, u64 *sum)
{
	struct tmprof_event_reading last = slot->last;

	slot->last.count =
		perf_event_read_value(slot->event, &slot->last.enabled_ns, &slot->last.running_ns);
	return tmprof_event_add(&last, &slot->last, sum);
}

/* Without virtual machines, if the PMU can leave them out. A virtual machine whose PMU is mediated
 * takes the CPU's PMU as a whole. Events that would count in it keep it from starting, or are
 * refused while it runs. */
static struct perf_event *create_event(struct tmprof_cpu_events *events, unsigned int cpu,
				       void *context)
{
	struct perf_event_attr attr = events->attr;
	struct perf_event *event;

	attr.exclude_guest = 1;
	event = perf_event_create_kernel_counter(&attr, cpu, NULL, events->handler, context);
	if (event != ERR_PTR(-EINVAL) && event != ERR_PTR(-EOPNOTSUPP))
		return event;
	attr.exclude_guest = 0;
	return perf_event_create_kernel_counter(&attr, cpu, NULL, events->handler, context);
}

static int open_one(struct tmprof_cpu_events *events, unsigned int cpu)
{
	struct tmprof_cpu_event *slot = &events->cpu[cpu];
	struct perf_event *event;
	void *context = NULL;

	if (events->context) {
		context = events->context(events, cpu);
		if (IS_ERR(context))
			return PTR_ERR(context);
	}
	event = create_event(events, cpu, context);
	slot->foreign = event == ERR_PTR(-ENOENT);
	if (IS_ERR(event))
		return PTR_ERR(event);
	/* The numbers of such types are known at run time only. Making one reads its name from the
	 * user memory of the process that makes it, which is not to be the worker's. */
	if (tmprof_is_trace_event(event)) {
		events->refused = true;
		perf_event_release_kernel(event);
		return -EINVAL;
	}
	slot->event = event;
	slot->last = (struct tmprof_event_reading){};
	if (events->enabled)
		perf_event_enable(event);
	return 0;
}

static u64 lost_by(const struct tmprof_cpu_event *slot)
{
	return slot->event ? atomic64_read(&slot->event->lost_samples) : 0;
}

static void close_one(struct tmprof_cpu_events *events, struct tmprof_cpu_event *slot)
{
	if (!slot->event)
		return;
	perf_event_disable(slot->event);
	events->lost_by_closed += lost_by(slot);
	perf_event_release_kernel(slot->event);
	slot->event = NULL;
}

/* True if the CPU came online since the last call: then its old event is no longer on it. */
static bool takes_note(struct tmprof_cpu_event *slot)
{
	return atomic_xchg(&slot->came, 0);
}

static void renew(struct tmprof_cpu_events *events, unsigned int cpu)
{
	struct tmprof_cpu_event *slot = &events->cpu[cpu];
	int error;

	close_one(events, slot);
	error = open_one(events, cpu);
	/* A CPU that has gone again is noted when it comes. */
	if (error && !slot->foreign && cpu_online(cpu))
		events->failed++;
}

static int note_online(unsigned int cpu, struct hlist_node *node)
{
	struct tmprof_cpu_events *events = hlist_entry(node, struct tmprof_cpu_events, node);

	atomic_set(&events->cpu[cpu].came, 1);
	return 0;
}

int tmprof_cpu_events_init(void)
{
	int state =
		cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "tmprof:online", note_online, NULL);

	if (state < 0)
		return state;
	hotplug_state = state;
	return 0;
}

void tmprof_cpu_events_exit(void)
{
	cpuhp_remove_multi_state(hotplug_state);
}

struct perf_event_attr tmprof_event_attr(const struct tmprof_event *event)
{
	return (struct perf_event_attr){
		.type = event->type,
		.size = sizeof(struct perf_event_attr),
		.config = event->config,
		.config1 = event->config1,
		.config2 = event->config2,
		.disabled = 1,
		.exclude_kernel = !!(event->flags & TMPROF_EVENT_EXCLUDE_KERNEL),
		.precise_ip =
			(event->flags & TMPROF_EVENT_PRECISE_MASK) >> TMPROF_EVENT_PRECISE_SHIFT,
	};
}

/* Opens the event of every CPU that is wholly up. CPUs that come up from now on are noted. */
static int open_active(struct tmprof_cpu_events *events)
{
	unsigned int cpu;

	for_each_cpu (cpu, cpu_active_mask) {
		int error = open_one(events, cpu);

		if (error && !events->cpu[cpu].foreign && cpu_active(cpu))
			return error;
	}
	return tmprof_cpu_events_count(events) ? 0 : -ENOENT;
}

int tmprof_cpu_events_open(struct tmprof_cpu_events *events)
{
	int error;

	events->cpu = tmprof_allocate_array(nr_cpu_ids, sizeof(*events->cpu), NUMA_NO_NODE);
	if (IS_ERR(events->cpu)) {
		error = PTR_ERR(events->cpu);
		events->cpu = NULL;
		return error;
	}
	error = cpuhp_state_add_instance_nocalls(hotplug_state, &events->node);
	if (error) {
		tmprof_release(events->cpu);
		events->cpu = NULL;
		return error;
	}
	error = open_active(events);
	if (error)
		tmprof_cpu_events_close(events);
	return error;
}

void tmprof_cpu_events_close(struct tmprof_cpu_events *events)
{
	unsigned int cpu;

	cpuhp_state_remove_instance_nocalls(hotplug_state, &events->node);
	for_each_possible_cpu (cpu)
		close_one(events, &events->cpu[cpu]);
	tmprof_release(events->cpu);
	events->cpu = NULL;
}

void tmprof_cpu_events_enable(struct tmprof_cpu_events *events, bool enable)
{
	unsigned int cpu;

	tmprof_cpu_events_follow(events);
	events->enabled = enable;
	for_each_possible_cpu (cpu) {
		struct perf_event *event = events->cpu[cpu].event;

		if (event && enable)
			perf_event_enable(event);
		else if (event)
			perf_event_disable(event);
	}
}

void tmprof_cpu_events_follow(struct tmprof_cpu_events *events)
{
	unsigned int cpu;

	for_each_possible_cpu (cpu) {
		if (takes_note(&events->cpu[cpu]))
			renew(events, cpu);
	}
}

bool tmprof_cpu_events_read(struct tmprof_cpu_events *events, u64 *count)
{
	bool known = true;
	unsigned int cpu;

	*count = 0;
	for_each_possible_cpu (cpu) {
		struct tmprof_cpu_event *slot = &events->cpu[cpu];
		bool came = takes_note(slot);

		if (slot->event)
			known &= read_one(slot, count);
		else
			known &= slot->foreign || !cpu_online(cpu);
		if (came) {
			renew(events, cpu);
			known = false;
		}
	}
	return known;
}

u64 tmprof_cpu_events_lost(const struct tmprof_cpu_events *events)
{
	u64 lost = events->lost_by_closed;
	unsigned int cpu;

	if (!events->cpu)
		return lost;
	for_each_possible_cpu (cpu)
		lost += lost_by(&events->cpu[cpu]);
	return lost;
}

u32 tmprof_cpu_events_count(const struct tmprof_cpu_events *events)
{
	unsigned int cpu;
	u32 count = 0;

	for_each_online_cpu (cpu)
		count += events->cpu[cpu].event != NULL;
	return count;
}
