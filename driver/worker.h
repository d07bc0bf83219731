/* SPDX-License-Identifier: GPL-2.0-only */
/* The session's kernel thread: scans, folds samples, turns gates and ends epochs when due. */
#ifndef TMPROF_WORKER_H
#define TMPROF_WORKER_H

struct tmprof_session;

/* Under control. 0 or -errno. */
int tmprof_worker_start(struct tmprof_session *session);
/* Under control, or in release. Waits for the step under way. */
void tmprof_worker_stop(struct tmprof_session *session);

#endif /* TMPROF_WORKER_H */
