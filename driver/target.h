/* SPDX-License-Identifier: GPL-2.0-only */
/* The processes that a session observes. */
#ifndef TMPROF_TARGET_H
#define TMPROF_TARGET_H

#include <linux/kref.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/uidgid.h>

#include "driver/core/counter_store.h"
#include "driver/region_watch.h"
#include "driver/uapi/tmprof.h"

/* Linux' default pid_max on 64 bits is 4 Mi; 4096 observed at a time are beyond any tree of
 * processes that the process filter lets through. */
#define TMPROF_MAX_TARGETS 4096

struct mm_struct;
struct pid;
struct tmprof_session;

/* One pass of the full scan, or the wait for the next. Used by the worker only, under
 * session->step. */
struct tmprof_pass {
	bool under_way;
	u32 address_space;
	u64 number; /* number of passes that have ended */
	u64 due_ns; /* when the next begins */
	u64 present_pages;
	bool flushed;	  /* no bit was cleared since the latest flush */
	unsigned long at; /* address to go on with */
};

struct tmprof_target {
	struct kref ref;
	u32 id;
	struct pid *pid; /* the thread group's: never another process's */
	u64 start_boottime_ns;
	/* Rights of the caller who added it. */
	bool sees_all; /* CAP_SYS_PTRACE */
	kuid_t uid;
	kgid_t gid;

	spinlock_t lock;
	/* The address space that was seen last, compared and never followed: no reference keeps it.
	 * A process gets another one by an exec only, which raises self_exec_id. */
	const struct mm_struct *known;
	u64 known_exec;
	u32 address_space; /* how many have been seen */
	u64 scanned_pages;
	u64 passes;

	/* Used by the worker only, under session->step. */
	u64 turn_ns; /* when the scan is to go on; U64_MAX: never */
	struct tmprof_pass pass;
	struct tmprof_region_watch watch;

	/* Counters of the running epoch; `removed`: nothing is counted any more. Both under
	 * session->counters. */
	struct tmprof_store counts;
	bool removed;

	/* Counters of the ended epoch; under session->reader. */
	struct tmprof_store ended;
	struct list_head ended_link; /* holds a reference while it is linked */
};

/* The ioctls of the same names; `request` is in kernel memory and checked. 0 or -errno. */
int tmprof_target_add(struct tmprof_session *session, struct tmprof_target_request *request);
int tmprof_target_remove(struct tmprof_session *session, struct tmprof_target_request *request);
int tmprof_target_query(struct tmprof_session *session, struct tmprof_target_request *request);
/* In release: there is nobody else. */
void tmprof_targets_remove_all(struct tmprof_session *session);

/* A reference, or NULL. */
struct tmprof_target *tmprof_target_get(struct tmprof_session *session, u32 id);
/* The target with the lowest id from `id` on; NULL: there is none. */
struct tmprof_target *tmprof_target_get_from(struct tmprof_session *session, u32 id);
void tmprof_target_put(struct tmprof_target *target);

/* True if the caller may see physical addresses. */
bool tmprof_may_see_frames(void);

/* The queue of tmprof_target_mm_put(). */
int tmprof_targets_init(void);
void tmprof_targets_exit(void);

/* The address space in use now, with mm_users held, to be given up by tmprof_target_mm_put(). NULL:
 * the process has exited, or executes another program that the caller who added it may not see.
 * `address_space` is set to its number. */
struct mm_struct *tmprof_target_mm(struct tmprof_target *target, u32 *address_space);

/* Gives it up. If the process has exited meanwhile, this was the last user. Its memory is then
 * freed by a queue of the driver's, which takes seconds for a TiB: neither the caller nor the
 * system's queue waits. Call from any context but interrupts. */
void tmprof_target_mm_put(struct mm_struct *mm);

/* The id of the lowest target before this one that uses `mm`, the target's own address space; 0:
 * none. Call with mm_users held once. */
u32 tmprof_target_shares_with(struct tmprof_session *session, const struct tmprof_target *target,
			      struct mm_struct *mm);

/* Threads of it that are on a CPU. */
u32 tmprof_target_running(const struct tmprof_target *target);

/* CPU time of all its threads, those that have ended too; that of a running one as of its latest
 * tick. */
u64 tmprof_target_cpu_ns(const struct tmprof_target *target);

#endif /* TMPROF_TARGET_H */
