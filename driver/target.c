// SPDX-License-Identifier: GPL-2.0-only
/*
 * Who may observe a process is decided as by __ptrace_may_access() (kernel/ptrace.c) for
 * PTRACE_MODE_READ_FSCREDS, which is not exported. Two things differ. CAP_SYS_PTRACE counts in the
 * initial user namespace alone. Security modules are not asked, because
 * security_ptrace_access_check() is not exported either.
 *
 * The decision is made when a target is added, and again for each other program that it executes.
 * For a moment of an exec the new program has the rights of the old one (begin_new_exec() in
 * fs/exec.c); it has not run yet.
 */

#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/err.h>
#include <linux/mmu_notifier.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/user_namespace.h>
#include <linux/workqueue.h>

#include "driver/allocation.h"
#include "driver/compat/compat.h"
#include "driver/region_watch.h"
#include "driver/session.h"
#include "driver/target.h"

static struct workqueue_struct *free_queue;

int tmprof_targets_init(void)
{
	/* Not reclaim's: no allocation waits for it. Unbound, so that it is on no CPU for long. */
	free_queue = alloc_workqueue("tmprof_free", WQ_UNBOUND, 1);
	return free_queue ? 0 : -ENOMEM;
}

void tmprof_targets_exit(void)
{
	destroy_workqueue(free_queue);
}

static void put_last(struct work_struct *work)
{
	mmput(container_of(work, struct mm_struct, async_put_work));
}

void tmprof_target_mm_put(struct mm_struct *mm)
{
	if (atomic_add_unless(&mm->mm_users, -1, 1))
		return;
	/* Nobody else uses it, nor its work, which mmput_async() would use the same way. Whoever
	 * takes a reference now finds this one when giving it up. */
	INIT_WORK(&mm->async_put_work, put_last);
	queue_work(free_queue, &mm->async_put_work);
}

static void release_target(struct kref *ref)
{
	struct tmprof_target *target = container_of(ref, struct tmprof_target, ref);

	tmprof_region_forget(&target->watch);
	put_pid(target->pid);
	tmprof_release(target);
}

void tmprof_target_put(struct tmprof_target *target)
{
	kref_put(&target->ref, release_target);
}

struct tmprof_target *tmprof_target_get_from(struct tmprof_session *session, u32 id)
{
	struct tmprof_target *target;
	unsigned long index = id;

	mutex_lock(&session->targets);
	target = xa_find(&session->by_id, &index, ULONG_MAX, XA_PRESENT);
	if (target)
		kref_get(&target->ref);
	mutex_unlock(&session->targets);
	return target;
}

struct tmprof_target *tmprof_target_get(struct tmprof_session *session, u32 id)
{
	struct tmprof_target *target = tmprof_target_get_from(session, id);

	if (target && target->id != id) {
		tmprof_target_put(target);
		return NULL;
	}
	return target;
}

static bool has(int capability)
{
	return ns_capable_noaudit(&init_user_ns, capability);
}

bool tmprof_may_see_frames(void)
{
	/* The two together read all of the kernel's memory through BPF, page tables included. */
	return has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON));
}

/* True if the process is of the user who added the target. Call under RCU. */
static bool is_of_same_user(const struct tmprof_target *target, struct task_struct *thread)
{
	const struct cred *cred = __task_cred(thread);

	return uid_eq(target->uid, cred->euid) && uid_eq(target->uid, cred->suid) &&
	       uid_eq(target->uid, cred->uid) && gid_eq(target->gid, cred->egid) &&
	       gid_eq(target->gid, cred->sgid) && gid_eq(target->gid, cred->gid);
}

/* The program that a process executes. */
struct program {
	struct mm_struct *mm; /* mm_users held; NULL: the process has exited */
	u64 exec;	      /* the next exec changes it, a moment after the address space */
	bool is_visible;      /* to who added the target */
};

/* That of the first thread that has an address space: a process outlives its main thread. */
static struct program current_program(const struct tmprof_target *target)
{
	struct program program = {};
	struct task_struct *leader, *thread;

	rcu_read_lock();
	leader = pid_task(target->pid, PIDTYPE_TGID);
	if (leader) {
		for_each_thread (leader, thread) {
			program.mm = get_task_mm(thread);
			if (!program.mm)
				continue;
			program.exec = READ_ONCE(thread->self_exec_id);
			program.is_visible = target->sees_all || (is_of_same_user(target, thread) &&
								  tmprof_is_dumpable(program.mm));
			break;
		}
	}
	rcu_read_unlock();
	return program;
}

struct mm_struct *tmprof_target_mm(struct tmprof_target *target, u32 *address_space)
{
	struct program program;
	bool is_allowed;

	/* Looked up inside, so that of two callers about an exec the one that found the old program
	 * cannot come second. */
	spin_lock(&target->lock);
	program = current_program(target);
	if (program.mm && (program.mm != target->known || program.exec != target->known_exec)) {
		target->known = program.mm;
		target->known_exec = program.exec;
		target->address_space++;
	}
	*address_space = target->address_space;
	/* The first program was allowed when the target was added. */
	is_allowed = target->address_space <= 1 || program.is_visible;
	spin_unlock(&target->lock);
	if (program.mm && !is_allowed) {
		tmprof_target_mm_put(program.mm);
		return NULL;
	}
	return program.mm;
}

/* False if all users of `mm` are the target's threads and the caller. */
static bool may_share(const struct tmprof_target *target, struct mm_struct *mm)
{
	struct task_struct *leader;
	int threads = 0;

	rcu_read_lock();
	leader = pid_task(target->pid, PIDTYPE_TGID);
	if (leader)
		threads = get_nr_threads(leader);
	rcu_read_unlock();
	return atomic_read(&mm->mm_users) > threads + 1;
}

static bool uses(struct tmprof_target *target, const struct mm_struct *mm)
{
	struct mm_struct *own;
	u32 address_space;

	if (READ_ONCE(target->known) != mm)
		return false;
	/* The known one may have been freed, and its address used again. */
	own = tmprof_target_mm(target, &address_space);
	if (own)
		tmprof_target_mm_put(own);
	return own == mm;
}

u32 tmprof_target_shares_with(struct tmprof_session *session, const struct tmprof_target *target,
			      struct mm_struct *mm)
{
	struct tmprof_target *other;
	unsigned long index;
	u32 found = 0;

	if (!may_share(target, mm))
		return 0;
	mutex_lock(&session->targets);
	xa_for_each (&session->by_id, index, other) {
		if (other->id >= target->id)
			break;
		if (uses(other, mm)) {
			found = other->id;
			break;
		}
	}
	mutex_unlock(&session->targets);
	return found;
}

u32 tmprof_target_running(const struct tmprof_target *target)
{
	struct task_struct *leader, *thread;
	u32 running = 0;

	rcu_read_lock();
	leader = pid_task(target->pid, PIDTYPE_TGID);
	if (leader) {
		for_each_thread (leader, thread)
			running += READ_ONCE(thread->on_cpu) != 0;
	}
	rcu_read_unlock();
	return running;
}

u64 tmprof_target_cpu_ns(const struct tmprof_target *target)
{
	struct task_struct *leader, *thread;
	u64 cpu_ns = 0;

	rcu_read_lock();
	leader = pid_task(target->pid, PIDTYPE_TGID);
	if (leader) {
		cpu_ns = READ_ONCE(leader->signal->sum_sched_runtime);
		for_each_thread (leader, thread)
			cpu_ns += READ_ONCE(thread->se.sum_exec_runtime);
	}
	rcu_read_unlock();
	return cpu_ns;
}

static u64 ticks_of(u64 start_boottime_ns)
{
	/* /proc/PID/stat rounds this way; USER_HZ is 100. */
	return div_u64(start_boottime_ns, NSEC_PER_SEC / USER_HZ);
}

/* Finds the process `number` in the caller's pid namespace; the target holds a reference to its
 * pid. */
static int identify(struct tmprof_target *target, pid_t number)
{
	struct task_struct *leader;
	int error = 0;

	target->pid = find_get_pid(number);
	if (!target->pid)
		return -ESRCH;
	rcu_read_lock();
	leader = pid_task(target->pid, PIDTYPE_TGID);
	if (!leader)
		error = -ESRCH;
	else if (leader->flags & PF_KTHREAD)
		error = -EINVAL;
	else
		target->start_boottime_ns = leader->start_boottime;
	rcu_read_unlock();
	return error;
}

static bool may_add(const struct tmprof_target *target)
{
	struct program program;

	if (target->pid == task_tgid(current))
		return true;
	program = current_program(target);
	if (program.mm)
		tmprof_target_mm_put(program.mm);
	return !program.mm || program.is_visible;
}

/* Fills in what depends on the address space; NULL: it has gone. */
static void describe(struct tmprof_session *session, const struct tmprof_target *target,
		     struct mm_struct *mm, struct tmprof_target_request *request)
{
	request->shares_with = mm ? tmprof_target_shares_with(session, target, mm) : 0;
	request->target_flags = mm && mm_has_notifiers(mm) ? TMPROF_TARGET_OTHER_TABLES : 0;
}

/* Under session->targets. */
static int insert_target(struct tmprof_session *session, struct tmprof_target *target)
{
	int error;

	if (session->target_count >= TMPROF_MAX_TARGETS)
		return -ENOSPC;
	if (session->last_target_id == U32_MAX)
		return -EOVERFLOW;
	target->id = session->last_target_id + 1;
	error = xa_insert(&session->by_pid, (unsigned long)target->pid, target, TMPROF_GFP);
	if (error)
		return error == -EBUSY ? -EEXIST : error;
	error = xa_insert(&session->by_id, target->id, target, TMPROF_GFP);
	if (error) {
		xa_erase(&session->by_pid, (unsigned long)target->pid);
		return error;
	}
	session->last_target_id = target->id;
	session->target_count++;
	return 0;
}

int tmprof_target_add(struct tmprof_session *session, struct tmprof_target_request *request)
{
	struct tmprof_target *target;
	struct mm_struct *mm;
	int error;

	/* Whoever was handed the session has not been asked yet. */
	if (!perfmon_capable())
		return -EPERM;
	if (request->pid <= 0)
		return -EINVAL;
	target = tmprof_allocate(sizeof(*target), NUMA_NO_NODE);
	if (IS_ERR(target))
		return PTR_ERR(target);
	kref_init(&target->ref);
	spin_lock_init(&target->lock);
	target->sees_all = has(CAP_SYS_PTRACE);
	target->uid = current_fsuid();
	target->gid = current_fsgid();
	tmprof_store_init(&target->counts, &session->memory);
	tmprof_store_init(&target->ended, &session->memory);
	error = identify(target, request->pid);
	if (error)
		goto put;
	error = -ESRCH;
	if (request->start_time_ticks &&
	    request->start_time_ticks != ticks_of(target->start_boottime_ns))
		goto put;
	mm = tmprof_target_mm(target, &request->address_space);
	if (!mm)
		goto put;
	if (!may_add(target)) {
		tmprof_target_mm_put(mm);
		error = -EACCES;
		goto put;
	}

	/* Once it can be found, it can be removed. */
	mutex_lock(&session->targets);
	error = insert_target(session, target);
	if (!error) {
		request->target_id = target->id;
		request->start_time_ticks = ticks_of(target->start_boottime_ns);
		kref_get(&target->ref);
	}
	mutex_unlock(&session->targets);
	if (!error) {
		describe(session, target, mm, request);
		tmprof_target_put(target);
	}
	tmprof_target_mm_put(mm);
	if (error)
		goto put;
	request->state = TMPROF_TARGET_ALIVE;
	request->scanned_pages = 0;
	request->passes = 0;
	/* Its first pass is due at once, and the worker may be waiting for nothing. */
	tmprof_session_wake(session);
	return 0;
put:
	tmprof_target_put(target);
	return error;
}

/* Stops counting for the target; records of the ended epoch stay readable. */
static void retire(struct tmprof_session *session, struct tmprof_target *target)
{
	mutex_lock(&session->counters);
	target->removed = true;
	tmprof_store_clear(&target->counts);
	mutex_unlock(&session->counters);
	tmprof_target_put(target);
}

int tmprof_target_remove(struct tmprof_session *session, struct tmprof_target_request *request)
{
	struct tmprof_target *target;

	mutex_lock(&session->targets);
	target = xa_erase(&session->by_id, request->target_id);
	if (target) {
		xa_erase(&session->by_pid, (unsigned long)target->pid);
		session->target_count--;
	}
	mutex_unlock(&session->targets);
	if (!target)
		return -ENOENT;
	retire(session, target);
	return 0;
}

int tmprof_target_query(struct tmprof_session *session, struct tmprof_target_request *request)
{
	struct tmprof_target *target = tmprof_target_get(session, request->target_id);
	struct mm_struct *mm;

	if (!target)
		return -ENOENT;
	mm = tmprof_target_mm(target, &request->address_space);
	request->state = mm ? TMPROF_TARGET_ALIVE : TMPROF_TARGET_GONE;
	describe(session, target, mm, request);
	if (mm)
		tmprof_target_mm_put(mm);
	/* The number outlives its process while anybody holds the pid. */
	request->pid = mm ? pid_vnr(target->pid) : 0;
	request->start_time_ticks = ticks_of(target->start_boottime_ns);
	spin_lock(&target->lock);
	request->scanned_pages = target->scanned_pages;
	request->passes = target->passes;
	spin_unlock(&target->lock);
	tmprof_target_put(target);
	return 0;
}

void tmprof_targets_remove_all(struct tmprof_session *session)
{
	struct tmprof_target *target;
	unsigned long index;

	xa_for_each (&session->by_id, index, target)
		retire(session, target);
	xa_destroy(&session->by_pid);
	xa_destroy(&session->by_id);
}
