// SPDX-License-Identifier: GPL-2.0-only

#include <linux/sched.h>

#include "driver/session.h"

void tmprof_session_wake_worker(struct tmprof_session *session)
{
	smp_store_mb(session->woken, true);
	wake_up_process(session->worker);
}

void tmprof_session_wake(struct tmprof_session *session)
{
	mutex_lock(&session->control);
	if (session->worker)
		tmprof_session_wake_worker(session);
	mutex_unlock(&session->control);
}

bool tmprof_session_active(const struct tmprof_session *session, enum tmprof_source source)
{
	return session->state[source] == TMPROF_RUNNING && session->gate_open[source];
}
