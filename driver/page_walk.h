/* SPDX-License-Identifier: GPL-2.0-only */
/* The page tables of one address space: present leaves, their accessed bits, frames and nodes. */
#ifndef TMPROF_PAGE_WALK_H
#define TMPROF_PAGE_WALK_H

#include <linux/mm_types.h>
#include <linux/types.h>

#include "driver/core/counter_store.h"

/* Entries of one table. */
#define TMPROF_BLOCK_UNITS 512

/* Contents of one last-level table, or of one huge leaf. Bits and arrays are indexed by unit; a
 * unit is a base page, or the one huge leaf. */
struct tmprof_block {
	unsigned long vpn;	  /* address of unit 0 */
	unsigned long span_pages; /* pages of a unit: 1, 512 or 262144 */
	unsigned int units;	  /* 512, or 1 for a huge leaf */
	bool hugetlb;
	unsigned long present[TMPROF_BLOCK_UNITS / BITS_PER_LONG];
	unsigned long accessed[TMPROF_BLOCK_UNITS / BITS_PER_LONG]; /* bits that were found set */
	unsigned long cleared[TMPROF_BLOCK_UNITS / BITS_PER_LONG];
	/* First base page of the leaf. Valid for present units, with TMPROF_WALK_FRAMES. */
	u64 frame[TMPROF_BLOCK_UNITS];
	/* NUMA node. Valid for accessed units with TMPROF_WALK_NODES, for present units with
	 * TMPROF_WALK_ALL_NODES. */
	u16 node[TMPROF_BLOCK_UNITS];
};

/* The counters' name of the span; only these three are leaves. */
static inline u8 tmprof_span_of(unsigned long span_pages)
{
	return span_pages == 1			  ? TMPROF_SPAN_4K
	       : span_pages == TMPROF_BLOCK_UNITS ? TMPROF_SPAN_2M
						  : TMPROF_SPAN_1G;
}

enum tmprof_walk_flags {
	TMPROF_WALK_CLEAR = 1 << 0,
	TMPROF_WALK_NODES = 1 << 1, /* nodes of accessed leaves */
	TMPROF_WALK_ALL_NODES = 1 << 2,
	TMPROF_WALK_FRAMES = 1 << 3,
};

struct tmprof_walk_counts {
	u64 leaves;	   /* present */
	u64 present_pages; /* huge leaves by their whole span */
	u64 references;	   /* leaves found accessed */
	u64 cleared;	   /* leaves */
	u64 skipped;	   /* leaves: zero page, device memory, tables shared by processes */
	u64 races;	   /* entries of upper tables that changed at each look: not judged */
};

struct tmprof_walk {
	unsigned int flags;
	/* Clear only pages with a bit here; NULL: all. Bit 0 is page select_vpn. */
	const unsigned long *select;
	unsigned long select_vpn;
	unsigned long select_pages;
	/* Called with the mmap lock held for reading and no other; may not sleep for long. Blocks
	 * come ascending, those with nothing present not at all. */
	void (*emit)(struct tmprof_walk *walk, const struct tmprof_block *block);
	struct tmprof_walk_counts counts; /* added to */
	struct tmprof_block block;
};

/* False: tmprof_walk() shows no page of the mapping. Such mappings hold device memory, or may share
 * their page tables with other processes. Call with the mmap lock held for reading. */
bool tmprof_is_walked(const struct vm_area_struct *vma);

/*
 * Walks the mappings of `mm` in [start, end), byte addresses of whole base pages. Stops early after
 * `entries` page-table entries of any level, looked at or skipped, when another task wants the CPU,
 * or after a millisecond. Returns the address to resume at, `end` when done. A huge leaf that
 * straddles `start` or `end` is visited whole. Call with the mmap lock held for reading; takes
 * page-table locks, one at a time.
 */
unsigned long tmprof_walk(struct tmprof_walk *walk, struct mm_struct *mm, unsigned long start,
			  unsigned long end, unsigned long entries);

/*
 * The lowest address from `start` on that may be mapped: `start`, the beginning of a huge leaf or
 * of what a last-level table maps, or where `entries` entries and mappings were looked at in vain;
 * ULONG_MAX: nothing more is mapped. All that tmprof_walk() would show lies at or behind it. Call
 * with the mmap lock held for reading.
 */
unsigned long tmprof_next_mapped(struct mm_struct *mm, unsigned long start, unsigned long entries);

/* True if tmprof_flush() reaches all of a CPU's translations of an address space. */
bool tmprof_can_flush(void);

/* Makes every CPU look up `mm`'s translations anew, so that a cleared bit is set by the next
 * access. Sends interrupts and waits for them: call with no lock and interrupts on. */
void tmprof_flush(struct mm_struct *mm);

#endif /* TMPROF_PAGE_WALK_H */
