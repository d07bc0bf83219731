/* SPDX-License-Identifier: GPL-2.0-only */
/* SCAN_RANGE: the accessed bits of part of one target, on demand. */
#ifndef TMPROF_RANGE_SCAN_H
#define TMPROF_RANGE_SCAN_H

#include "driver/uapi/tmprof.h"

struct tmprof_session;

/* 64 MiB: at 0.4 ns to read a page's bit and 20 ns to clear it, well below a millisecond. */
#define TMPROF_MAX_SCAN_PAGES 16384U

/* The ioctl; `request` is in kernel memory and checked for its head and reserved fields only. */
int tmprof_range_scan(struct tmprof_session *session, struct tmprof_scan_range *request);

void tmprof_range_free(struct tmprof_session *session);

#endif /* TMPROF_RANGE_SCAN_H */
