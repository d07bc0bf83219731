// SPDX-License-Identifier: GPL-2.0-only

#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/sched.h>

#include "driver/compat/compat.h"
#include "driver/epoch.h"
#include "driver/gate.h"
#include "driver/sampler.h"
#include "driver/scan_turns.h"
#include "driver/session.h"
#include "driver/worker.h"

/* Wake-ups may come this much later, so that the timers of several sessions share interrupts: half
 * of the shortest wait that parameters may lead to. */
#define SLACK_NS 125000

/* One piece of all work that is due. Returns when to come again. */
static u64 step(struct tmprof_session *session)
{
	u64 next_ns = U64_MAX;

	mutex_lock(&session->step);
	/* First, as a source whose gate opens is at work at once. */
	next_ns = min(next_ns, tmprof_gate_step(session));
	next_ns = min(next_ns, tmprof_scan_step(session));
	next_ns = min(next_ns, tmprof_sampler_step(session));
	next_ns = min(next_ns, tmprof_epoch_step(session));
	mutex_unlock(&session->step);
	return next_ns;
}

static void wait_until(struct tmprof_session *session, u64 wake_ns)
{
	ktime_t when = ns_to_ktime(min_t(u64, wake_ns, KTIME_MAX));

	set_current_state(TASK_IDLE);
	if (!READ_ONCE(session->woken) && !kthread_should_stop())
		schedule_hrtimeout_range(&when, SLACK_NS, HRTIMER_MODE_ABS);
	__set_current_state(TASK_RUNNING);
}

static int work(void *argument)
{
	struct tmprof_session *session = argument;
	struct mem_cgroup *payer = tmprof_memcg_charge(session->memcg);

	while (!kthread_should_stop()) {
		u64 wake_ns;

		WRITE_ONCE(session->woken, false);
		smp_mb(); /* pairs with tmprof_session_wake_worker(): what was changed before is
			     seen */
		wake_ns = step(session);
		cond_resched();
		if (wake_ns > ktime_get_ns())
			wait_until(session, wake_ns);
	}
	tmprof_memcg_charge(payer);
	return 0;
}

int tmprof_worker_start(struct tmprof_session *session)
{
	struct task_struct *worker;

	session->next_epoch_ns = ktime_get_ns() + session->params.epoch_ns;
	worker = kthread_run(work, session, "tmprof/%u", session->number);
	if (IS_ERR(worker))
		return PTR_ERR(worker);
	session->worker = worker;
	return 0;
}

void tmprof_worker_stop(struct tmprof_session *session)
{
	kthread_stop(session->worker);
	session->worker = NULL;
}
