/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Differences between the kernels that the driver builds for, in the newest kernel's shape. No
 * other file has a condition on the kernel's version or configuration.
 */
#ifndef TMPROF_COMPAT_H
#define TMPROF_COMPAT_H

#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/perf_event.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/smp.h>
#include <linux/version.h>
#include <asm/invpcid.h>
#include <asm/pgtable.h>
#include <asm/special_insns.h>
#include <asm/tlbflush.h>

#ifndef CONFIG_X86_64
#error "tmprof reads x86-64 page tables: there is no other architecture that it builds for"
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "tmprof needs Linux 6.1 or later (struct vma_iterator)"
#endif

/* Pages of a DAX mapping. Later kernels without the option mark them special or leave them as
 * normal pages that the node look-up refuses. */
static inline bool tmprof_pte_devmap(pte_t pte)
{
#ifdef CONFIG_ARCH_HAS_PTE_DEVMAP
	return pte_devmap(pte);
#else
	return false;
#endif
}

static inline bool tmprof_pmd_devmap(pmd_t pmd)
{
#ifdef CONFIG_ARCH_HAS_PTE_DEVMAP
	return pmd_devmap(pmd);
#else
	return false;
#endif
}

/* True if folio_set_young() and folio_clear_idle() keep the access whose bit a scan clears; without
 * the option they do nothing. */
static inline bool tmprof_keeps_young(void)
{
	return IS_ENABLED(CONFIG_PAGE_IDLE_FLAG);
}

/* False: the kernel keeps the address space from users who are not privileged, as that of a program
 * whose file they cannot read. */
static inline bool tmprof_is_dumpable(struct mm_struct *mm)
{
	return get_dumpable(mm) == SUID_DUMP_USER;
}

static inline bool tmprof_has_perf(void)
{
	return IS_ENABLED(CONFIG_PERF_EVENTS);
}

/* True for the events of the kernel's tracing: tracepoints, kprobes and uprobes. */
static inline bool tmprof_is_trace_event(const struct perf_event *event)
{
#ifdef CONFIG_EVENT_TRACING
	return event->tp_event;
#else
	return false;
#endif
}

/* perf_event.hw.interrupts of an event that perf holds back until the next tick: MAX_INTERRUPTS of
 * kernel/events/core.c, where __perf_event_account_interrupt() sets it before it calls the
 * overflow handler. */
#define TMPROF_THROTTLED_INTERRUPTS (~0ULL)

/* The memory cgroup of the process that opened the session: it pays for the worker's allocations.
 * NULL: the kernel has no memory cgroups, or the kernel pays. */
static inline struct mem_cgroup *tmprof_memcg_of_current(void)
{
#ifdef CONFIG_MEMCG
	return current->mm ? get_mem_cgroup_from_mm(current->mm) : NULL;
#else
	return NULL;
#endif
}

static inline void tmprof_memcg_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}

/* Has the calling kernel thread's allocations charged to `memcg`; returns who paid before. */
static inline struct mem_cgroup *tmprof_memcg_charge(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}

/* CPUs whose TLB may hold translations of `mm` that it uses before it next loads the address space.
 * A load compares context.tlb_gen with the one that it last flushed for, so the others flush then.
 * A global ASID skips the comparison: then the mask is all CPUs. Kernels that have them, from 6.15
 * on or by a backport, use them on CPUs with INVLPGB alone. */
static inline const struct cpumask *tmprof_tlb_cpus(struct mm_struct *mm)
{
#ifdef X86_FEATURE_INVLPGB
	if (boot_cpu_has(X86_FEATURE_INVLPGB))
		return cpu_online_mask;
#endif
	atomic64_inc(&mm->context.tlb_gen);
	/* The bits above are to be cleared before the mask is read: switch_mm_irqs_off() sets its
	 * CPU's bit before it reads tlb_gen. */
	smp_mb__after_atomic();
	return mm_cpumask(mm);
}

#endif /* TMPROF_COMPAT_H */
