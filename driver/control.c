// SPDX-License-Identifier: GPL-2.0-only

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/memcontrol.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "driver/allocation.h"
#include "driver/compat/compat.h"
#include "driver/control.h"
#include "driver/core/params_check.h"
#include "driver/epoch.h"
#include "driver/gate.h"
#include "driver/page_walk.h"
#include "driver/range_scan.h"
#include "driver/region_scan.h"
#include "driver/sampler.h"
#include "driver/scan_turns.h"
#include "driver/session.h"
#include "driver/stats.h"
#include "driver/stats_report.h"
#include "driver/target.h"
#include "driver/worker.h"

static unsigned int max_sessions = 64;
module_param(max_sessions, uint, 0644);
MODULE_PARM_DESC(max_sessions, "open files at a time");

static atomic_t last_session = ATOMIC_INIT(0);
static atomic_t open_sessions = ATOMIC_INIT(0);

static void *allocate_counters(void *context, size_t bytes)
{
	void *block;

	if (!tmprof_take_share(bytes))
		return NULL;
	block = kmalloc(bytes, TMPROF_GFP);
	if (!block)
		tmprof_return_share(bytes);
	return block;
}

static void release_counters(void *context, void *block, size_t bytes)
{
	kfree(block);
	tmprof_return_share(bytes);
	/* All counters of an epoch may be released one by one. */
	cond_resched();
}

struct tmprof_session *tmprof_session_create(void)
{
	struct tmprof_session *session;

	if (atomic_inc_return(&open_sessions) > READ_ONCE(max_sessions)) {
		atomic_dec(&open_sessions);
		return ERR_PTR(-EUSERS);
	}
	session = tmprof_allocate(sizeof(*session), NUMA_NO_NODE);
	if (IS_ERR(session)) {
		atomic_dec(&open_sessions);
		return session;
	}
	session->number = atomic_inc_return(&last_session);
	mutex_init(&session->control);
	mutex_init(&session->range);
	mutex_init(&session->step);
	mutex_init(&session->reader);
	mutex_init(&session->counters);
	mutex_init(&session->targets);
	spin_lock_init(&session->stats_lock);
	init_waitqueue_head(&session->readable);
	INIT_LIST_HEAD(&session->ended.pending);
	xa_init_flags(&session->by_id, XA_FLAGS_ACCOUNT);
	xa_init_flags(&session->by_pid, XA_FLAGS_ACCOUNT);
	tmprof_params_defaults(&session->params);
	session->params.memory_limit_bytes =
		min_t(u64, session->params.memory_limit_bytes, tmprof_most_memory());
	session->memory.allocate = allocate_counters;
	session->memory.release = release_counters;
	session->memory.limit_bytes = session->params.memory_limit_bytes;
	session->memcg = tmprof_memcg_of_current();
	session->epoch_start_ns = ktime_get_ns();
	tmprof_stats_init(session);
	tmprof_debug_add(session);
	return session;
}

static bool anything_started(const struct tmprof_session *session)
{
	enum tmprof_source source;

	for (source = 0; source < TMPROF_SOURCE_COUNT; source++) {
		if (session->state[source] != TMPROF_STOPPED)
			return true;
	}
	return false;
}

int tmprof_session_set_params(struct tmprof_session *session, const struct tmprof_params *params)
{
	int error = tmprof_params_check(params).error;

	if (error)
		return error;
	if (params->memory_limit_bytes > tmprof_most_memory())
		return -EDQUOT;
	if (params->flush_policy != TMPROF_FLUSH_NEVER && !tmprof_can_flush())
		return -EOPNOTSUPP;
	mutex_lock(&session->control);
	if (anything_started(session)) {
		error = -EBUSY;
	} else {
		session->params = *params;
		mutex_lock(&session->counters);
		session->memory.limit_bytes = params->memory_limit_bytes;
		mutex_unlock(&session->counters);
		tmprof_sampler_drop_log(session);
		tmprof_region_drop_log(session);
	}
	mutex_unlock(&session->control);
	return error;
}

void tmprof_session_get_params(struct tmprof_session *session, struct tmprof_params *params)
{
	mutex_lock(&session->control);
	*params = session->params;
	mutex_unlock(&session->control);
}

/* Checks that the command may come in the state `from`, and sets the state that it leads to. */
static int follow(enum tmprof_run_state from, u32 command, enum tmprof_run_state *to)
{
	if (command == TMPROF_START) {
		*to = TMPROF_RUNNING;
		return from == TMPROF_STOPPED ? 0 : -EALREADY;
	}
	if (from == TMPROF_STOPPED)
		return -ENODEV;
	switch (command) {
	case TMPROF_STOP:
		*to = TMPROF_STOPPED;
		return 0;
	case TMPROF_PAUSE:
		*to = TMPROF_PAUSED;
		return from == TMPROF_RUNNING ? 0 : -EALREADY;
	case TMPROF_RESUME:
		*to = TMPROF_RUNNING;
		return from == TMPROF_PAUSED ? 0 : -EALREADY;
	default:
		return -EINVAL;
	}
}

/* Acquires the resources that a source needs before its start. The worker may be at work for the
 * other source. */
static int acquire(struct tmprof_session *session, enum tmprof_source source)
{
	int error;

	mutex_lock(&session->step);
	error = source == TMPROF_ABIT ? tmprof_scan_prepare(session)
				      : tmprof_sampler_prepare(session);
	if (!error)
		error = tmprof_gate_prepare(session, source);
	mutex_unlock(&session->step);
	return error;
}

static void release(struct tmprof_session *session, enum tmprof_source source)
{
	mutex_lock(&session->step);
	if (source == TMPROF_ABIT)
		tmprof_scan_free(session);
	else
		tmprof_sampler_free(session);
	tmprof_gate_free(session, source);
	mutex_unlock(&session->step);
}

/* Under control. The worker outlives the sampler, whose interrupts wake it. */
static void release_all(struct tmprof_session *session, u32 mask)
{
	enum tmprof_source source;

	for (source = 0; source < TMPROF_SOURCE_COUNT; source++) {
		if (mask & 1U << source)
			release(session, source);
	}
}

/* Under control. Nothing is acquired that is not released again on the way out of a failure. */
static int acquire_all(struct tmprof_session *session, u32 mask)
{
	enum tmprof_source source;
	int error = 0;

	for (source = 0; source < TMPROF_SOURCE_COUNT && !error; source++) {
		if (mask & 1U << source)
			error = acquire(session, source);
	}
	if (!error && !session->worker)
		error = tmprof_worker_start(session);
	if (!error)
		return 0;
	release_all(session, mask);
	return error;
}

/* Under control. */
static int control(struct tmprof_session *session, u32 mask, u32 command)
{
	enum tmprof_run_state next[TMPROF_SOURCE_COUNT];
	enum tmprof_source source;
	int error;

	for (source = 0; source < TMPROF_SOURCE_COUNT; source++) {
		next[source] = session->state[source];
		if (!(mask & 1U << source))
			continue;
		error = follow(session->state[source], command, &next[source]);
		if (error)
			return error;
	}
	if (command == TMPROF_START) {
		error = acquire_all(session, mask);
		if (error)
			return error;
	}
	mutex_lock(&session->step);
	if (command == TMPROF_START && mask & TMPROF_MASK_SAMPLER)
		tmprof_sampler_begin(session);
	for (source = 0; source < TMPROF_SOURCE_COUNT; source++) {
		session->state[source] = next[source];
		tmprof_count_duty(session, source);
	}
	tmprof_sampler_switch(session);
	mutex_unlock(&session->step);
	if (command == TMPROF_STOP)
		release_all(session, mask);
	if (!anything_started(session))
		tmprof_worker_stop(session);
	else
		tmprof_session_wake_worker(session);
	return 0;
}

int tmprof_session_control(struct tmprof_session *session, const struct tmprof_control *request)
{
	int error;

	if (!request->sources || request->sources & ~TMPROF_MASK_ALL)
		return -EINVAL;
	if (request->command < TMPROF_START || request->command > TMPROF_RESUME)
		return -EINVAL;
	if (mutex_lock_killable(&session->control))
		return -EINTR;
	error = control(session, request->sources, request->command);
	mutex_unlock(&session->control);
	return error;
}

void tmprof_session_destroy(struct tmprof_session *session)
{
	tmprof_debug_remove(session);
	mutex_lock(&session->step);
	memset(session->state, 0, sizeof(session->state));
	mutex_unlock(&session->step);
	release_all(session, TMPROF_MASK_ALL);
	if (session->worker)
		tmprof_worker_stop(session);
	tmprof_epoch_discard(session);
	tmprof_targets_remove_all(session);
	tmprof_range_free(session);
	tmprof_sampler_drop_log(session);
	tmprof_region_drop_log(session);
	tmprof_memcg_put(session->memcg);
	mutex_destroy(&session->targets);
	mutex_destroy(&session->counters);
	mutex_destroy(&session->reader);
	mutex_destroy(&session->step);
	mutex_destroy(&session->range);
	mutex_destroy(&session->control);
	tmprof_release(session);
	atomic_dec(&open_sessions);
}
