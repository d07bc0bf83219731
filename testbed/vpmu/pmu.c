// SPDX-License-Identifier: GPL-2.0-only
/*
 * The PMU `vibs_op`: an event counts, or takes a sample each Nth time, what attr.config names (enum
 * tiersim_event). A period is a multiple of 16, as in IBS (AMD APM vol. 2, 13.3: IbsOpMaxCnt has no
 * low 4 bits).
 *
 * Samples wait in their CPU's ring. They are delivered as if by an interrupt: from a timer, when
 * their event stops, and before another task is switched to, so that `current` is who made them. A
 * sample of another process than the current one is dropped and counted: the ring cannot hold one
 * unless the process left its address space by exec.
 *
 * Lost samples are added to perf's count of samples that found its ring full, so that readers of
 * the event learn of them (perf_event_open(2), PERF_FORMAT_LOST). Modules cannot write records of
 * losses into the event's ring.
 *
 * All of this runs with interrupts off on the CPU that it is about.
 */

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/seq_file.h>
#include <linux/topology.h>

#include "testbed/vpmu/vpmu.h"

#define DRAIN_INTERVAL_NS NSEC_PER_MSEC
#define PERIOD_STEP	  16

struct vpmu_cpu {
	struct hrtimer timer;
	bool timer_runs;
	unsigned long taken;			 /* slots, from vibs_add() to vibs_del() */
	struct perf_event *slots[TIERSIM_SLOTS]; /* events of the started ones among those */
	struct pt_regs regs;
	u64 ring_full[TIERSIM_SLOTS]; /* part of tiersim_slot.lost that was reported to events */
	u64 delivered;
	u64 misplaced; /* samples of a process that was no longer the current one */
	u64 stopped;   /* samples of an event that had stopped */
};

static DEFINE_PER_CPU(struct vpmu_cpu, vpmu_cpus);
static struct tracepoint *switch_point;
static struct pmu vibs;

static struct tiersim_cpu *own_side(void)
{
	return &vpmu_shared->cpu[smp_processor_id()];
}

/* Tells tiersim the time, from which it dates its samples. */
static void tell_time(void)
{
	own_side()->now_ns = ktime_get_mono_fast_ns();
	vpmu_ring_doorbell();
}

static u64 data_source_of(const struct tiersim_sample *sample)
{
	union perf_mem_data_src source = {.val = 0};

	source.mem_snoop = PERF_MEM_SNOOP_NA;
	source.mem_lock = PERF_MEM_LOCK_NA;
	source.mem_op = sample->flags & TIERSIM_SAMPLE_STORE ? PERF_MEM_OP_STORE : PERF_MEM_OP_LOAD;
	source.mem_dtlb = sample->flags & TIERSIM_SAMPLE_DTLB_MISS
				  ? PERF_MEM_TLB_MISS | PERF_MEM_TLB_L2
				  : PERF_MEM_TLB_HIT | PERF_MEM_TLB_L1;
	switch (sample->level) {
	case TIERSIM_L1:
		source.mem_lvl = PERF_MEM_LVL_HIT | PERF_MEM_LVL_L1;
		source.mem_lvl_num = PERF_MEM_LVLNUM_L1;
		break;
	case TIERSIM_LLC:
		source.mem_lvl = PERF_MEM_LVL_HIT | PERF_MEM_LVL_L3;
		source.mem_lvl_num = PERF_MEM_LVLNUM_L3;
		break;
	case TIERSIM_MEMORY:
		source.mem_lvl_num = PERF_MEM_LVLNUM_RAM;
		if (sample->node == numa_node_id()) {
			source.mem_lvl = PERF_MEM_LVL_HIT | PERF_MEM_LVL_LOC_RAM;
		} else {
			source.mem_lvl = PERF_MEM_LVL_HIT | PERF_MEM_LVL_REM_RAM1;
			source.mem_remote = PERF_MEM_REMOTE_REMOTE;
		}
		break;
	default:
		source.mem_op = PERF_MEM_OP_NA;
		source.mem_lvl = PERF_MEM_LVL_NA;
		source.mem_lvl_num = PERF_MEM_LVLNUM_NA;
		source.mem_dtlb = PERF_MEM_TLB_NA;
		break;
	}
	return source.val;
}

static void deliver(struct perf_event *event, const struct tiersim_sample *sample)
{
	struct pt_regs *regs = &this_cpu_ptr(&vpmu_cpus)->regs;
	struct perf_sample_data data;

	perf_sample_data_init(&data, sample->address, event->hw.last_period);
	data.addr = sample->address; /* which the call leaves alone where it is 0 */
	data.sample_flags |= PERF_SAMPLE_ADDR;
	if (event->attr.sample_type & PERF_SAMPLE_DATA_SRC) {
		data.data_src.val = data_source_of(sample);
		data.sample_flags |= PERF_SAMPLE_DATA_SRC;
	}
	/* Without a physical address, the core would look the address up in the current address
	 * space. */
	if (event->attr.sample_type & PERF_SAMPLE_PHYS_ADDR) {
		data.phys_addr = sample->physical_address;
		data.sample_flags |= PERF_SAMPLE_PHYS_ADDR;
	}
	if (event->attr.sample_type & PERF_SAMPLE_WEIGHT_TYPE) {
		data.weight.full = sample->latency_ns;
		data.sample_flags |= event->attr.sample_type & PERF_SAMPLE_WEIGHT_TYPE;
	}
	/* Any other clock is read at delivery, up to DRAIN_INTERVAL_NS later. */
	if (event->attr.use_clockid && event->attr.clockid == CLOCK_MONOTONIC) {
		data.time = sample->time_ns;
		data.sample_flags |= PERF_SAMPLE_TIME;
	}
	/* Samples are of user mode: the registers are those that it entered the kernel with, but at
	 * the sampled instruction. */
	*regs = *task_pt_regs(current);
	regs->ip = sample->pc;
	/* perf_event_overflow() is not exported: this is what it would call. It also throttles,
	 * which a virtual CPU has no need of. */
	READ_ONCE(event->overflow_handler)(event, &data, regs);
}

static void tell_lost(struct perf_event *event, u64 samples)
{
	/* An inherited event is read through the one that was opened. */
	struct perf_event *opened = event->parent ?: event;

	atomic64_add(samples, &opened->lost_samples);
}

static void tell_ring_full(void)
{
	struct vpmu_cpu *own = this_cpu_ptr(&vpmu_cpus);
	const struct tiersim_cpu *side = own_side();
	unsigned int slot;

	for (slot = 0; slot < TIERSIM_SLOTS; slot++) {
		u64 lost = READ_ONCE(side->slots[slot].lost);

		if (own->slots[slot])
			tell_lost(own->slots[slot], lost - own->ring_full[slot]);
		own->ring_full[slot] = lost;
	}
}

static void drain(void)
{
	struct vpmu_cpu *own = this_cpu_ptr(&vpmu_cpus);
	struct tiersim_cpu *side = own_side();
	const struct tiersim_sample *ring = vpmu_shared->ring[smp_processor_id()];

	while (side->tail != side->head) {
		const struct tiersim_sample *sample = &ring[side->tail % TIERSIM_RING_SAMPLES];
		struct perf_event *event = own->slots[sample->slot % TIERSIM_SLOTS];

		side->tail++;
		if (!event) {
			own->stopped++;
		} else if (sample->pid != task_tgid_nr(current) || !current->mm) {
			own->misplaced++;
			tell_lost(event, 1);
		} else {
			own->delivered++;
			deliver(event, sample);
		}
	}
	tell_ring_full();
}

static bool any_slot(const struct vpmu_cpu *own)
{
	unsigned int slot;

	for (slot = 0; slot < TIERSIM_SLOTS; slot++) {
		if (own->slots[slot])
			return true;
	}
	return false;
}

static enum hrtimer_restart on_timer(struct hrtimer *timer)
{
	struct vpmu_cpu *own = container_of(timer, struct vpmu_cpu, timer);

	drain();
	if (!any_slot(own)) {
		own->timer_runs = false;
		return HRTIMER_NORESTART;
	}
	tell_time();
	hrtimer_forward_now(timer, ns_to_ktime(DRAIN_INTERVAL_NS));
	return HRTIMER_RESTART;
}

/* Before `next` becomes the current one. */
static void on_switch(void *unused, bool preempt, struct task_struct *prev,
		      struct task_struct *next, unsigned int prev_state)
{
	drain();
	if (any_slot(this_cpu_ptr(&vpmu_cpus)))
		tell_time();
}

static void update(struct perf_event *event)
{
	struct tiersim_cpu *side = own_side();
	u64 now;

	vpmu_ring_doorbell();
	now = READ_ONCE(side->counters[event->attr.config]);
	local64_add(now - local64_read(&event->hw.prev_count), &event->count);
	local64_set(&event->hw.prev_count, now);
}

static void set_slot(struct tiersim_slot *slot, u32 event, u64 period, u64 first)
{
	slot->event = event;
	slot->period = period;
	slot->first = first;
	slot->generation++;
	tell_time();
}

/* perf changes the period of an event that is to have a frequency; the first is 1. */
static u64 period_of(const struct perf_event *event)
{
	return max_t(u64, event->hw.sample_period & ~(u64)(PERIOD_STEP - 1), PERIOD_STEP);
}

static void vibs_start(struct perf_event *event, int flags)
{
	struct hw_perf_event *hw = &event->hw;
	struct vpmu_cpu *own = this_cpu_ptr(&vpmu_cpus);
	u64 left = local64_read(&hw->period_left);

	hw->state = 0;
	vpmu_ring_doorbell();
	local64_set(&hw->prev_count, own_side()->counters[event->attr.config]);
	if (hw->idx < 0)
		return;
	hw->last_period = period_of(event);
	if (!left || left > hw->last_period)
		left = hw->last_period;
	own->slots[hw->idx] = event;
	set_slot(&own_side()->slots[hw->idx], event->attr.config, hw->last_period, left);
	if (!own->timer_runs) {
		own->timer_runs = true;
		hrtimer_start(&own->timer, ns_to_ktime(DRAIN_INTERVAL_NS),
			      HRTIMER_MODE_REL_PINNED_HARD);
	}
}

static void vibs_stop(struct perf_event *event, int flags)
{
	struct hw_perf_event *hw = &event->hw;
	struct vpmu_cpu *own = this_cpu_ptr(&vpmu_cpus);

	if (hw->state & PERF_HES_STOPPED)
		return;
	update(event);
	hw->state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (hw->idx < 0)
		return;
	drain();
	local64_set(&hw->period_left, own_side()->slots[hw->idx].left);
	set_slot(&own_side()->slots[hw->idx], 0, 0, 0);
	own->slots[hw->idx] = NULL;
}

static int vibs_add(struct perf_event *event, int flags)
{
	struct vpmu_cpu *own = this_cpu_ptr(&vpmu_cpus);

	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	event->hw.idx = -1;
	if (is_sampling_event(event)) {
		unsigned int slot = find_first_zero_bit(&own->taken, TIERSIM_SLOTS);

		if (slot == TIERSIM_SLOTS)
			return -EAGAIN;
		__set_bit(slot, &own->taken);
		event->hw.idx = slot;
	}
	if (flags & PERF_EF_START)
		vibs_start(event, flags);
	return 0;
}

static void vibs_del(struct perf_event *event, int flags)
{
	vibs_stop(event, flags);
	if (event->hw.idx >= 0)
		__clear_bit(event->hw.idx, &this_cpu_ptr(&vpmu_cpus)->taken);
	event->hw.idx = -1;
}

static void vibs_read(struct perf_event *event)
{
	if (!(event->hw.state & PERF_HES_STOPPED))
		update(event);
}

static int vibs_event_init(struct perf_event *event)
{
	if (event->attr.type != vibs.type)
		return -ENOENT;
	if (has_branch_stack(event))
		return -EOPNOTSUPP;
	if (event->attr.config >= TIERSIM_EVENTS)
		return -EINVAL;
	/* Only user mode is visible. */
	if (event->attr.exclude_user)
		return -EINVAL;
	if (is_sampling_event(event) && !event->attr.freq &&
	    event->attr.sample_period % PERIOD_STEP)
		return -EINVAL;
	event->hw.idx = -1;
	return 0;
}

/* clang-format off */
PMU_FORMAT_ATTR(event, "config:0-7");
PMU_EVENT_ATTR_STRING(mem-samples, mem_samples, "config=0x0");
PMU_EVENT_ATTR_STRING(llc-misses, llc_misses, "config=0x1");
PMU_EVENT_ATTR_STRING(llc-load-misses, llc_load_misses, "config=0x2");
PMU_EVENT_ATTR_STRING(dtlb-misses, dtlb_misses, "config=0x3");
PMU_EVENT_ATTR_STRING(dtlb-load-misses, dtlb_load_misses, "config=0x4");
/* clang-format on */

static struct attribute *format_attributes[] = {
	&format_attr_event.attr,
	NULL,
};

static const struct attribute_group format_group = {
	.name = "format",
	.attrs = format_attributes,
};

static struct attribute *event_attributes[] = {
	&mem_samples.attr.attr, &llc_misses.attr.attr,	     &llc_load_misses.attr.attr,
	&dtlb_misses.attr.attr, &dtlb_load_misses.attr.attr, NULL,
};

static const struct attribute_group event_group = {
	.name = "events",
	.attrs = event_attributes,
};

static const struct attribute_group *attribute_groups[] = {
	&format_group,
	&event_group,
	NULL,
};

static struct pmu vibs = {
	.module = THIS_MODULE,
	.attr_groups = attribute_groups,
	/* perf_hw_context is one PMU's alone (kernel/events/core.c, perf_pmu_register()). */
	.task_ctx_nr = perf_sw_context,
	.event_init = vibs_event_init,
	.add = vibs_add,
	.del = vibs_del,
	.start = vibs_start,
	.stop = vibs_stop,
	.read = vibs_read,
};

static int samples_show(struct seq_file *file, void *unused)
{
	u64 delivered = 0, lost = 0, misplaced = 0, stopped = 0;
	unsigned int cpu, slot;

	for_each_possible_cpu (cpu) {
		const struct vpmu_cpu *own = per_cpu_ptr(&vpmu_cpus, cpu);

		delivered += READ_ONCE(own->delivered);
		for (slot = 0; slot < TIERSIM_SLOTS; slot++)
			lost += READ_ONCE(vpmu_shared->cpu[cpu].slots[slot].lost);
		misplaced += READ_ONCE(own->misplaced);
		stopped += READ_ONCE(own->stopped);
	}
	seq_printf(file,
		   "delivered %llu\nlost_ring_full %llu\nlost_misplaced %llu\nlost_stopped %llu\n",
		   delivered, lost, misplaced, stopped);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(samples);

int vpmu_pmu_start(void)
{
	unsigned int cpu;
	int error;

	for_each_possible_cpu (cpu) {
		struct vpmu_cpu *own = per_cpu_ptr(&vpmu_cpus, cpu);

		hrtimer_init(&own->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		own->timer.function = on_timer;
	}
	switch_point = vpmu_tracepoint("sched_switch");
	if (IS_ERR(switch_point))
		return PTR_ERR(switch_point);
	error = tracepoint_probe_register(switch_point, on_switch, NULL);
	if (error)
		return error;
	error = perf_pmu_register(&vibs, "vibs_op", -1);
	if (error)
		goto unhook;
	debugfs_create_file("samples", 0400, vpmu_folder, NULL, &samples_fops);
	return 0;
unhook:
	tracepoint_probe_unregister(switch_point, on_switch, NULL);
	tracepoint_synchronize_unregister();
	return error;
}

void vpmu_pmu_stop(void)
{
	unsigned int cpu;

	/* An open event holds the module, so there is none. */
	perf_pmu_unregister(&vibs);
	tracepoint_probe_unregister(switch_point, on_switch, NULL);
	tracepoint_synchronize_unregister();
	for_each_possible_cpu (cpu)
		hrtimer_cancel(&per_cpu_ptr(&vpmu_cpus, cpu)->timer);
}
