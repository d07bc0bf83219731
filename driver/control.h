/* SPDX-License-Identifier: GPL-2.0-only */
/* The life of a session: it is opened, set up, started, stopped and closed. */
#ifndef TMPROF_CONTROL_H
#define TMPROF_CONTROL_H

#include "driver/uapi/tmprof.h"

struct tmprof_session;

/* ERR_PTR: -ENOMEM; -EUSERS: max_sessions are open. */
struct tmprof_session *tmprof_session_create(void);

/* Process context; nothing but the session's own worker uses it any more. */
void tmprof_session_destroy(struct tmprof_session *session);

/* The ioctls of the same names; requests are in kernel memory, their heads checked. 0 or -errno. */
int tmprof_session_set_params(struct tmprof_session *session, const struct tmprof_params *params);
void tmprof_session_get_params(struct tmprof_session *session, struct tmprof_params *params);
int tmprof_session_control(struct tmprof_session *session, const struct tmprof_control *request);

#endif /* TMPROF_CONTROL_H */
