/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One open file of /dev/tmprof, and the locks of the whole driver.
 *
 * Lock order, outer first; no path takes an outer one while it holds an inner one:
 *   control     mutex: parameters, and which sources are started
 *   range       mutex: the buffers of SCAN_RANGE
 *   step        mutex: one step of the worker; CONTROL takes it, so that none straddles a change.
 *               perf's locks and the CPU hotplug lock nest in it, and nowhere else
 *   reader      mutex: the ended epoch and how far it was read
 *   counters    mutex: the running epoch's counters, and the memory that counters take
 *   targets     mutex: the table of targets, held for look-ups, never while one is walked
 *   mmap_lock   of a target, for reading, dropped between chunks; the worker only tries
 *   page-table locks, one at a time, with nothing allocated and no fault taken inside
 *   target.lock spinlock: what identifies the target's address space; task_lock() nests inside
 *   stats_lock  spinlock: totals and duty cycles
 * counters and targets are not taken with an mmap_lock held. User memory is touched with nothing
 * held but range or reader.
 *
 * Contexts: ioctl, read and poll run in the process that has the file; the worker is a kernel
 * thread that lives while a source is started. Both may sleep. Events overflow in NMIs. There a
 * sample goes into its CPU's ring, and an irq_work that wakes the worker may be queued; nothing
 * else is done.
 */
#ifndef TMPROF_SESSION_H
#define TMPROF_SESSION_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/xarray.h>

#include "driver/core/counter_store.h"
#include "driver/core/ladder.h"
#include "driver/core/memory.h"
#include "driver/uapi/tmprof.h"

struct dentry;
struct mem_cgroup;
struct task_struct;
struct tmprof_gate_counter;
struct tmprof_range_buffers;
struct tmprof_region_buffers;
struct tmprof_sampler;
struct tmprof_scan_buffers;
struct tmprof_target;
struct tmprof_walk_counts;

enum tmprof_run_state {
	TMPROF_STOPPED = 0,
	TMPROF_RUNNING,
	TMPROF_PAUSED,
};

/* Under stats_lock. */
struct tmprof_duty {
	u64 changed_ns; /* up to here the times are summed */
	bool started;
	bool active;
};

/* Handed to a reader at a time; with the session, as they would not fit a stack. */
#define TMPROF_BATCH_RECORDS 64

/* The ended epoch. Under reader. */
struct tmprof_ended {
	struct tmprof_epoch header;
	bool met;		  /* a read() or GET_EPOCH has seen it */
	bool news;		  /* not met or not read to its end; written under reader */
	bool reading;		  /* read() gave records, and has not yet said that they end */
	bool end_due;		  /* `reading` was true when the next epoch took its place */
	struct list_head pending; /* targets with records, ascending by id, each a reference */
	u64 next_vpn;		  /* address of the first of them */
	struct tmprof_page pages[TMPROF_BATCH_RECORDS];
	struct tmprof_page_record records[TMPROF_BATCH_RECORDS];
};

/* Raw samples, those of the sampler's latest start. Under counters. */
struct tmprof_sample_log {
	u64 start;	 /* samples ever taken out of it, overwritten or dropped since then */
	u64 end;	 /* ever put into it */
	u64 overwritten; /* since the session began; dropped unread counts */
	u32 capacity;
	struct tmprof_sample *samples; /* NULL: none is kept */
};

/* Regions of aggregations that have ended, since the scan's latest start. Under counters. */
struct tmprof_region_log {
	u64 start; /* counters like those of tmprof_sample_log */
	u64 end;
	u64 overwritten;
	u32 capacity;
	struct tmprof_region_record *records; /* NULL: none is kept */
};

struct tmprof_session {
	u32 number; /* names its folder in debugfs */

	struct mutex control;
	struct tmprof_params params; /* changes only while nothing is started */
	enum tmprof_run_state state[TMPROF_SOURCE_COUNT];
	struct task_struct *worker; /* NULL: nothing is started */
	bool woken;		    /* since its latest step began */

	struct mutex range;
	struct tmprof_range_buffers *range_buffers; /* NULL until the first SCAN_RANGE */

	struct mutex step;
	struct tmprof_scan_buffers *scan_buffers;     /* while the full scan is started */
	struct tmprof_region_buffers *region_buffers; /* while the scan by regions is */
	struct tmprof_budget scan_budget;
	u64 scan_budget_at_ns;
	u32 scan_turn;	/* the target that had the latest turn */
	bool scan_held; /* it was not active at the latest step */
	u64 next_epoch_ns;
	bool gate_open[TMPROF_SOURCE_COUNT];
	struct tmprof_gate_counter *gate_counter[TMPROF_SOURCE_COUNT]; /* NULL: not counted */
	struct tmprof_sampler *sampler;				       /* NULL: not started */
	struct tmprof_stats tally; /* counts of one fold: too large for a stack */

	struct mutex reader;
	struct tmprof_ended ended;
	wait_queue_head_t readable;

	struct mutex counters;
	struct tmprof_memory memory;
	struct mem_cgroup *memcg; /* that pays for it; NULL: none */
	struct tmprof_sample_log log;
	struct tmprof_region_log region_log;
	u64 epoch_start_ns;
	struct tmprof_stats epoch_start; /* the totals then */
	bool pass_cut;			 /* a pass was under way when the running epoch began */

	struct mutex targets;
	struct xarray by_id;  /* struct tmprof_target, holds a reference */
	struct xarray by_pid; /* key: the address of target.pid; no reference */
	u32 target_count;
	u32 last_target_id;

	spinlock_t stats_lock;
	struct tmprof_stats stats;
	u64 lock_holds[TMPROF_HOLD_BUCKETS];
	struct tmprof_duty duty[TMPROF_SOURCE_COUNT];

	struct dentry *debug_folder;
};

/* Has the worker, if there is one, see what has changed. Process context, nothing held. */
void tmprof_session_wake(struct tmprof_session *session);

/* Call from any context but NMI; the worker must not be stopped meanwhile. */
void tmprof_session_wake_worker(struct tmprof_session *session);

/* True if the worker should do a source's work now: running, and its gate open. Call with step
 * held. */
bool tmprof_session_active(const struct tmprof_session *session, enum tmprof_source source);

#endif /* TMPROF_SESSION_H */
