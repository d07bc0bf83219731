// SPDX-License-Identifier: GPL-2.0-only
/* Tables of another user for the memory of one process, as KVM has them: in name only. */

#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

static int pid;
module_param(pid, int, 0444);
MODULE_PARM_DESC(pid, "of the process");

static const struct mmu_notifier_ops ops;
static struct mmu_notifier notifier = {.ops = &ops};

static int __init other_tables_init(void)
{
	struct pid *process = find_get_pid(pid);
	struct task_struct *task = get_pid_task(process, PIDTYPE_PID);
	struct mm_struct *mm = task ? get_task_mm(task) : NULL;
	int error = -ESRCH;

	if (mm) {
		error = mmu_notifier_register(&notifier, mm);
		mmput(mm);
	}
	if (task)
		put_task_struct(task);
	put_pid(process);
	return error;
}

static void __exit other_tables_exit(void)
{
	mmu_notifier_unregister(&notifier, notifier.mm);
}

module_init(other_tables_init);
module_exit(other_tables_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The tmprof authors");
MODULE_DESCRIPTION("Other tables for the memory of a process");
