// SPDX-License-Identifier: GPL-2.0-only
/*
 * The overflow handler runs in an NMI, or in the interrupt of a PMU without one. It copies the
 * sample into its CPU's ring. Once the ring is a quarter full, it also queues an irq_work that
 * wakes the worker. The worker comes every FOLD_INTERVAL_NS besides.
 *
 * perf prepares no sample for kernel handlers: they find only the fields that the PMU itself has
 * filled in, and sample_flags lists these.
 */

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/irq_work.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include "driver/allocation.h"
#include "driver/compat/compat.h"
#include "driver/core/counter_store.h"
#include "driver/core/sample_decode.h"
#include "driver/core/sample_ring.h"
#include "driver/cpu_events.h"
#include "driver/page_walk.h"
#include "driver/region_watch.h"
#include "driver/sampler.h"
#include "driver/session.h"
#include "driver/stats.h"
#include "driver/target.h"

/* A ring of the default size, 1024 samples, then takes 100 000 samples a second of one CPU. */
#define FOLD_INTERVAL_NS (10 * NSEC_PER_MSEC)

/* Handed to READ_SAMPLES at a time: 0.9 KiB of stack. */
#define LOG_BATCH 16

struct raw_sample {
	u64 time_ns;
	u64 ip;
	u64 address;
	u64 physical_address;
	u64 data_source;
	/* Address of the process's struct pid, compared and never followed: the process may be
	 * gone. While a process is a target, no other has the address. */
	unsigned long pid;
	u32 tgid;
	u32 tid;
};

/* Folded at a time: their targets are looked up, their pages found and their counts added under one
 * hold of each lock. At about 1 us to find a page, as long as a chunk of the scan. */
#define FOLD_BATCH 64

struct folding {
	struct raw_sample sample;
	struct tmprof_target *target; /* a reference; NULL: foreign */
	bool counts;
	bool walked;			 /* for a page at the address */
	bool mapped;			 /* there was one */
	struct tmprof_observation found; /* result of the walk */
};

struct cpu_sampler {
	struct tmprof_session *session;
	struct irq_work wake;
	struct tmprof_ring ring;
	u32 wake_at; /* samples in the ring */
	bool waking; /* the worker was woken, and has not come to this ring since */
	atomic64_t taken;
	atomic64_t guest;
	atomic64_t no_address;
	atomic64_t throttled;
	struct raw_sample records[];
};

struct tmprof_sampler {
	struct tmprof_session *session;
	struct tmprof_cpu_events events;
	struct tmprof_walk walk;
	struct folding *walked; /* the one that the walk looks for */
	struct folding batch[FOLD_BATCH];

	struct tmprof_sample *log; /* that the start is to begin; NULL: none, or it has begun */

	u64 lost; /* samples lost by the rings, as last added to the totals */
	u64 pmu_lost;
	u64 taken;
	u64 guest;
	u64 no_address;
	u64 throttled;
	struct cpu_sampler *cpu[]; /* nr_cpu_ids; NULL until the CPU is online first */
};

static void wake_worker(struct irq_work *work)
{
	struct cpu_sampler *sampler = container_of(work, struct cpu_sampler, wake);

	tmprof_session_wake_worker(sampler->session);
}

static void overflow(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs)
{
	struct cpu_sampler *sampler = event->overflow_handler_context;
	struct raw_sample *sample;

	atomic64_inc(&sampler->taken);
	if (event->hw.interrupts == TMPROF_THROTTLED_INTERRUPTS)
		atomic64_inc(&sampler->throttled);
	/* The CPU runs a guest of this virtual machine: the address is one of the guest's. */
	if (current->flags & PF_VCPU) {
		atomic64_inc(&sampler->guest);
		return;
	}
	if (!(data->sample_flags & PERF_SAMPLE_ADDR) || !data->addr ||
	    data->addr >= TASK_SIZE_MAX) {
		atomic64_inc(&sampler->no_address);
		return;
	}
	sample = tmprof_ring_reserve(&sampler->ring);
	if (!sample)
		return;
	*sample = (struct raw_sample){
		.time_ns = ktime_get_mono_fast_ns(),
		.ip = regs ? instruction_pointer(regs) : 0,
		.address = data->addr,
		.physical_address = data->sample_flags & PERF_SAMPLE_PHYS_ADDR ? data->phys_addr
									       : TMPROF_UNKNOWN,
		.data_source = data->sample_flags & PERF_SAMPLE_DATA_SRC ? data->data_src.val : 0,
		.pid = (unsigned long)task_tgid(current),
		.tgid = task_tgid_nr(current),
		.tid = task_pid_nr(current),
	};
	tmprof_ring_commit(&sampler->ring);
	if (!READ_ONCE(sampler->waking) &&
	    sampler->ring.head - READ_ONCE(sampler->ring.tail) >= sampler->wake_at) {
		WRITE_ONCE(sampler->waking, true);
		irq_work_queue(&sampler->wake);
	}
}

static void *make_context(struct tmprof_cpu_events *events, unsigned int cpu)
{
	struct tmprof_sampler *sampler = container_of(events, struct tmprof_sampler, events);
	u32 samples = sampler->session->params.ring_samples;
	struct cpu_sampler *own = sampler->cpu[cpu];

	if (own)
		return own;
	own = tmprof_allocate(struct_size(own, records, samples), cpu_to_node(cpu));
	if (IS_ERR(own))
		return own;
	own->session = sampler->session;
	own->wake = IRQ_WORK_INIT(wake_worker);
	own->wake_at = samples / 4;
	tmprof_ring_init(&own->ring, own->records, sizeof(own->records[0]), samples);
	/* Seen by fold() only when it is whole. */
	smp_store_release(&sampler->cpu[cpu], own);
	return own;
}

static void free_sampler(struct tmprof_sampler *sampler)
{
	unsigned int cpu;

	for (cpu = 0; cpu < nr_cpu_ids; cpu++) {
		if (sampler->cpu[cpu])
			irq_work_sync(&sampler->cpu[cpu]->wake);
		tmprof_release(sampler->cpu[cpu]);
	}
	tmprof_release(sampler->log);
	tmprof_release(sampler);
}

static void note_page(struct tmprof_walk *walk, const struct tmprof_block *block)
{
	struct folding *walked = container_of(walk, struct tmprof_sampler, walk)->walked;
	unsigned int unit = find_first_bit(block->present, block->units);

	walked->mapped = true;
	walked->found.vpn = block->vpn + unit;
	walked->found.span = tmprof_span_of(block->span_pages);
	walked->found.node = block->node[unit];
	if (walked->sample.physical_address == TMPROF_UNKNOWN)
		walked->sample.physical_address = (block->frame[unit] << PAGE_SHIFT) +
						  walked->sample.address -
						  (walked->found.vpn << PAGE_SHIFT);
}

/* An empty log of `capacity` takes the place of the one there is. `samples`: NULL for none. */
static void replace_log(struct tmprof_session *session, struct tmprof_sample *samples, u32 capacity)
{
	struct tmprof_sample_log *log = &session->log;
	struct tmprof_sample *dropped;

	mutex_lock(&session->counters);
	dropped = log->samples;
	log->overwritten += log->end - log->start;
	log->start = 0;
	log->end = 0;
	log->capacity = capacity;
	log->samples = samples;
	mutex_unlock(&session->counters);
	tmprof_release(dropped);
}

void tmprof_sampler_drop_log(struct tmprof_session *session)
{
	replace_log(session, NULL, 0);
}

int tmprof_sampler_prepare(struct tmprof_session *session)
{
	const struct tmprof_params *params = &session->params;
	struct tmprof_sampler *sampler;
	int error;

	if (!(params->sample_event.flags & TMPROF_EVENT_PRESENT))
		return -ENXIO;
	sampler = tmprof_allocate(struct_size(sampler, cpu, nr_cpu_ids), NUMA_NO_NODE);
	if (IS_ERR(sampler))
		return PTR_ERR(sampler);
	sampler->session = session;
	sampler->walk.flags = TMPROF_WALK_ALL_NODES | TMPROF_WALK_FRAMES;
	sampler->walk.emit = note_page;
	if (params->log_samples) {
		sampler->log = tmprof_allocate_array(params->log_samples, sizeof(*sampler->log),
						     NUMA_NO_NODE);
		error = PTR_ERR_OR_ZERO(sampler->log);
		if (error)
			goto free;
	}
	sampler->events.attr = tmprof_event_attr(&params->sample_event);
	sampler->events.attr.sample_period = params->sample_period;
	/* Without a wakeup per event, Intel's PMU gathers PEBS records in its buffer. All but the
	 * last of them then go past the handler to perf's own ring, and this event has none
	 * (arch/x86/events/intel: intel_pmu_hw_config(), __intel_pmu_pebs_event()). */
	sampler->events.attr.wakeup_events = 1;
	sampler->events.attr.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_ADDR;
	if (params->sample_event.flags & TMPROF_EVENT_PHYS_ADDR)
		sampler->events.attr.sample_type |= PERF_SAMPLE_PHYS_ADDR;
	if (params->sample_event.flags & TMPROF_EVENT_DATA_SRC)
		sampler->events.attr.sample_type |= PERF_SAMPLE_DATA_SRC;
	sampler->events.handler = overflow;
	sampler->events.context = make_context;
	error = tmprof_cpu_events_open(&sampler->events);
	if (error)
		goto free;
	session->sampler = sampler;
	return 0;
free:
	free_sampler(sampler);
	return error;
}

void tmprof_sampler_begin(struct tmprof_session *session)
{
	struct tmprof_sample *log = session->sampler->log;

	session->sampler->log = NULL;
	replace_log(session, log, log ? session->params.log_samples : 0);
}

void tmprof_sampler_switch(struct tmprof_session *session)
{
	if (session->sampler)
		tmprof_cpu_events_enable(&session->sampler->events,
					 tmprof_session_active(session, TMPROF_SAMPLER));
}

/* True if the sample counts; otherwise the reason is added to the tallies. */
static bool counts(const struct tmprof_session *session, const struct raw_sample *sample,
		   struct tmprof_stats *tally)
{
	u32 flags = session->params.sample_event.flags;
	enum tmprof_data_source source;

	if (!(flags & TMPROF_EVENT_DATA_SRC))
		return true;
	source = tmprof_decode_data_source(sample->data_source);
	if (tmprof_beyond_llc(source, flags & TMPROF_EVENT_ONLY_MISSES))
		return true;
	switch (source) {
	case TMPROF_SOURCE_NOT_DEMAND:
		tally->samples_not_demand++;
		break;
	case TMPROF_SOURCE_UNKNOWN:
		tally->samples_unknown_source++;
		break;
	default:
		tally->samples_near++;
		break;
	}
	return false;
}

/* Under counters. */
static void log_sample(struct tmprof_sample_log *log, const struct raw_sample *sample,
		       u32 target_id, unsigned int cpu)
{
	if (!log->samples)
		return;
	if (log->end - log->start == log->capacity) {
		log->start++;
		log->overwritten++;
	}
	log->samples[log->end++ % log->capacity] = (struct tmprof_sample){
		.time_ns = sample->time_ns,
		.ip = sample->ip,
		.address = sample->address,
		.physical_address = sample->physical_address,
		.data_source = sample->data_source,
		.pid = sample->tgid,
		.tid = sample->tid,
		.cpu = cpu,
		.target_id = target_id,
	};
}

static u32 take_samples(struct cpu_sampler *own, struct folding *batch, u32 limit)
{
	const struct raw_sample *sample;
	u32 count = 0;

	while (count < limit && (sample = tmprof_ring_peek(&own->ring))) {
		batch[count++].sample = *sample;
		tmprof_ring_take(&own->ring);
	}
	return count;
}

/* Under targets. A removed target's struct pid may be a later process's, with another number. */
static struct tmprof_target *target_of(struct tmprof_session *session,
				       const struct raw_sample *sample)
{
	struct tmprof_target *target = xa_load(&session->by_pid, sample->pid);

	return target && pid_nr(target->pid) == sample->tgid ? target : NULL;
}

static bool of_one_process(const struct raw_sample *a, const struct raw_sample *b)
{
	return a->pid == b->pid && a->tgid == b->tgid;
}

static void find_targets(struct tmprof_session *session, struct folding *batch, u32 count)
{
	u32 i;

	mutex_lock(&session->targets);
	for (i = 0; i < count; i++) {
		/* A CPU's samples come in runs of one process. */
		if (i > 0 && of_one_process(&batch[i].sample, &batch[i - 1].sample))
			batch[i].target = batch[i - 1].target;
		else
			batch[i].target = target_of(session, &batch[i].sample);
		if (batch[i].target)
			kref_get(&batch[i].target->ref);
	}
	mutex_unlock(&session->targets);
}

static void judge(const struct tmprof_session *session, struct folding *batch, u32 count,
		  struct tmprof_stats *tally)
{
	u32 i;

	for (i = 0; i < count; i++) {
		bool store = tmprof_data_src_is_store(batch[i].sample.data_source);

		batch[i].counts = false;
		if (!batch[i].target) {
			tally->samples_foreign++;
			continue;
		}
		batch[i].counts = counts(session, &batch[i].sample, tally);
		batch[i].walked = false;
		batch[i].mapped = false;
		batch[i].found = (struct tmprof_observation){
			.vpn = batch[i].sample.address >> PAGE_SHIFT,
			.load_samples = !store,
			.store_samples = store,
			.node = TMPROF_NODE_UNKNOWN,
			.span = TMPROF_SPAN_4K,
		};
	}
}

/* Looks up the pages now mapped at the addresses of one target's samples. If there is no page, or
 * the lock is busy, the base page counts with its node unknown. */
static void resolve_run(struct tmprof_sampler *sampler, struct folding *run, u32 count)
{
	struct mm_struct *mm;
	u32 address_space, i;
	u64 locked_ns;

	mm = tmprof_target_mm(run->target, &address_space);
	if (!mm)
		return;
	if (!mmap_read_trylock(mm)) {
		tmprof_count_busy(sampler->session);
		goto put;
	}
	locked_ns = ktime_get_ns();
	for (i = 0; i < count; i++) {
		unsigned long page = run[i].sample.address & PAGE_MASK;

		sampler->walked = &run[i];
		if (!run[i].counts)
			continue;
		run[i].walked = true;
		tmprof_walk(&sampler->walk, mm, page, page + PAGE_SIZE, LONG_MAX);
	}
	mmap_read_unlock(mm);
	tmprof_count_lock(sampler->session, ktime_get_ns() - locked_ns);
put:
	tmprof_target_mm_put(mm);
}

static void resolve(struct tmprof_sampler *sampler, u32 count)
{
	struct folding *batch = sampler->batch;
	u32 first, end;

	for (first = 0; first < count; first = end) {
		bool any = batch[first].counts;

		for (end = first + 1; end < count && batch[end].target == batch[first].target;
		     end++)
			any |= batch[end].counts;
		if (any)
			resolve_run(sampler, &batch[first], end - first);
	}
}

static void count_samples(struct tmprof_sampler *sampler, u32 count, unsigned int cpu,
			  struct tmprof_stats *tally)
{
	u32 i;

	mutex_lock(&sampler->session->counters);
	for (i = 0; i < count; i++) {
		const struct folding *folding = &sampler->batch[i];
		struct tmprof_target *target = folding->target;

		if (!target)
			continue;
		log_sample(&sampler->session->log, &folding->sample, target->id, cpu);
		if (!folding->counts)
			continue;
		tally->samples_unresolved += !folding->walked;
		tally->samples_unmapped += folding->walked && !folding->mapped;
		if (target->removed)
			continue;
		tmprof_region_see_sample(&target->watch, folding->found.vpn);
		if (tmprof_store_add(&target->counts, &folding->found))
			tally->pages_refused++;
		else
			tally->samples_counted++;
	}
	mutex_unlock(&sampler->session->counters);
}

/* Returns how many there were. */
static u32 fold_batch(struct tmprof_sampler *sampler, struct cpu_sampler *own, unsigned int cpu,
		      u32 limit, struct tmprof_stats *tally)
{
	struct folding *batch = sampler->batch;
	u32 count = take_samples(own, batch, min_t(u32, limit, FOLD_BATCH)), i;

	if (!count)
		return 0;
	find_targets(sampler->session, batch, count);
	judge(sampler->session, batch, count, tally);
	resolve(sampler, count);
	count_samples(sampler, count, cpu, tally);
	for (i = 0; i < count; i++) {
		if (batch[i].target)
			tmprof_target_put(batch[i].target);
	}
	return count;
}

static void add_tally(struct tmprof_session *session, const struct tmprof_stats *tally)
{
	struct tmprof_stats *stats = &session->stats;

	spin_lock(&session->stats_lock);
	stats->samples_counted += tally->samples_counted;
	stats->samples_foreign += tally->samples_foreign;
	stats->samples_near += tally->samples_near;
	stats->samples_not_demand += tally->samples_not_demand;
	stats->samples_unknown_source += tally->samples_unknown_source;
	stats->samples_unmapped += tally->samples_unmapped;
	stats->samples_unresolved += tally->samples_unresolved;
	stats->samples_guest += tally->samples_guest;
	stats->samples_ring_full += tally->samples_ring_full;
	stats->samples_pmu_lost += tally->samples_pmu_lost;
	stats->samples_taken += tally->samples_taken;
	stats->samples_no_address += tally->samples_no_address;
	stats->samples_throttled += tally->samples_throttled;
	stats->pages_refused += tally->pages_refused;
	spin_unlock(&session->stats_lock);
}

static void fold_rings(struct tmprof_session *session)
{
	struct tmprof_sampler *sampler = session->sampler;
	struct tmprof_stats *tally = &session->tally;
	u64 lost = 0, taken = 0, guest = 0, no_address = 0, throttled = 0;
	u64 pmu_lost = tmprof_cpu_events_lost(&sampler->events);
	unsigned int cpu;

	memset(tally, 0, sizeof(*tally));
	for_each_possible_cpu (cpu) {
		struct cpu_sampler *own = smp_load_acquire(&sampler->cpu[cpu]);
		u32 left, folded;

		if (!own)
			continue;
		taken += atomic64_read(&own->taken);
		guest += atomic64_read(&own->guest);
		no_address += atomic64_read(&own->no_address);
		throttled += atomic64_read(&own->throttled);
		lost += tmprof_ring_lost(&own->ring);
		/* A sample that still sees it set may stay behind; the next one wakes. */
		WRITE_ONCE(own->waking, false);
		/* At most a ring's worth: a flood must not keep the worker here. */
		for (left = own->ring.capacity; left; left -= folded) {
			folded = fold_batch(sampler, own, cpu, left, tally);
			if (!folded)
				break;
			cond_resched();
		}
	}
	tally->samples_taken = taken - sampler->taken;
	tally->samples_guest = guest - sampler->guest;
	tally->samples_no_address = no_address - sampler->no_address;
	tally->samples_throttled = throttled - sampler->throttled;
	tally->samples_ring_full = lost - sampler->lost;
	tally->samples_pmu_lost = pmu_lost - sampler->pmu_lost;
	sampler->taken = taken;
	sampler->guest = guest;
	sampler->no_address = no_address;
	sampler->throttled = throttled;
	sampler->lost = lost;
	sampler->pmu_lost = pmu_lost;
	add_tally(session, tally);
}

void tmprof_sampler_fold(struct tmprof_session *session)
{
	if (!session->sampler)
		return;
	tmprof_cpu_events_follow(&session->sampler->events);
	fold_rings(session);
}

void tmprof_sampler_free(struct tmprof_session *session)
{
	struct tmprof_sampler *sampler = session->sampler;

	if (!sampler)
		return;
	tmprof_cpu_events_close(&sampler->events);
	fold_rings(session);
	session->sampler = NULL;
	spin_lock(&session->stats_lock);
	session->stats.cpus_failed += sampler->events.failed;
	spin_unlock(&session->stats_lock);
	free_sampler(sampler);
}

u64 tmprof_sampler_step(struct tmprof_session *session)
{
	if (!session->sampler)
		return U64_MAX;
	tmprof_sampler_fold(session);
	return ktime_get_ns() + FOLD_INTERVAL_NS;
}

void tmprof_sampler_stats(struct tmprof_session *session, struct tmprof_stats *stats)
{
	if (!session->sampler)
		return;
	stats->cpus_sampling = tmprof_cpu_events_count(&session->sampler->events);
	stats->cpus_failed += session->sampler->events.failed;
}

/* Takes up to LOG_BATCH samples. */
static int take_batch(struct tmprof_session *session, struct tmprof_sample *batch, u32 limit,
		      u64 *overwritten)
{
	struct tmprof_sample_log *log = &session->log;
	u32 count = 0;

	mutex_lock(&session->counters);
	if (!log->samples) {
		mutex_unlock(&session->counters);
		return -ENXIO;
	}
	while (count < limit && log->start < log->end)
		batch[count++] = log->samples[log->start++ % log->capacity];
	*overwritten = log->overwritten;
	mutex_unlock(&session->counters);
	return count;
}

int tmprof_sampler_read(struct tmprof_session *session, struct tmprof_read_samples *request)
{
	struct tmprof_sample __user *to = u64_to_user_ptr(request->samples);
	struct tmprof_sample batch[LOG_BATCH];
	bool with_frames = tmprof_may_see_frames();
	int count, i;

	request->count = 0;
	do {
		u32 limit = min_t(u32, request->capacity - request->count, LOG_BATCH);

		count = take_batch(session, batch, limit, &request->overwritten);
		if (count < 0)
			return count;
		for (i = 0; i < count && !with_frames; i++)
			batch[i].physical_address = TMPROF_UNKNOWN;
		if (copy_to_user(to + request->count, batch, count * sizeof(batch[0])))
			return -EFAULT;
		request->count += count;
	} while (count == LOG_BATCH && !fatal_signal_pending(current));
	return 0;
}
