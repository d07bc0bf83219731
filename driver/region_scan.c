// SPDX-License-Identifier: GPL-2.0-only
/*
 * A step of a target clears one page of each region and reads them a monitoring interval later.
 * Then the next step begins, if the budgets allow. Clearing and reading are two passes, because
 * regions within one huge page share a bit: all are read before any is cleared anew. TLBs are not
 * flushed.
 *
 * A page of a mapping that is not present counts as looked at and not accessed, so a region's
 * figures cover all of its mapped pages. Holes between mappings are not looked at. Pages that the
 * walk cannot judge do not count either: device memory, page tables that processes share, the zero
 * page, and tables that keep changing. Time at risk is gathered in wall time, and becomes the
 * target's CPU time at the end of the aggregation. The scheduler updates CPU time by ticks only,
 * and a monitoring interval may have none.
 */

#include <linux/err.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "driver/allocation.h"
#include "driver/compat/compat.h"
#include "driver/page_walk.h"
#include "driver/region_scan.h"
#include "driver/region_watch.h"
#include "driver/session.h"
#include "driver/stats.h"
#include "driver/target.h"

#define MAPPINGS_PER_HOLD 1024
/* Pages picked, in vain, before a region is taken to have no mapping in this step. */
#define PICKS_FOR_A_MAPPING 8
/* See abit_scan.c. */
#define BUSY_RETRY_NS 100000
/* A target that has not run is looked up so often. */
#define IDLE_WAIT_NS	  (10 * NSEC_PER_MSEC)
#define NO_MEMORY_WAIT_NS NSEC_PER_SEC
/* Longest wait between two readings of the CPU time that a target has earned for clears. The budget
 * holds at most that much, and owes at most MOST_DEBT_NS of the target's CPU time. */
#define LONGEST_EARN_WAIT_NS (100 * NSEC_PER_MSEC)
#define MOST_DEBT_NS	     (10 * (s64)NSEC_PER_SEC)
#define READ_BATCH	     16

struct tmprof_region_buffers {
	struct tmprof_walk walk;
	/* Result of the latest look. */
	bool present;
	bool judged; /* false: the walk passed the page by, which says nothing of its accesses */
	bool accessed;
	u64 frame; /* with TMPROF_WALK_FRAMES: the first of what its entry maps */
	u32 span_pages;
	/* In this hold of the mmap lock. */
	u32 checked;
	u32 lost;

	u64 frames[]; /* frames of a page of each region */
};

static void note(struct tmprof_walk *walk, const struct tmprof_block *block)
{
	struct tmprof_region_buffers *buffers =
		container_of(walk, struct tmprof_region_buffers, walk);

	buffers->present = true;
	buffers->accessed = !bitmap_empty(block->accessed, block->units);
	buffers->span_pages = block->span_pages;
	if (walk->flags & TMPROF_WALK_FRAMES)
		buffers->frame = block->frame[find_first_bit(block->present, block->units)];
}

/* Looks at one page, for what TMPROF_WALK_* say. */
static void look(struct tmprof_region_buffers *buffers, struct mm_struct *mm, u64 vpn,
		 unsigned int flags)
{
	unsigned long address = vpn << PAGE_SHIFT;
	struct tmprof_walk_counts *counts = &buffers->walk.counts;
	u64 passed_by = counts->skipped + counts->races;

	buffers->walk.flags = flags;
	buffers->present = false;
	tmprof_walk(&buffers->walk, mm, address, address + PAGE_SIZE, LONG_MAX);
	buffers->judged = counts->skipped + counts->races == passed_by;
}

/* ---------------------------------------------------------------- the log */

/* An empty log takes the place of the one there is. `records`: NULL for none. */
static void replace_log(struct tmprof_session *session, struct tmprof_region_record *records,
			u32 capacity)
{
	struct tmprof_region_log *log = &session->region_log;
	struct tmprof_region_record *dropped;

	mutex_lock(&session->counters);
	dropped = log->records;
	log->overwritten += log->end - log->start;
	log->start = 0;
	log->end = 0;
	log->capacity = capacity;
	log->records = records;
	mutex_unlock(&session->counters);
	tmprof_release(dropped);
}

void tmprof_region_drop_log(struct tmprof_session *session)
{
	replace_log(session, NULL, 0);
}

/* Under counters. */
static void log_record(struct tmprof_region_log *log, const struct tmprof_region_record *record)
{
	if (!log->records)
		return;
	if (log->end - log->start == log->capacity) {
		log->start++;
		log->overwritten++;
	}
	log->records[log->end++ % log->capacity] = *record;
}

static int take_batch(struct tmprof_session *session, struct tmprof_region_record *batch, u32 limit,
		      u64 *overwritten)
{
	struct tmprof_region_log *log = &session->region_log;
	u32 count = 0;

	mutex_lock(&session->counters);
	if (!log->records) {
		mutex_unlock(&session->counters);
		return -ENXIO;
	}
	while (count < limit && log->start < log->end)
		batch[count++] = log->records[log->start++ % log->capacity];
	*overwritten = log->overwritten;
	mutex_unlock(&session->counters);
	return count;
}

int tmprof_region_read(struct tmprof_session *session, struct tmprof_read_regions *request)
{
	struct tmprof_region_record __user *to = u64_to_user_ptr(request->regions);
	struct tmprof_region_record batch[READ_BATCH];
	bool with_frames = tmprof_may_see_frames();
	int count, i;

	request->count = 0;
	do {
		u32 limit = min_t(u32, request->capacity - request->count, READ_BATCH);

		count = take_batch(session, batch, limit, &request->overwritten);
		if (count < 0)
			return count;
		for (i = 0; i < count && !with_frames; i++)
			batch[i].frame = TMPROF_UNKNOWN;
		if (copy_to_user(to + request->count, batch, count * sizeof(batch[0])))
			return -EFAULT;
		request->count += count;
	} while (count == READ_BATCH && !fatal_signal_pending(current));
	return 0;
}

/* ---------------------------------------------------------------- start and end */

int tmprof_region_prepare(struct tmprof_session *session)
{
	u32 capacity = session->params.region_log;
	struct tmprof_region_record *records = NULL;
	struct tmprof_region_buffers *buffers;

	buffers = tmprof_allocate(struct_size(buffers, frames, session->params.regions.max_regions),
				  NUMA_NO_NODE);
	if (IS_ERR(buffers))
		return PTR_ERR(buffers);
	if (capacity) {
		records = tmprof_allocate_array(capacity, sizeof(*records), NUMA_NO_NODE);
		if (IS_ERR(records)) {
			tmprof_release(buffers);
			return PTR_ERR(records);
		}
	}
	buffers->walk.emit = note;
	session->region_buffers = buffers;
	replace_log(session, records, capacity);
	return 0;
}

void tmprof_region_free(struct tmprof_session *session)
{
	struct tmprof_target *target;
	unsigned long index;

	if (!session->region_buffers)
		return;
	tmprof_release(session->region_buffers);
	session->region_buffers = NULL;
	mutex_lock(&session->targets);
	xa_for_each (&session->by_id, index, target)
		tmprof_region_forget(&target->watch);
	mutex_unlock(&session->targets);
}

/* ---------------------------------------------------------------- the address space */

static bool is_observable(const struct vm_area_struct *vma)
{
	return vma->vm_flags & (VM_READ | VM_WRITE | VM_EXEC) && tmprof_is_walked(vma);
}

/* Picks a random page of the region that lies in a mapping to observe, if a few tries find one.
 * Holes tell nothing, and must not dilute the figures of the mapped pages. Call with the mmap lock
 * held for reading. */
static bool pick_mapped(struct mm_struct *mm, struct tmprof_region *region,
			const struct tmprof_random *random, u64 *vpn)
{
	int tries;

	for (tries = 0; tries < PICKS_FOR_A_MAPPING; tries++) {
		struct vm_area_struct *vma;

		*vpn = tmprof_region_pick(region, random);
		vma = find_vma(mm, *vpn << PAGE_SHIFT);
		if (vma && vma->vm_start <= *vpn << PAGE_SHIFT && is_observable(vma))
			return true;
	}
	region->sampled = TMPROF_REGION_NO_PAGE;
	return false;
}

/* Adds the mappings from `start` on, joined where they touch, until MAPPINGS_PER_HOLD were met or
 * there is no more room. Those that the walk passes by go to `unseen`. Returns where to go on; 0:
 * those were all. */
static unsigned long add_mappings(struct mm_struct *mm, unsigned long start,
				  struct tmprof_area *mappings, size_t capacity, size_t *count,
				  struct tmprof_region_unseen *unseen)
{
	unsigned int met;

	for (met = 0; met < MAPPINGS_PER_HOLD; met++) {
		struct vm_area_struct *vma = find_vma(mm, start);
		u64 first, end;

		if (!vma || vma->vm_start >= TASK_SIZE_MAX)
			return 0;
		start = vma->vm_end;
		first = vma->vm_start >> PAGE_SHIFT;
		end = vma->vm_end >> PAGE_SHIFT;
		if (!tmprof_is_walked(vma))
			tmprof_region_leave_out(unseen, first, end);
		if (!is_observable(vma))
			continue;
		if (*count && mappings[*count - 1].end == first) {
			mappings[*count - 1].end = end;
			continue;
		}
		if (*count == capacity)
			return 0;
		mappings[(*count)++] = (struct tmprof_area){.start = first, .end = end};
	}
	return start;
}

/* Finds the areas of the address space, without its largest gaps, and returns their number. Sets
 * watch->unseen. 0: it has no mappings. -EBUSY: a writer holds the mmap lock. -EDQUOT or -ENOMEM:
 * there is no memory for a list of the mappings. */
static int find_areas(struct tmprof_session *session, struct tmprof_region_watch *watch,
		      struct mm_struct *mm, struct tmprof_area *areas)
{
	size_t capacity = (size_t)READ_ONCE(mm->map_count) + MAPPINGS_PER_HOLD, count = 0;
	struct tmprof_region_unseen unseen = {};
	struct tmprof_area *mappings;
	unsigned long at = 0;
	int found = -EBUSY;

	mappings = tmprof_allocate_array(capacity, sizeof(*mappings), NUMA_NO_NODE);
	if (IS_ERR(mappings))
		return PTR_ERR(mappings);
	do {
		u64 locked_ns;

		if (!mmap_read_trylock(mm)) {
			tmprof_count_busy(session);
			goto out;
		}
		locked_ns = ktime_get_ns();
		at = add_mappings(mm, at, mappings, capacity, &count, &unseen);
		mmap_read_unlock(mm);
		tmprof_count_lock(session, ktime_get_ns() - locked_ns);
		cond_resched();
	} while (at);
	found = tmprof_region_areas(mappings, count, areas);
	watch->unseen = unseen;
out:
	tmprof_release(mappings);
	return found;
}

/* ---------------------------------------------------------------- an aggregation */

static __u64 next_random(void *context)
{
	struct rnd_state *random = context;
	u64 high = prandom_u32_state(random);

	return high << 32 | prandom_u32_state(random);
}

/* Adds up the aggregation's wall time so far, and the target's CPU time in it. */
static void sum_took(struct tmprof_region_watch *watch, u64 now_ns, u64 cpu_ns)
{
	if (watch->started_ns) {
		watch->took_ns += now_ns - watch->started_ns;
		/* Threads that exit while they are summed up may be missed. */
		if (cpu_ns > watch->started_cpu_ns)
			watch->took_cpu_ns += cpu_ns - watch->started_cpu_ns;
	}
	watch->started_ns = now_ns;
	watch->started_cpu_ns = cpu_ns;
}

/* value * by / of, at most U64_MAX: dividing traps where a quotient does not fit. */
static u64 scaled(u64 value, u64 by, u64 of)
{
	if (by > of && value > U64_MAX / DIV_ROUND_UP_ULL(by, of))
		return U64_MAX;
	return mul_u64_u64_div_u64(value, by, of);
}

static void begin_aggregation(struct tmprof_region_watch *watch)
{
	watch->steps = 0;
	watch->took_ns = 0;
	watch->took_cpu_ns = 0;
}

/* Fills in the frames. They stay unknown if a writer holds the mmap lock. */
static void find_frames(struct tmprof_session *session, struct tmprof_region_watch *watch,
			struct mm_struct *mm)
{
	struct tmprof_random random = {.next = next_random, .context = &watch->random};
	struct tmprof_region_buffers *buffers = session->region_buffers;
	u32 i = 0, end;

	while (i < watch->set.count) {
		bool locked = mmap_read_trylock(mm);
		u64 locked_ns = ktime_get_ns();

		for (end = min(i + TMPROF_REGION_HOLD, watch->set.count); i < end; i++) {
			struct tmprof_region *region = &watch->set.regions[i];
			u64 vpn;

			buffers->present = false;
			if (locked && pick_mapped(mm, region, &random, &vpn))
				look(buffers, mm, vpn, TMPROF_WALK_FRAMES);
			region->sampled = TMPROF_REGION_NO_PAGE;
			buffers->frames[i] = buffers->present ? buffers->frame : TMPROF_UNKNOWN;
		}
		if (!locked) {
			tmprof_count_busy(session);
			continue;
		}
		mmap_read_unlock(mm);
		tmprof_count_lock(session, ktime_get_ns() - locked_ns);
		cond_resched();
	}
	memset(&buffers->walk.counts, 0, sizeof(buffers->walk.counts));
}

/* Parts that the unseen mappings cut the regions into. */
static u32 count_parts(const struct tmprof_region_watch *watch)
{
	struct tmprof_region part;
	u32 parts = 0, i;

	for (i = 0; i < watch->set.count; i++) {
		const struct tmprof_region *region = &watch->set.regions[i];
		u64 from;

		tmprof_region_rest(i);
		for (from = region->start; from < region->end; from = part.end, parts++)
			tmprof_region_part(region, &watch->unseen, from, &part);
	}
	return parts;
}

/* Under counters. */
static void emit_region(struct tmprof_session *session, const struct tmprof_target *target,
			u32 index, struct tmprof_region_record *record)
{
	const struct tmprof_region_watch *watch = &target->watch;
	const struct tmprof_region *region = &watch->set.regions[index];
	struct tmprof_region part;
	u64 from;

	for (from = region->start; from < region->end; from = part.end) {
		tmprof_region_part(region, &watch->unseen, from, &part);
		record->start_vpn = part.start;
		record->end_vpn = part.end;
		record->at_risk_ns = scaled(part.at_risk_ns, watch->took_cpu_ns, watch->took_ns);
		record->frame =
			part.looks ? session->region_buffers->frames[index] : TMPROF_UNKNOWN;
		record->looks = part.looks;
		record->references = part.references;
		log_record(&session->region_log, record);
	}
}

static void emit(struct tmprof_session *session, const struct tmprof_target *target, u64 now_ns)
{
	const struct tmprof_region_watch *watch = &target->watch;
	struct tmprof_region_record record = {
		.time_ns = now_ns,
		.target_id = target->id,
		.address_space = watch->address_space,
		.regions = count_parts(watch),
	};
	u32 i;

	mutex_lock(&session->counters);
	for (i = 0; i < watch->set.count && !target->removed; i++) {
		tmprof_region_rest(i);
		emit_region(session, target, i, &record);
	}
	mutex_unlock(&session->counters);
	spin_lock(&session->stats_lock);
	session->stats.region_aggregations++;
	spin_unlock(&session->stats_lock);
}

static void aggregate(struct tmprof_session *session, struct tmprof_target *target,
		      struct mm_struct *mm, u64 now_ns)
{
	struct tmprof_region_watch *watch = &target->watch;
	const struct tmprof_region_params *params = &session->params.regions;
	struct tmprof_random random = {.next = next_random, .context = &watch->random};
	struct tmprof_area areas[TMPROF_REGION_AREAS];
	__u64 sampled[TMPROF_REGION_SAMPLED];
	int area_count = 0;
	u32 sampled_count, i;

	/* Unset bits say nothing about a target that has not run. */
	if (!watch->took_cpu_ns) {
		tmprof_regions_reset(&watch->set);
		begin_aggregation(watch);
		return;
	}
	for (i = 0; i < watch->set.count; i++)
		watch->set.regions[i].count =
			tmprof_region_count_checks(&watch->set.regions[i], TMPROF_REGION_COUNT_MAX);
	tmprof_regions_conclude(&watch->set, params, watch->took_ns);
	find_frames(session, watch, mm);
	emit(session, target, now_ns);
	if (now_ns - watch->updated_ns >= params->update_ns) {
		area_count = find_areas(session, watch, mm, areas);
		/* If the areas could not be found, the next aggregation tries again. */
		if (area_count > 0)
			watch->updated_ns = now_ns;
	}
	sampled_count = tmprof_region_take_samples(&watch->samples, sampled);
	tmprof_regions_renew(&watch->set, area_count > 0 ? areas : NULL, area_count, sampled,
			     sampled_count, &random);
	begin_aggregation(watch);
}

/* ---------------------------------------------------------------- a step */

static void abandon_step(struct tmprof_session *session, struct tmprof_region_watch *watch)
{
	u32 lost = 0, i;

	for (i = 0; i < watch->set.count && watch->phase != TMPROF_REGIONS_IDLE; i++) {
		lost += watch->set.regions[i].sampled != TMPROF_REGION_NO_PAGE;
		watch->set.regions[i].sampled = TMPROF_REGION_NO_PAGE;
	}
	watch->phase = TMPROF_REGIONS_IDLE;
	watch->at = 0;
	spin_lock(&session->stats_lock);
	session->stats.region_checks_lost += lost;
	spin_unlock(&session->stats_lock);
}

void tmprof_region_hold(struct tmprof_session *session, struct tmprof_target *target)
{
	struct tmprof_region_watch *watch = &target->watch;

	abandon_step(session, watch);
	if (watch->started_ns)
		sum_took(watch, ktime_get_ns(), tmprof_target_cpu_ns(target));
	watch->started_ns = 0;
}

/* 0, or -errno of find_areas(). */
static int begin_regions(struct tmprof_session *session, struct tmprof_target *target,
			 struct mm_struct *mm, u64 now_ns)
{
	const struct tmprof_region_params *params = &session->params.regions;
	struct tmprof_region_watch *watch = &target->watch;
	struct tmprof_area areas[TMPROF_REGION_AREAS];
	const u32 capacity = tmprof_regions_capacity(params->max_regions);
	struct tmprof_region *regions;
	u64 *cleared_ns;
	u64 seed = session->params.region_seed;
	int found = find_areas(session, watch, mm, areas);

	if (found < 0)
		return found;
	regions = tmprof_allocate_array(capacity, sizeof(*regions), NUMA_NO_NODE);
	cleared_ns = tmprof_allocate_array(tmprof_region_holds(capacity), sizeof(*cleared_ns),
					   NUMA_NO_NODE);
	if (IS_ERR(regions) || IS_ERR(cleared_ns)) {
		tmprof_release(regions);
		tmprof_release(cleared_ns);
		return -ENOMEM;
	}
	watch->cleared_ns = cleared_ns;
	tmprof_regions_start(&watch->set, regions, params, areas, found);
	if (!seed)
		get_random_bytes(&seed, sizeof(seed));
	prandom_seed_state(&watch->random, seed);
	watch->updated_ns = now_ns;
	watch->earned_cpu_ns = tmprof_target_cpu_ns(target);
	watch->clears = (struct tmprof_budget){
		.share_ppm = TMPROF_PPM,
		.limit_ns = LONGEST_EARN_WAIT_NS,
		.floor_ns = -MOST_DEBT_NS,
		.balance_ns = LONGEST_EARN_WAIT_NS,
	};
	return 0;
}

/* 0: what the target has used of CPU time pays for another step's clears; else when to ask again.
 * A step may owe for some: which of its regions it clears is not to depend on that. */
static u64 clears_wait(const struct tmprof_session *session, struct tmprof_region_watch *watch,
		       u64 now_ns, u64 cpu_ns)
{
	s64 balance_ns;

	if (!session->params.region_clears)
		return 0;
	if (cpu_ns > watch->earned_cpu_ns)
		tmprof_budget_earn(&watch->clears, cpu_ns - watch->earned_cpu_ns);
	watch->earned_cpu_ns = cpu_ns;
	balance_ns = watch->clears.balance_ns;
	if (balance_ns > 0)
		return 0;
	return now_ns + clamp_t(u64, 1 - balance_ns, session->params.regions.monitoring_ns,
				LONGEST_EARN_WAIT_NS);
}

/* 0: a step has begun; else when to ask again. */
static u64 begin_step(struct tmprof_session *session, struct tmprof_target *target, u64 now_ns)
{
	struct tmprof_region_watch *watch = &target->watch;
	u64 cpu_ns = tmprof_target_cpu_ns(target), wait_ns;
	bool idle = cpu_ns == watch->cpu_ns && !tmprof_target_running(target);

	watch->cpu_ns = cpu_ns;
	if (idle) {
		tmprof_region_hold(session, target);
		return now_ns + IDLE_WAIT_NS;
	}
	if (!watch->started_ns) {
		watch->started_ns = now_ns;
		watch->started_cpu_ns = cpu_ns;
	}
	wait_ns = clears_wait(session, watch, now_ns, cpu_ns);
	if (wait_ns)
		return wait_ns;
	watch->phase = TMPROF_REGIONS_CLEARING;
	watch->at = 0;
	return 0;
}

static void clear_sampled(struct tmprof_session *session, struct tmprof_region_watch *watch,
			  struct tmprof_region *region, struct mm_struct *mm)
{
	struct tmprof_random random = {.next = next_random, .context = &watch->random};
	u64 vpn;

	if (!pick_mapped(mm, region, &random, &vpn))
		return;
	look(session->region_buffers, mm, vpn, TMPROF_WALK_CLEAR);
	if (session->region_buffers->present)
		return;
	region->sampled = TMPROF_REGION_NO_PAGE;
	if (!session->region_buffers->judged) {
		session->region_buffers->lost++;
		return;
	}
	region->looks++;
	region->at_risk_ns += session->params.regions.monitoring_ns;
	session->region_buffers->checked++;
}

static void read_sampled(struct tmprof_session *session, const struct tmprof_region_watch *watch,
			 struct tmprof_region *region, struct mm_struct *mm)
{
	struct tmprof_region_buffers *buffers = session->region_buffers;
	u64 exposure_ns;

	if (region->sampled == TMPROF_REGION_NO_PAGE)
		return;
	/* Between two reads of one hold, too, the CPU may have been another task's. */
	exposure_ns = tmprof_region_exposure(watch->cleared_ns, region - watch->set.regions,
					     ktime_get_ns());
	look(buffers, mm, region->start + region->sampled, 0);
	region->sampled = TMPROF_REGION_NO_PAGE;
	if (!buffers->present) {
		buffers->lost++;
		return;
	}
	buffers->checked++;
	region->looks++;
	region->references += buffers->accessed;
	region->at_risk_ns +=
		(buffers->accessed ? exposure_ns / 2 : exposure_ns) * buffers->span_pages;
}

/* Call with the mmap lock held for reading. */
static void look_at_some(struct tmprof_session *session, struct tmprof_region_watch *watch,
			 struct mm_struct *mm)
{
	u32 first = watch->at, end = min(first + TMPROF_REGION_HOLD, watch->set.count);

	for (; watch->at < end; watch->at++) {
		struct tmprof_region *region = &watch->set.regions[watch->at];

		if (watch->phase == TMPROF_REGIONS_CLEARING)
			clear_sampled(session, watch, region, mm);
		else
			read_sampled(session, watch, region, mm);
	}
	if (watch->phase == TMPROF_REGIONS_CLEARING)
		tmprof_region_cleared(watch->cleared_ns, first, ktime_get_ns());
}

static void count_looks(struct tmprof_session *session, struct tmprof_region_watch *watch,
			u64 held_ns)
{
	struct tmprof_region_buffers *buffers = session->region_buffers;

	tmprof_count_walk(session, &buffers->walk.counts);
	tmprof_count_lock(session, held_ns);
	spin_lock(&session->stats_lock);
	session->stats.region_checks += buffers->checked;
	session->stats.region_checks_lost += buffers->lost;
	spin_unlock(&session->stats_lock);
	if (session->params.region_clears)
		tmprof_budget_charge(&watch->clears, buffers->walk.counts.cleared * NSEC_PER_SEC /
							     session->params.region_clears);
	memset(&buffers->walk.counts, 0, sizeof(buffers->walk.counts));
	buffers->checked = 0;
	buffers->lost = 0;
}

static void end_step(struct tmprof_session *session, struct tmprof_target *target,
		     struct mm_struct *mm, u64 now_ns)
{
	struct tmprof_region_watch *watch = &target->watch;

	watch->phase = TMPROF_REGIONS_IDLE;
	watch->steps++;
	spin_lock(&session->stats_lock);
	session->stats.region_steps++;
	spin_unlock(&session->stats_lock);
	if (watch->steps < TMPROF_REGION_CHECKS_MIN)
		return;
	sum_took(watch, now_ns, tmprof_target_cpu_ns(target));
	if (watch->took_ns >= session->params.regions.aggregation_ns)
		aggregate(session, target, mm, now_ns);
}

/* A hold of the mmap lock. Returns when the next is wanted. */
static u64 go_on(struct tmprof_session *session, struct tmprof_target *target, struct mm_struct *mm,
		 u64 now_ns)
{
	struct tmprof_region_watch *watch = &target->watch;
	u64 locked_ns;

	if (!mmap_read_trylock(mm)) {
		tmprof_count_busy(session);
		return now_ns + BUSY_RETRY_NS;
	}
	locked_ns = ktime_get_ns();
	look_at_some(session, watch, mm);
	mmap_read_unlock(mm);
	count_looks(session, watch, ktime_get_ns() - locked_ns);
	if (watch->at < watch->set.count)
		return now_ns;
	watch->at = 0;
	if (watch->phase == TMPROF_REGIONS_CLEARING) {
		watch->phase = TMPROF_REGIONS_READING;
		return tmprof_region_read_due(watch->cleared_ns, watch->set.count,
					      session->params.regions.monitoring_ns);
	}
	end_step(session, target, mm, ktime_get_ns());
	return now_ns;
}

static u64 take_turn(struct tmprof_session *session, struct tmprof_target *target,
		     struct mm_struct *mm, u64 now_ns)
{
	struct tmprof_region_watch *watch = &target->watch;
	u64 wait_ns;

	if (!watch->set.regions) {
		switch (begin_regions(session, target, mm, now_ns)) {
		case -EBUSY:
			return now_ns + BUSY_RETRY_NS;
		case -EDQUOT:
		case -ENOMEM:
			return now_ns + NO_MEMORY_WAIT_NS;
		}
	}
	if (!watch->set.count) {
		tmprof_region_forget(&target->watch);
		return now_ns + session->params.regions.update_ns;
	}
	if (watch->phase == TMPROF_REGIONS_IDLE) {
		wait_ns = begin_step(session, target, now_ns);
		if (wait_ns)
			return wait_ns;
	}
	return go_on(session, target, mm, now_ns);
}

/* It has exited, or executes another program. */
static void leave_program(struct tmprof_session *session, struct tmprof_target *target)
{
	abandon_step(session, &target->watch);
	tmprof_region_forget(&target->watch);
}

u64 tmprof_region_turn(struct tmprof_session *session, struct tmprof_target *target, u64 now_ns)
{
	u32 address_space;
	struct mm_struct *mm = tmprof_target_mm(target, &address_space);
	u64 next_ns;

	if (!mm) {
		leave_program(session, target);
		spin_lock(&session->stats_lock);
		session->stats.targets_gone++;
		spin_unlock(&session->stats_lock);
		return U64_MAX;
	}
	if (address_space != target->watch.address_space) {
		leave_program(session, target);
		target->watch.address_space = address_space;
	}
	if (target->watch.phase == TMPROF_REGIONS_IDLE &&
	    tmprof_target_shares_with(session, target, mm)) {
		/* The regions of the other target are those of this one. */
		leave_program(session, target);
		next_ns = now_ns + session->params.regions.update_ns;
	} else {
		next_ns = take_turn(session, target, mm, now_ns);
	}
	tmprof_target_mm_put(mm);
	return next_ns;
}
