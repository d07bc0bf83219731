// SPDX-License-Identifier: GPL-2.0-only
/*
 * The driver's walk over a page table whose entry changes under it. Loading the module walks what
 * one last-level table of a process maps. It flips the accessed bit of that table's entry up to
 * `changes` times, each time between the walk's look at the entry and the comparison under the
 * lock. The results are parameters.
 */

#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>

static int pid;
module_param(pid, int, 0444);
MODULE_PARM_DESC(pid, "of the process");

static unsigned long address;
module_param(address, ulong, 0444);
MODULE_PARM_DESC(address, "at which the table begins to map");

static unsigned int changes;
module_param(changes, uint, 0444);
MODULE_PARM_DESC(changes, "times that the entry is yet to change");

static unsigned long present;
module_param(present, ulong, 0444);
MODULE_PARM_DESC(present, "result: pages that the walk showed");

static unsigned long races;
module_param(races, ulong, 0444);
MODULE_PARM_DESC(races, "result: tables that the walk gave up");

static unsigned long *changing;

static spinlock_t *lock_of(struct mm_struct *mm, pmd_t *seen)
{
	if (changes) {
		changes--;
		change_bit(_PAGE_BIT_ACCESSED, changing);
	}
	return pte_lockptr(mm, seen);
}

#define pte_lockptr lock_of
#include "driver/page_walk.c"

static struct tmprof_walk walk;

static void ignore(struct tmprof_walk *unused_walk, const struct tmprof_block *block)
{
}

static int walk_one(struct mm_struct *mm)
{
	pgd_t *pgd = pgd_offset(mm, address);

	if (!find_vma(mm, address) || pgd_none(*pgd))
		return -EINVAL;
	changing =
		(unsigned long *)pmd_offset(pud_offset(p4d_offset(pgd, address), address), address);
	walk.emit = ignore;
	tmprof_walk(&walk, mm, address, address + PMD_SIZE, LONG_MAX);
	present = walk.counts.present_pages;
	races = walk.counts.races;
	return 0;
}

static int __init changing_walk_init(void)
{
	struct pid *process = find_get_pid(pid);
	struct task_struct *task = get_pid_task(process, PIDTYPE_PID);
	struct mm_struct *mm = task ? get_task_mm(task) : NULL;
	int error = -ESRCH;

	if (mm) {
		mmap_read_lock(mm);
		error = walk_one(mm);
		mmap_read_unlock(mm);
		mmput(mm);
	}
	if (task)
		put_task_struct(task);
	put_pid(process);
	return error;
}

static void __exit changing_walk_exit(void)
{
}

module_init(changing_walk_init);
module_exit(changing_walk_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The tmprof authors");
MODULE_DESCRIPTION("The driver's walk over a table whose entry changes");
