/* SPDX-License-Identifier: GPL-2.0-only */
/* The device file /dev/tmprof and its ioctls. */
#ifndef TMPROF_DEVICE_H
#define TMPROF_DEVICE_H

/* 0 or -errno. */
int tmprof_device_init(void);
void tmprof_device_exit(void);

#endif /* TMPROF_DEVICE_H */
