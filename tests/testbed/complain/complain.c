// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes a kernel complain in the way that the parameter "how" names, so that what tells complaints
 * apart is tested on what kernels really print. Loading it is the deed; it is never unloaded.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

static char *how = "";
module_param(how, charp, 0444);
MODULE_PARM_DESC(how, "one of the names in complain.c");

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(atomic_section);
static unsigned int bits_of_int = 32;

static noinline void complain_warn(void)
{
	WARN(1, "complain was asked to\n");
}

static noinline void complain_oops(void)
{
	int *nowhere = NULL;

	OPTIMIZER_HIDE_VAR(nowhere);
	WRITE_ONCE(*nowhere, 1);
}

/* In an order, then in the other: lockdep sees the cycle though nothing ever waits. */
static noinline void complain_lock_order(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);

	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static noinline void complain_sleep_in_atomic(void)
{
	spin_lock(&atomic_section);
	msleep(1);
	spin_unlock(&atomic_section);
}

static noinline void complain_use_after_free(void)
{
	char *freed = kmalloc(64, GFP_KERNEL);

	kfree(freed);
	OPTIMIZER_HIDE_VAR(freed);
	WRITE_ONCE(freed[0], 1);
}

/* Seen when it is freed, by a kernel that was booted with slub_debug=FZ. */
static noinline void complain_overflow(void)
{
	char *object = kmalloc(64, GFP_KERNEL);
	unsigned long end = 64;

	OPTIMIZER_HIDE_VAR(end);
	WRITE_ONCE(object[end], 1);
	kfree(object);
}

static noinline void complain_shift(void)
{
	pr_info("complain: %d\n", 1 << READ_ONCE(bits_of_int));
}

/* Many, since kmemleak takes what a register or a stack still happens to name for not leaked. */
static noinline void complain_leak(void)
{
	int i;

	for (i = 0; i < 16; i++)
		kmalloc(128, GFP_KERNEL | __GFP_ZERO);
}

/* Waits for what nobody will do. */
static noinline void complain_hang(void)
{
	DECLARE_COMPLETION_ONSTACK(never);

	wait_for_completion(&never);
}

/* Keeps its CPU to itself for 10 s: to a stall detector that was told to wait for less. */
static noinline void complain_spin(void)
{
	preempt_disable();
	mdelay(10000);
	preempt_enable();
}

static const struct {
	const char *name;
	void (*deed)(void);
} deeds[] = {
	{"warn", complain_warn},
	{"oops", complain_oops},
	{"lock_order", complain_lock_order},
	{"sleep_in_atomic", complain_sleep_in_atomic},
	{"use_after_free", complain_use_after_free},
	{"overflow", complain_overflow},
	{"shift", complain_shift},
	{"leak", complain_leak},
	{"hang", complain_hang},
	{"spin", complain_spin},
};

static int __init complain_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(deeds); i++) {
		if (!strcmp(how, deeds[i].name)) {
			deeds[i].deed();
			return 0;
		}
	}
	return -EINVAL;
}
module_init(complain_init);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Makes the kernel complain, for testing the testbed");
