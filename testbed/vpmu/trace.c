// SPDX-License-Identifier: GPL-2.0-only
/*
 * Chooses the address spaces that tiersim traces, and ends epochs.
 *
 * A process is traced from when its number is written to debugfs vpmu/trace; its children and what
 * it executes follow. Each address space is an entry of the shared table. Its mm is held until the
 * module goes, so that no other address space gets its CR3.
 *
 * Locks: `epochs` (a mutex) before `spaces` (a spin lock). The tracepoints' probes run in the
 * context of the process, preemption disabled, and take `spaces` only.
 */

#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>
#include <linux/wait.h>
#include <asm/io.h>

#include "testbed/vpmu/vpmu.h"

static unsigned int epoch_ms = 1000;
module_param(epoch_ms, uint, 0444);
MODULE_PARM_DESC(epoch_ms, "length of an epoch of the truth");

/* Unit of the times in /proc/PID/stat (include/asm-generic/param.h). */
#define NS_PER_TICK (NSEC_PER_SEC / USER_HZ)

static DEFINE_SPINLOCK(spaces);
static struct mm_struct *held[TIERSIM_MAX_SPACES]; /* mm of the entry; NULL: shares another's */
static u32 targets;
static u64 refused; /* spaces that the table had no room for */

static DEFINE_MUTEX(epochs);
static struct task_struct *clock_thread;
static DECLARE_WAIT_QUEUE_HEAD(first_target);
static u64 epoch_start_ns; /* 0: none has begun */
static bool finished;

static struct tracepoint *fork_point, *exec_point, *exit_point;

static void ring_doorbell(void *unused)
{
	vpmu_ring_doorbell();
}

/* Under `spaces`: the newest entry of that process, or NULL. */
static struct tiersim_space *space_of(pid_t pid)
{
	u32 i;

	for (i = vpmu_shared->space_count; i-- > 0;) {
		struct tiersim_space *space = &vpmu_shared->spaces[i];

		if (space->pid == pid && space->state == TIERSIM_SPACE_LIVE)
			return space;
	}
	return NULL;
}

static u64 cr3_of(const struct mm_struct *mm)
{
	return __pa(mm->pgd);
}

/* Under `spaces`. */
static bool is_listed(u64 cr3)
{
	u32 i;

	for (i = 0; i < vpmu_shared->space_count; i++) {
		if (vpmu_shared->spaces[i].cr3 == cr3 &&
		    vpmu_shared->spaces[i].state == TIERSIM_SPACE_LIVE)
			return true;
	}
	return false;
}

/* Under `spaces`. `task` leads its process and does not go while it is looked at. -ENOSPC, and
 * counted, where the table is full. */
static int add_space(struct task_struct *task, struct mm_struct *mm, u32 target)
{
	u32 index = vpmu_shared->space_count;
	struct tiersim_space *space = &vpmu_shared->spaces[index];

	if (index == TIERSIM_MAX_SPACES) {
		refused++;
		return -ENOSPC;
	}
	/* After vfork() the child lives in its parent's; its accesses count for the parent. */
	if (!is_listed(cr3_of(mm))) {
		mmgrab(mm);
		held[index] = mm;
		space->cr3 = cr3_of(mm);
	}
	space->pid = task->tgid;
	space->target = target;
	space->start_time_ticks = div_u64(task->start_boottime, NS_PER_TICK);
	space->state = TIERSIM_SPACE_LIVE;
	strscpy(space->name, task->comm, sizeof(space->name));
	smp_store_release(&vpmu_shared->space_count, index + 1);
	return 0;
}

static void leave_space(struct tiersim_space *space, u32 state)
{
	WRITE_ONCE(space->state, state);
}

static void on_fork(void *unused, struct task_struct *parent, struct task_struct *child)
{
	if (!thread_group_leader(child) || !child->mm)
		return;
	spin_lock(&spaces);
	if (space_of(parent->tgid))
		add_space(child, child->mm, targets++);
	spin_unlock(&spaces);
}

static void on_exec(void *unused, struct task_struct *task, pid_t old_pid, void *binary)
{
	struct tiersim_space *left;

	spin_lock(&spaces);
	left = space_of(task->tgid);
	if (left) {
		leave_space(left, TIERSIM_SPACE_LEFT);
		add_space(task, task->mm, left->target);
	}
	spin_unlock(&spaces);
	/* CR3 has its new value already. */
	if (left)
		vpmu_ring_doorbell();
}

static void on_exit(void *unused, struct task_struct *task)
{
	struct tiersim_space *space;

	/* The last thread; its mm is no longer its. */
	if (atomic_read(&task->signal->live))
		return;
	spin_lock(&spaces);
	space = space_of(task->tgid);
	if (space)
		leave_space(space, TIERSIM_SPACE_EXITED);
	spin_unlock(&spaces);
}

/* Under `epochs`. Every vCPU hands its counts over, then one of them writes. */
static void end_epoch(bool finish)
{
	u64 now_ns;

	WRITE_ONCE(vpmu_shared->fold, vpmu_shared->fold + 1);
	on_each_cpu(ring_doorbell, NULL, 1);
	now_ns = ktime_get_ns();
	vpmu_shared->epoch_start_ns = epoch_start_ns;
	vpmu_shared->epoch_end_ns = now_ns;
	vpmu_shared->finish = finish;
	preempt_disable();
	WRITE_ONCE(vpmu_shared->close, vpmu_shared->close + 1);
	vpmu_ring_doorbell();
	preempt_enable();
	epoch_start_ns = now_ns;
}

static int run_clock(void *unused)
{
	ktime_t next;

	wait_event_interruptible(first_target, READ_ONCE(epoch_start_ns) || kthread_should_stop());
	next = ns_to_ktime(epoch_start_ns);
	while (!kthread_should_stop()) {
		next = ktime_add_ms(next, epoch_ms);
		set_current_state(TASK_INTERRUPTIBLE);
		if (!kthread_should_stop())
			schedule_hrtimeout(&next, HRTIMER_MODE_ABS);
		__set_current_state(TASK_RUNNING);
		mutex_lock(&epochs);
		if (!finished && !kthread_should_stop())
			end_epoch(false);
		mutex_unlock(&epochs);
	}
	return 0;
}

static int trace_process(pid_t number)
{
	struct pid *pid = find_get_pid(number);
	struct task_struct *task = get_pid_task(pid, PIDTYPE_TGID);
	struct mm_struct *mm;
	int error = 0;

	put_pid(pid);
	if (!task)
		return -ESRCH;
	mm = get_task_mm(task);
	if (!mm) {
		error = -EINVAL;
		goto put;
	}
	mutex_lock(&epochs);
	spin_lock(&spaces);
	if (finished)
		error = -ESHUTDOWN;
	else if (!space_of(task->tgid))
		error = add_space(task, mm, targets++);
	spin_unlock(&spaces);
	if (!error && !epoch_start_ns) {
		WRITE_ONCE(epoch_start_ns, ktime_get_ns());
		wake_up(&first_target);
	}
	mutex_unlock(&epochs);
	/* A CPU that runs the process now may keep its CR3 for long, so each rings its doorbell. */
	on_each_cpu(ring_doorbell, NULL, 1);
	mmput(mm);
put:
	put_task_struct(task);
	return error;
}

/* No truth holds the later accesses of the process and of its new children. */
static int stop_tracing(pid_t number)
{
	struct tiersim_space *space;

	mutex_lock(&epochs);
	spin_lock(&spaces);
	space = space_of(number);
	if (space)
		leave_space(space, TIERSIM_SPACE_STOPPED);
	spin_unlock(&spaces);
	mutex_unlock(&epochs);
	if (!space)
		return -ESRCH;
	on_each_cpu(ring_doorbell, NULL, 1);
	return 0;
}

static ssize_t trace_write(struct file *file, const char __user *from, size_t bytes,
			   loff_t *position)
{
	int number, error;

	error = kstrtoint_from_user(from, bytes, 10, &number);
	if (error)
		return error;
	error = number < 0 ? stop_tracing(-number) : trace_process(number);
	return error ?: bytes;
}

static int trace_show(struct seq_file *file, void *unused)
{
	static const char *const states[] = {"?", "live", "left", "exited", "stopped"};
	u32 i;

	for (i = 0; i < smp_load_acquire(&vpmu_shared->space_count); i++) {
		const struct tiersim_space *space = &vpmu_shared->spaces[i];

		seq_printf(file, "target %u pid %u %s cr3 0x%llx %s\n", space->target, space->pid,
			   states[READ_ONCE(space->state) % ARRAY_SIZE(states)], space->cr3,
			   space->name);
	}
	return 0;
}

static int trace_open(struct inode *inode, struct file *file)
{
	return single_open(file, trace_show, NULL);
}

static const struct file_operations trace_fops = {
	.owner = THIS_MODULE,
	.open = trace_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
	.write = trace_write,
};

/* Under `epochs`. Ends the truth: the epoch that is under way is its last. */
static void finish(void)
{
	if (finished)
		return;
	finished = true;
	end_epoch(true);
}

static ssize_t finish_write(struct file *file, const char __user *from, size_t bytes,
			    loff_t *position)
{
	int error;

	mutex_lock(&epochs);
	finish();
	error = -(int)READ_ONCE(vpmu_shared->write_error);
	if (!error && refused)
		error = -ENOSPC;
	mutex_unlock(&epochs);
	return error ?: bytes;
}

static const struct file_operations finish_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = finish_write,
};

static int status_show(struct seq_file *file, void *unused)
{
	mutex_lock(&epochs);
	seq_printf(file, "epochs_written %llu\ncharged_ns %llu\nspaces %u\nspaces_refused %llu\n",
		   vpmu_shared->epochs_written, vpmu_shared->charged_ns, vpmu_shared->space_count,
		   READ_ONCE(refused));
	mutex_unlock(&epochs);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(status);

static void unhook(void)
{
	if (!IS_ERR_OR_NULL(exit_point))
		tracepoint_probe_unregister(exit_point, on_exit, NULL);
	if (!IS_ERR_OR_NULL(exec_point))
		tracepoint_probe_unregister(exec_point, on_exec, NULL);
	if (!IS_ERR_OR_NULL(fork_point))
		tracepoint_probe_unregister(fork_point, on_fork, NULL);
	tracepoint_synchronize_unregister();
}

static int hook(const char *name, void *probe, struct tracepoint **point)
{
	int error;

	*point = vpmu_tracepoint(name);
	if (IS_ERR(*point))
		return PTR_ERR(*point);
	error = tracepoint_probe_register(*point, probe, NULL);
	if (error)
		*point = NULL;
	return error;
}

int vpmu_trace_start(void)
{
	int error;

	if (!epoch_ms)
		return -EINVAL;
	error = hook("sched_process_fork", on_fork, &fork_point);
	if (!error)
		error = hook("sched_process_exec", on_exec, &exec_point);
	if (!error)
		error = hook("sched_process_exit", on_exit, &exit_point);
	if (error)
		goto unhook;
	clock_thread = kthread_run(run_clock, NULL, "vpmu_epochs");
	if (IS_ERR(clock_thread)) {
		error = PTR_ERR(clock_thread);
		goto unhook;
	}
	debugfs_create_file("trace", 0600, vpmu_folder, NULL, &trace_fops);
	debugfs_create_file("finish", 0200, vpmu_folder, NULL, &finish_fops);
	debugfs_create_file("status", 0400, vpmu_folder, NULL, &status_fops);
	return 0;
unhook:
	unhook();
	return error;
}

void vpmu_trace_stop(void)
{
	u32 i;

	kthread_stop(clock_thread);
	unhook();
	/* Traced no more: their CR3 may be another's next. */
	mutex_lock(&epochs);
	finish();
	mutex_unlock(&epochs);
	for (i = 0; i < vpmu_shared->space_count; i++)
		leave_space(&vpmu_shared->spaces[i], TIERSIM_SPACE_LEFT);
	on_each_cpu(ring_doorbell, NULL, 1);
	for (i = 0; i < vpmu_shared->space_count; i++) {
		if (held[i])
			mmdrop(held[i]);
	}
}
