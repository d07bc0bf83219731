// SPDX-License-Identifier: GPL-2.0-only
/*
 * A PMU whose samples a test writes: `tmprof_fake`, or what the option `name` says, with debugfs
 * fake_sampler/script. Its events are described in sysfs as those of the testbed's virtual PMU.
 *
 * Each sample written is delivered on the writer's CPU, in hard interrupt context, to every event
 * that is started there, with the writer as the current process, before write() returns.
 * perf_event_overflow() is not exported; the handler is called as it would call it.
 *
 * With the option `nmi_cpu` samples come as a real PMU's do: in an NMI, on that CPU, in the middle
 * of whatever runs there. write() returns once it is over.
 */

#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/irq_work.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/uaccess.h>
#include <asm/apic.h>
#include <asm/irq_regs.h>
#include <asm/irq_vectors.h>
#include <asm/nmi.h>

#include "script.h"

/* Events that may be started on one CPU at a time. */
#define MOST_EVENTS 16

/* For an NMI to be taken by a virtual CPU that its host has put off. */
#define NMI_PATIENCE_S 60

struct fake_cpu {
	/* NULL: free. Changed with interrupts off, on this CPU, a slot at a time: an NMI finds an
	 * event whole or not at all. */
	struct perf_event *events[MOST_EVENTS];
	struct irq_work work;
	struct script_record record;
	bool nmi_due; /* the next NMI is ours; unset when it is over */
};

static char *name = "tmprof_fake";
module_param(name, charp, 0444);
MODULE_PARM_DESC(name, "of the PMU");

static int refused_cpu = -1;
module_param(refused_cpu, int, 0644);
MODULE_PARM_DESC(refused_cpu, "that new events cannot be on; -1: none");

static int foreign_cpu = -1;
module_param(foreign_cpu, int, 0644);
MODULE_PARM_DESC(foreign_cpu, "that is of another kind and has no such events; -1: none");

static int nmi_cpu = -1;
module_param(nmi_cpu, int, 0644);
MODULE_PARM_DESC(nmi_cpu, "that NMIs deliver samples on; -1: interrupts, on the writer's CPU");

static int guests;
module_param(guests, int, 0644);
MODULE_PARM_DESC(guests, "0: events may leave guests out, 1: they must, 2: they cannot");

static DEFINE_PER_CPU(struct fake_cpu, fake_cpu);
static DEFINE_MUTEX(script_mutex);
static u64 counted; /* events on CPU 0 between two readings; none on the others */
static struct dentry *folder;
static struct pmu fake_pmu;

static void deliver_sample(struct perf_event *event, const struct script_record *record,
			   struct pt_regs *regs)
{
	struct perf_sample_data data;

	perf_sample_data_init(&data, record->kind == KIND_NO_ADDRESS ? 0 : record->value,
			      event->hw.last_period);
	if (event->attr.sample_type & PERF_SAMPLE_DATA_SRC) {
		data.data_src.val = record->data_source;
		data.sample_flags |= PERF_SAMPLE_DATA_SRC;
	}
	if (record->physical_address && event->attr.sample_type & PERF_SAMPLE_PHYS_ADDR) {
		data.phys_addr = record->physical_address;
		data.sample_flags |= PERF_SAMPLE_PHYS_ADDR;
	}
	local64_add(event->hw.last_period, &event->count);
	/* MAX_INTERRUPTS of kernel/events/core.c; not left there, as nothing is held back. */
	if (record->kind == KIND_THROTTLE)
		event->hw.interrupts = ~0ULL;
	READ_ONCE(event->overflow_handler)(event, &data, regs);
	event->hw.interrupts = 0;
}

/* Others' samples go past the handler, as PEBS records do that are gathered before an interrupt. */
static bool interrupts_per_sample(const struct perf_event *event)
{
	return event->attr.freq || (event->attr.wakeup_events && !event->attr.watermark);
}

static void deliver(struct fake_cpu *cpu, struct pt_regs *regs)
{
	unsigned int slot;

	for (slot = 0; slot < MOST_EVENTS; slot++) {
		struct perf_event *event = READ_ONCE(cpu->events[slot]);

		if (event && event->attr.config == CONFIG_SAMPLE && is_sampling_event(event) &&
		    interrupts_per_sample(event))
			deliver_sample(event, &cpu->record, regs);
	}
}

static void deliver_in_interrupt(struct irq_work *work)
{
	deliver(container_of(work, struct fake_cpu, work), get_irq_regs());
}

static int deliver_in_nmi(unsigned int type, struct pt_regs *regs)
{
	struct fake_cpu *cpu = this_cpu_ptr(&fake_cpu);

	if (!smp_load_acquire(&cpu->nmi_due))
		return NMI_DONE;
	deliver(cpu, regs);
	smp_store_release(&cpu->nmi_due, false);
	return NMI_HANDLED;
}

/* -ENODEV: the CPU is offline; -ETIMEDOUT: it took no NMI. */
static int run_in_nmi(const struct script_record *record, unsigned int number)
{
	unsigned long until = jiffies + NMI_PATIENCE_S * HZ;
	struct fake_cpu *cpu = per_cpu_ptr(&fake_cpu, number);
	int error = 0;

	cpus_read_lock();
	if (!cpu_online(number)) {
		error = -ENODEV;
		goto unlock;
	}
	cpu->record = *record;
	smp_store_release(&cpu->nmi_due, true);
	/* Not the self-IPI of x2APIC, which cannot be an NMI. */
	preempt_disable();
	apic->send_IPI_mask(cpumask_of(number), NMI_VECTOR);
	preempt_enable();
	while (smp_load_acquire(&cpu->nmi_due) && !error) {
		if (time_after(jiffies, until))
			error = -ETIMEDOUT;
		cond_resched();
	}
unlock:
	cpus_read_unlock();
	return error;
}

static int run_record(const struct script_record *record)
{
	int number = READ_ONCE(nmi_cpu);
	struct irq_work *work;

	if (record->kind == KIND_COUNT) {
		WRITE_ONCE(counted, record->value);
		return 0;
	}
	if (number >= 0)
		return number < nr_cpu_ids ? run_in_nmi(record, number) : -EINVAL;
	preempt_disable();
	this_cpu_ptr(&fake_cpu)->record = *record;
	work = &this_cpu_ptr(&fake_cpu)->work;
	irq_work_queue(work);
	preempt_enable();
	irq_work_sync(work);
	return 0;
}

static ssize_t script_write(struct file *file, const char __user *from, size_t bytes,
			    loff_t *position)
{
	struct script_record record;
	int error = -EFAULT;
	size_t done = 0;

	if (bytes % sizeof(record))
		return -EINVAL;
	mutex_lock(&script_mutex);
	for (; done < bytes; done += sizeof(record)) {
		if (copy_from_user(&record, from + done, sizeof(record)))
			break;
		error = run_record(&record);
		if (error)
			break;
	}
	mutex_unlock(&script_mutex);
	return done ?: error;
}

static const struct file_operations script_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = script_write,
};

static int fake_event_init(struct perf_event *event)
{
	if (event->attr.type != fake_pmu.type)
		return -ENOENT;
	if (event->attr.config > CONFIG_COUNT || event->cpu < 0)
		return -EINVAL;
	/* A mediated virtual PMU, and a PMU that cannot leave anything out (IBS). */
	if (READ_ONCE(guests) == 1 && !event->attr.exclude_guest)
		return -EOPNOTSUPP;
	if (READ_ONCE(guests) == 2 && event->attr.exclude_guest)
		return -EINVAL;
	if (event->cpu == READ_ONCE(refused_cpu))
		return -ENODEV;
	if (event->cpu == READ_ONCE(foreign_cpu))
		return -ENOENT;
	event->hw.last_period = event->attr.sample_period ?: 1;
	return 0;
}

static void replace(const struct perf_event *from, struct perf_event *to)
{
	struct perf_event **events = this_cpu_ptr(&fake_cpu)->events;
	unsigned int slot;

	for (slot = 0; slot < MOST_EVENTS; slot++) {
		if (events[slot] != from)
			continue;
		WRITE_ONCE(events[slot], to);
		return;
	}
	WARN_ON_ONCE(to);
}

static void fake_start(struct perf_event *event, int flags)
{
	event->hw.state = 0;
	replace(NULL, event);
}

static void fake_stop(struct perf_event *event, int flags)
{
	replace(event, NULL);
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
}

static int fake_add(struct perf_event *event, int flags)
{
	event->hw.state = PERF_HES_STOPPED | PERF_HES_UPTODATE;
	if (flags & PERF_EF_START)
		fake_start(event, flags);
	return 0;
}

static void fake_del(struct perf_event *event, int flags)
{
	fake_stop(event, flags);
}

/* On the event's CPU, with interrupts off. */
static void fake_read(struct perf_event *event)
{
	if (event->attr.config == CONFIG_COUNT && event->cpu == 0)
		local64_add(READ_ONCE(counted), &event->count);
}

/* clang-format off */
PMU_EVENT_ATTR_STRING(mem-samples, mem_samples, "config=0x0");
PMU_EVENT_ATTR_STRING(llc-load-misses, llc_load_misses, "config=0x1");
/* clang-format on */

static struct attribute *event_attributes[] = {
	&mem_samples.attr.attr,
	&llc_load_misses.attr.attr,
	NULL,
};

static const struct attribute_group event_group = {
	.name = "events",
	.attrs = event_attributes,
};

static const struct attribute_group *attribute_groups[] = {
	&event_group,
	NULL,
};

static struct pmu fake_pmu = {
	.module = THIS_MODULE,
	.attr_groups = attribute_groups,
	.task_ctx_nr = perf_sw_context,
	.event_init = fake_event_init,
	.add = fake_add,
	.del = fake_del,
	.start = fake_start,
	.stop = fake_stop,
	.read = fake_read,
};

static int __init fake_sampler_init(void)
{
	unsigned int cpu;
	int error;

	for_each_possible_cpu (cpu)
		per_cpu_ptr(&fake_cpu, cpu)->work = IRQ_WORK_INIT_HARD(deliver_in_interrupt);
	error = register_nmi_handler(NMI_LOCAL, deliver_in_nmi, 0, "fake_sampler");
	if (error)
		return error;
	error = perf_pmu_register(&fake_pmu, name, -1);
	if (error) {
		unregister_nmi_handler(NMI_LOCAL, "fake_sampler");
		return error;
	}
	folder = debugfs_create_dir("fake_sampler", NULL);
	debugfs_create_file("script", 0200, folder, NULL, &script_fops);
	return 0;
}

static void __exit fake_sampler_exit(void)
{
	debugfs_remove(folder);
	perf_pmu_unregister(&fake_pmu);
	unregister_nmi_handler(NMI_LOCAL, "fake_sampler");
}

module_init(fake_sampler_init);
module_exit(fake_sampler_exit);
MODULE_LICENSE("GPL");
MODULE_AUTHOR("The tmprof authors");
MODULE_DESCRIPTION("A PMU whose samples a test writes");
