/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The exposure ladder: arithmetic of one clear followed by several reads.
 *
 * Reading an accessed bit is cheap. Clearing it is dear: each page touched after a clear costs its
 * program one hardware write of the bit. Therefore a block of pages is cleared once and read at
 * growing delays. The first read that finds a page's bit set brackets the time to its first access,
 * and first accesses / time at risk estimates the page's access rate.
 *
 * Freestanding C11 without floating point; times are in nanoseconds. The kernel module, user space
 * and the tests compile it.
 */

#pragma once

#include <linux/types.h>

#define TMPROF_LADDER_MAX_RUNGS 9
#define TMPROF_PPM		1000000ULL

/* Delays after the clear at which a block is read, ascending. */
struct tmprof_ladder {
	__u32 rungs;
	__u64 delay_ns[TMPROF_LADDER_MAX_RUNGS];
};

/* `rungs` delays from `first_ns`, each four times the one before. Relative to continuous reading, a
 * ratio of 4 keeps 0.79 of the information on the rate. A ratio of 2 keeps 0.93 for twice the
 * reads. */
static inline struct tmprof_ladder tmprof_ladder_geometric(__u64 first_ns, __u32 rungs)
{
	struct tmprof_ladder ladder = {0};
	__u32 i;

	ladder.rungs = rungs < TMPROF_LADDER_MAX_RUNGS ? rungs : TMPROF_LADDER_MAX_RUNGS;
	for (i = 0; i < ladder.rungs; i++)
		ladder.delay_ns[i] = first_ns << (2 * i);
	return ladder;
}

/* 0.25, 0.5, 1, 2, 4, 16, 64, 256, 1024 ms: base pages. Ratio 2 where the hot pages of a busy
 * program have their first access, as it is they that must be told apart. */
static inline struct tmprof_ladder tmprof_ladder_base(void)
{
	struct tmprof_ladder ladder = {
		.rungs = 9,
		.delay_ns = {250000, 500000, 1000000, 2000000, 4000000, 16000000, 64000000,
			     256000000, 1024000000},
	};

	return ladder;
}

/* 16 us … 1049 ms: a huge page gathers the accesses of 512 base pages. */
static inline struct tmprof_ladder tmprof_ladder_huge(void)
{
	return tmprof_ladder_geometric(16000, 9);
}

/* One read, a whole scan interval after the clear (TMP, IPDPS 2021). */
static inline struct tmprof_ladder tmprof_ladder_plain(__u64 interval_ns)
{
	return tmprof_ladder_geometric(interval_ns, 1);
}

/* The rung to read next, `elapsed_ns` after the clear: the first whose time has not passed. Rungs
 * that have passed unread are merged into the read that has just been made. `rungs`: none is left.
 */
static inline __u32 tmprof_ladder_next(const struct tmprof_ladder *ladder, __u32 rung,
				       __u64 elapsed_ns)
{
	while (rung < ladder->rungs && ladder->delay_ns[rung] <= elapsed_ns)
		rung++;
	return rung;
}

/* Once half of the pages in view are set, what is left is slow and the next reads would cost more
 * than they tell. */
static inline int tmprof_ladder_stop(__u32 set, __u32 in_view)
{
	return 2 * (__u64)set >= in_view;
}

/* A unit is a page of the block, base or huge. */
enum tmprof_unit {
	TMPROF_UNIT_OUT = 0, /* not there at the clear, or not to be trusted */
	TMPROF_UNIT_UNSET,   /* cleared, no access seen since */
	TMPROF_UNIT_SET,     /* cleared, and its first access was seen */
};

/* Evidence about one unit. */
struct tmprof_tally {
	__u32 looks;
	__u32 references;
	__u32 first_accesses;
	__u32 first_read_finds; /* first accesses that the first read after a clear found */
	__u64 at_risk_ns;
	__u64 first_read_ns; /* times from the clear to that read, over these */
	__u64 later_read_ns; /* times from the read before to the finding one, over the others */
};

/*
 * Folds one read of one unit. `window_ns` is the target CPU time since the previous read, or since
 * the clear for the first read. `exposure_ns` is at least `window_ns`: it also has the time of
 * earlier reads that were left out.
 *
 * A first access lies somewhere in the window, and half of the window is charged. This is exact in
 * the mean for a page whose accesses are rarer than the window is long. For other pages the tally
 * keeps the windows. Returns 1 for a first access: the hardware has set a bit that had been
 * cleared.
 */
static inline __u32 tmprof_ladder_fold(struct tmprof_tally *tally, __u8 *unit, int accessed,
				       __u64 exposure_ns, __u64 window_ns, int first_read)
{
	__u32 first;

	if (*unit == TMPROF_UNIT_OUT)
		return 0;
	first = accessed && *unit == TMPROF_UNIT_UNSET;
	tally->looks++;
	tally->references += accessed != 0;
	tally->first_accesses += first;
	if (first && first_read) {
		tally->first_read_finds++;
		tally->first_read_ns += window_ns;
	} else if (first) {
		tally->later_read_ns += window_ns;
	}
	if (first)
		tally->at_risk_ns += exposure_ns - window_ns / 2;
	else if (*unit == TMPROF_UNIT_UNSET)
		tally->at_risk_ns += exposure_ns;
	if (first)
		*unit = TMPROF_UNIT_SET;
	return first;
}

/*
 * Cost of clears and reads to a target, in picoseconds of its CPU time; measured on the host.
 *
 * A read by another CPU takes a shared copy of the cache lines of page-table entries, 8 to a line.
 * The target keeps its own copy, and pays only when it next sets a bit there. Therefore a line is
 * charged when a read finds a bit set that the read before it, or the clear, had left unset.
 */
struct tmprof_cost {
	__u64 ps_per_set;  /* one cleared bit set again by the hardware */
	__u64 ps_per_line; /* one line got back to set bits in it */
};

static inline __u64 tmprof_cost_ns(const struct tmprof_cost *cost, __u64 sets, __u64 lines)
{
	return (sets * cost->ps_per_set + lines * cost->ps_per_line) / 1000;
}

/*
 * A token bucket in target CPU time. It earns a share of the CPU time that the target uses, so an
 * idle target earns nothing. It holds at most `limit_ns` beside the reserved amount, so savings
 * allow no long burst. It owes at most -`floor_ns`: a charge beyond that is forgiven, so one mishap
 * does not silence the scanner for long. Costs that become known only later are reserved first.
 */
struct tmprof_budget {
	__u64 share_ppm;
	__s64 limit_ns;
	__s64 floor_ns; /* <= 0 */
	__s64 balance_ns;
	__s64 reserved_ns;
	__u64 carry; /* remainder of the division: many small earnings lose nothing */
};

static inline void tmprof_budget_earn(struct tmprof_budget *budget, __u64 cpu_ns)
{
	__u64 scaled = cpu_ns * budget->share_ppm + budget->carry;
	__s64 most = budget->limit_ns + budget->reserved_ns;

	budget->carry = scaled % TMPROF_PPM;
	budget->balance_ns += (__s64)(scaled / TMPROF_PPM);
	if (budget->balance_ns > most)
		budget->balance_ns = most;
}

static inline void tmprof_budget_charge(struct tmprof_budget *budget, __u64 cost_ns)
{
	__s64 above_floor = budget->balance_ns - budget->floor_ns;

	if (above_floor <= 0)
		return;
	if (cost_ns < (__u64)above_floor)
		budget->balance_ns -= (__s64)cost_ns;
	else
		budget->balance_ns = budget->floor_ns;
}

static inline void tmprof_budget_reserve(struct tmprof_budget *budget, __s64 cost_ns)
{
	budget->reserved_ns += cost_ns;
}

static inline __s64 tmprof_budget_free(const struct tmprof_budget *budget)
{
	return budget->balance_ns - budget->reserved_ns;
}
