/* SPDX-License-Identifier: GPL-2.0-only */
/* Ending epochs, and handing out the records of the one that has ended. */
#ifndef TMPROF_EPOCH_H
#define TMPROF_EPOCH_H

#include <linux/fs.h>
#include <linux/poll.h>
#include <linux/types.h>

#include "driver/uapi/tmprof.h"

struct tmprof_session;

/* The ioctls of the same names. 0 or -errno. */
int tmprof_epoch_end(struct tmprof_session *session, struct tmprof_epoch *request);
int tmprof_epoch_get(struct tmprof_session *session, struct tmprof_epoch *request);

/* Worker, under step: ends the epoch if its time is up. Returns when to come again. */
u64 tmprof_epoch_step(struct tmprof_session *session);

ssize_t tmprof_epoch_read(struct tmprof_session *session, char __user *to, size_t bytes);
__poll_t tmprof_epoch_poll(struct tmprof_session *session, struct file *file, poll_table *wait);

/* Frees the records of the ended epoch. */
void tmprof_epoch_discard(struct tmprof_session *session);

#endif /* TMPROF_EPOCH_H */
