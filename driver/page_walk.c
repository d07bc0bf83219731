// SPDX-License-Identifier: GPL-2.0-only
/*
 * The walk is written by hand, because walk_page_range() and its like are not exported.
 *
 * Why each pointer stays good, with the mmap lock held for reading:
 * - Upper tables are freed by munmap(), mremap() and exit only, which hold it for writing, or
 *   act on address ranges that no mapping covers any more. A hugetlb table that processes share
 *   can be given up by truncation without it: mappings that may share are skipped.
 * - A last-level table may be freed by a collapse to a huge page or by madvise(), which wait for
 *   RCU readers from 6.5 on, and before that hold the lock for writing. It may also be taken out
 *   of its place at any time: so its entry is compared again once the table's own lock is held.
 *   The walk then looks at the entry anew, a few times. What keeps changing is a race, of which
 *   nothing is known.
 * - A leaf is changed by others under the same page-table lock; the hardware sets bits without it,
 *   so the accessed bit is cleared by an atomic operation.
 */

#include <linux/bitmap.h>
#include <linux/hugetlb.h>
#include <linux/ktime.h>
#include <linux/mm.h>
#include <linux/page_idle.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include "driver/compat/compat.h"
#include "driver/page_walk.h"
#include "driver/uapi/tmprof.h"

/* Looks at an entry that changes each time. The hardware, too, changes one as it sets the accessed
 * bit of a table. */
#define MOST_TRIES 8

/* A hold of the mmap lock ends after this time, at the next table, however many entries are left.
 * A walk may be preempted in the middle, and then need_resched() no longer shows it. */
#define LONGEST_HOLD_NS NSEC_PER_MSEC
/* Entries between two looks at the clock: as many as a table has, which take 2 to 30 us. */
#define ENTRIES_PER_CLOCK 512

struct position {
	struct vm_area_struct *vma;
	struct mm_struct *mm;
	long entries;  /* to look at yet */
	long clock_at; /* the clock is looked at when there are no more than that */
	u64 until_ns;  /* 0: the clock was not looked at yet */
	bool hugetlb;
};

static bool selected(const struct tmprof_walk *walk, unsigned long vpn, unsigned long span)
{
	unsigned long first, end;

	if (!walk->select)
		return true;
	if (vpn + span <= walk->select_vpn)
		return false;
	first = vpn > walk->select_vpn ? vpn - walk->select_vpn : 0;
	end = min(vpn + span - walk->select_vpn, walk->select_pages);
	return find_next_bit(walk->select, end, first) < end;
}

/* Gives the access whose bit was cleared to others. Reclaim and page_idle look for it in the young
 * flag, and DAMON and /proc/kpageflags in the idle flag. */
static void keep_access(struct folio *folio)
{
	/* Most have both from the pass before: the tests spare them atomic operations. */
	if (!folio_test_young(folio))
		folio_set_young(folio);
	if (folio_test_idle(folio))
		folio_clear_idle(folio);
}

/* True if the walk needs more of a leaf than its bits. Otherwise the struct page is not touched. */
static bool is_wanted(const struct tmprof_walk *walk, bool accessed)
{
	unsigned int of_all = TMPROF_WALK_ALL_NODES | TMPROF_WALK_FRAMES;

	return walk->flags & (accessed ? of_all | TMPROF_WALK_NODES | TMPROF_WALK_CLEAR : of_all);
}

/* One present leaf, under its page-table lock. */
static void look(struct tmprof_walk *walk, void *entry, bool accessed, unsigned long frame,
		 unsigned int unit)
{
	struct tmprof_block *block = &walk->block;
	struct page *page = pfn_to_page(frame);

	block->frame[unit] = frame;
	if (walk->flags & (TMPROF_WALK_NODES | TMPROF_WALK_ALL_NODES))
		block->node[unit] = page_to_nid(page);
	if (!accessed || !(walk->flags & TMPROF_WALK_CLEAR) ||
	    !selected(walk, block->vpn + unit * block->span_pages, block->span_pages))
		return;
	if (test_and_clear_bit(_PAGE_BIT_ACCESSED, entry)) {
		keep_access(page_folio(page));
		__set_bit(unit, block->cleared);
	}
}

static void begin_block(struct tmprof_walk *walk, unsigned long address, unsigned long span_pages,
			bool hugetlb)
{
	struct tmprof_block *block = &walk->block;

	block->vpn = (address >> PAGE_SHIFT) &
		     ~((span_pages == 1 ? TMPROF_BLOCK_UNITS : span_pages) - 1);
	block->span_pages = span_pages;
	block->units = span_pages == 1 ? TMPROF_BLOCK_UNITS : 1;
	block->hugetlb = hugetlb;
	bitmap_zero(block->present, TMPROF_BLOCK_UNITS);
	bitmap_zero(block->accessed, TMPROF_BLOCK_UNITS);
	bitmap_zero(block->cleared, TMPROF_BLOCK_UNITS);
}

static void end_block(struct tmprof_walk *walk)
{
	const struct tmprof_block *block = &walk->block;
	struct tmprof_walk_counts *counts = &walk->counts;
	unsigned int present = bitmap_weight(block->present, TMPROF_BLOCK_UNITS);

	if (!present)
		return;
	counts->leaves += present;
	counts->present_pages += present * block->span_pages;
	counts->references += bitmap_weight(block->accessed, TMPROF_BLOCK_UNITS);
	counts->cleared += bitmap_weight(block->cleared, TMPROF_BLOCK_UNITS);
	walk->emit(walk, block);
}

/* Units of one word of the bitmaps. Most pages are present and idle: this loop is what a pass
 * costs them. */
static void walk_word(struct tmprof_walk *walk, pte_t *entry, unsigned int unit, unsigned int end)
{
	unsigned long present = 0, accessed = 0;
	unsigned int word = unit / BITS_PER_LONG;

	for (; unit < end; unit++, entry++) {
		pte_t value = READ_ONCE(*entry);

		if (!pte_present(value))
			continue;
		if (pte_special(value) || tmprof_pte_devmap(value)) {
			walk->counts.skipped++;
			continue;
		}
		present |= BIT(unit % BITS_PER_LONG);
		if (pte_young(value))
			accessed |= BIT(unit % BITS_PER_LONG);
		if (is_wanted(walk, pte_young(value)))
			look(walk, entry, pte_young(value), pte_pfn(value), unit);
	}
	walk->block.present[word] = present;
	walk->block.accessed[word] = accessed;
}

/* Returns false if the table was taken out of its place meanwhile, or its entry changed. */
static bool walk_table(struct tmprof_walk *walk, struct position *at, pmd_t *pmd,
		       unsigned long address, unsigned long end)
{
	unsigned int unit = pte_index(address), units = (end - address) >> PAGE_SHIFT;
	unsigned int units_end = unit + units, next;
	spinlock_t *lock;
	bool same = false;
	pmd_t table;
	pte_t *entries;

	begin_block(walk, address, 1, false);
	rcu_read_lock();
	table = READ_ONCE(*pmd);
	if (!pmd_present(table) || pmd_leaf(table) || pmd_bad(table))
		goto out;
	entries = (pte_t *)pmd_page_vaddr(table);
	lock = pte_lockptr(at->mm, &table);
	spin_lock(lock);
	same = pmd_val(READ_ONCE(*pmd)) == pmd_val(table);
	for (; same && unit < units_end; unit = next) {
		next = min_t(unsigned int, round_down(unit, BITS_PER_LONG) + BITS_PER_LONG,
			     units_end);
		walk_word(walk, entries + unit, unit, next);
	}
	spin_unlock(lock);
out:
	rcu_read_unlock();
	at->entries -= units;
	end_block(walk);
	return same;
}

static void look_huge(struct tmprof_walk *walk, void *entry, bool accessed, unsigned long frame)
{
	walk->block.present[0] = 1;
	walk->block.accessed[0] = accessed;
	if (is_wanted(walk, accessed))
		look(walk, entry, accessed, frame, 0);
}

/* The huge zero page is read-only, anonymous memory without an anonymous page. */
static bool is_zero_leaf(const struct position *at, pmd_t value)
{
	return vma_is_anonymous(at->vma) && !PageAnon(pmd_page(value));
}

/* Returns whether there was a leaf, which is none of base pages. */
static bool walk_pmd_leaf(struct tmprof_walk *walk, struct position *at, pmd_t *pmd,
			  unsigned long address)
{
	spinlock_t *lock;
	pmd_t value;
	bool leaf;

	begin_block(walk, address, PMD_SIZE >> PAGE_SHIFT, at->hugetlb);
	lock = pmd_lock(at->mm, pmd);
	value = READ_ONCE(*pmd);
	leaf = pmd_present(value) && pmd_leaf(value);
	if (leaf) {
		if (tmprof_pmd_devmap(value) || is_zero_leaf(at, value))
			walk->counts.skipped++;
		else
			look_huge(walk, pmd, pmd_young(value), pmd_pfn(value));
	}
	spin_unlock(lock);
	at->entries--;
	if (leaf)
		end_block(walk);
	return leaf;
}

/* Returns whether there was a leaf, as above. Leaves of 1 GiB are hugetlb's; device memory's are in
 * mappings that are skipped. */
static bool walk_pud_leaf(struct tmprof_walk *walk, struct position *at, pud_t *pud,
			  unsigned long address)
{
	pud_t value;
	bool leaf;

	begin_block(walk, address, PUD_SIZE >> PAGE_SHIFT, at->hugetlb);
	spin_lock(&at->mm->page_table_lock);
	value = READ_ONCE(*pud);
	leaf = pud_present(value) && pud_leaf(value);
	if (leaf) {
		if (at->hugetlb)
			look_huge(walk, pud, pud_young(value), pud_pfn(value));
		else
			walk->counts.skipped++;
	}
	spin_unlock(&at->mm->page_table_lock);
	at->entries--;
	if (leaf)
		end_block(walk);
	return leaf;
}

static bool is_over(struct position *at)
{
	u64 now_ns;

	/* Others may want the CPU for long: not with the mmap lock held. */
	if (need_resched())
		return true;
	if (at->entries > at->clock_at)
		return false;
	at->clock_at = at->entries - ENTRIES_PER_CLOCK;
	now_ns = ktime_get_ns();
	if (!at->until_ns)
		at->until_ns = now_ns + LONGEST_HOLD_NS;
	return now_ns >= at->until_ns;
}

static unsigned long walk_pmd(struct tmprof_walk *walk, struct position *at, pmd_t *pmd,
			      unsigned long address, unsigned long end)
{
	unsigned long next = pmd_addr_end(address, end);
	unsigned int tries = 0;
	bool done;

	do {
		pmd_t value = READ_ONCE(*pmd);

		if (pmd_none(value) || !pmd_present(value)) {
			at->entries--;
			done = true;
		} else if (pmd_leaf(value)) {
			done = walk_pmd_leaf(walk, at, pmd, address);
		} else {
			done = walk_table(walk, at, pmd, address, next);
		}
	} while (!done && ++tries < MOST_TRIES);
	walk->counts.races += !done;
	if (is_over(at))
		at->entries = 0;
	return next;
}

/* The loops of all levels walk one entry at least, whatever is left of the limit, so that each
 * call of tmprof_walk() gets on. Their `address` is below their `end`. */
static unsigned long walk_pmds(struct tmprof_walk *walk, struct position *at, pud_t pud,
			       unsigned long address, unsigned long end)
{
	pmd_t *pmd = pmd_offset(&pud, address);

	do
		address = walk_pmd(walk, at, pmd++, address, end);
	while (address < end && at->entries > 0);
	return address;
}

static unsigned long walk_pud(struct tmprof_walk *walk, struct position *at, pud_t *pud,
			      unsigned long address, unsigned long end)
{
	unsigned long next = pud_addr_end(address, end);
	unsigned int tries;

	for (tries = 0; tries < MOST_TRIES; tries++) {
		pud_t value = READ_ONCE(*pud);

		at->entries--;
		if (pud_none(value) || !pud_present(value))
			return next;
		if (!pud_leaf(value) && !pud_bad(value))
			return walk_pmds(walk, at, value, address, next);
		if (pud_leaf(value) && walk_pud_leaf(walk, at, pud, address))
			return next;
	}
	walk->counts.races++;
	return next;
}

static unsigned long walk_puds(struct tmprof_walk *walk, struct position *at, p4d_t *p4d,
			       unsigned long address, unsigned long end)
{
	pud_t *pud = pud_offset(p4d, address);

	do
		address = walk_pud(walk, at, pud++, address, end);
	while (address < end && at->entries > 0);
	return address;
}

static unsigned long walk_pgd(struct tmprof_walk *walk, struct position *at, unsigned long address,
			      unsigned long end)
{
	/* With four levels the p4d is the pgd, and pgd_none() is never true. In a kernel built for
	 * four levels only, p4d_addr_end() returns its second argument. */
	unsigned long next = pgd_addr_end(address, end);
	pgd_t *pgd = pgd_offset(at->mm, address);
	p4d_t *p4d;

	at->entries--;
	if (pgd_none(*pgd) || pgd_bad(*pgd))
		return next;
	p4d = p4d_offset(pgd, address);
	next = p4d_addr_end(address, next);
	if (p4d_none(*p4d) || p4d_bad(*p4d))
		return next;
	return walk_puds(walk, at, p4d, address, next);
}

static unsigned long walk_mapping(struct tmprof_walk *walk, struct position *at,
				  unsigned long address, unsigned long end)
{
	do
		address = walk_pgd(walk, at, address, end);
	while (address < end && at->entries > 0);
	return address;
}

/* hugetlb shares the tables of 2 MiB pages between processes that map the same whole 1 GiB of a
 * file. A page of 1 GiB needs no such table (mm/hugetlb.c, huge_pte_alloc()). */
static bool may_share_tables(const struct vm_area_struct *vma)
{
	/* The kernel's helpers change nothing in it. */
	struct vm_area_struct *mapping = (struct vm_area_struct *)vma;

	return is_vm_hugetlb_page(mapping) && vma->vm_flags & VM_MAYSHARE &&
	       huge_page_size(hstate_vma(mapping)) == PMD_SIZE &&
	       ALIGN(vma->vm_start, PUD_SIZE) + PUD_SIZE <= vma->vm_end;
}

/* Device memory: what is there cannot be moved, and may not have a page of its own. */
static bool is_device(const struct vm_area_struct *vma)
{
	return vma->vm_flags & (VM_PFNMAP | VM_IO) || vma_is_dax(vma);
}

bool tmprof_is_walked(const struct vm_area_struct *vma)
{
	return !is_device(vma) && !may_share_tables(vma);
}

static unsigned long walk_unless_skipped(struct tmprof_walk *walk, struct position *at,
					 unsigned long address, unsigned long end)
{
	at->entries--;
	if (is_device(at->vma))
		return end;
	if (may_share_tables(at->vma)) {
		walk->counts.skipped += (end - address) >> PMD_SHIFT;
		return end;
	}
	at->hugetlb = is_vm_hugetlb_page(at->vma);
	return walk_mapping(walk, at, address, end);
}

unsigned long tmprof_walk(struct tmprof_walk *walk, struct mm_struct *mm, unsigned long start,
			  unsigned long end, unsigned long entries)
{
	struct position at = {.mm = mm, .entries = min_t(unsigned long, entries, LONG_MAX)};
	VMA_ITERATOR(mappings, mm, start);

	mmap_assert_locked(mm);
	at.clock_at = at.entries - ENTRIES_PER_CLOCK;
	for_each_vma_range (mappings, at.vma, end) {
		unsigned long to = min(end, at.vma->vm_end);
		unsigned long next =
			walk_unless_skipped(walk, &at, max(start, at.vma->vm_start), to);

		if (next < to || at.entries <= 0)
			return next;
	}
	return end;
}

static bool pmd_in_use(pud_t pud, unsigned long address)
{
	return pud_leaf(pud) || pud_bad(pud) || pmd_present(READ_ONCE(*pmd_offset(&pud, address)));
}

/* The address itself if it is under a leaf or a last-level table; else the end of what the empty
 * entry spans. */
static unsigned long skip_empty(struct mm_struct *mm, unsigned long address, unsigned long end)
{
	pgd_t *pgd = pgd_offset(mm, address);
	p4d_t *p4d;
	pud_t pud;

	if (pgd_none(*pgd) || pgd_bad(*pgd))
		return pgd_addr_end(address, end);
	p4d = p4d_offset(pgd, address);
	if (p4d_none(*p4d) || p4d_bad(*p4d))
		return p4d_addr_end(address, pgd_addr_end(address, end));
	pud = READ_ONCE(*pud_offset(p4d, address));
	if (!pud_present(pud))
		return pud_addr_end(address, end);
	return pmd_in_use(pud, address) ? address : pmd_addr_end(address, end);
}

unsigned long tmprof_next_mapped(struct mm_struct *mm, unsigned long start, unsigned long entries)
{
	struct vm_area_struct *vma;
	VMA_ITERATOR(mappings, mm, start);

	mmap_assert_locked(mm);
	for_each_vma(mappings, vma)
	{
		unsigned long address = max(start, vma->vm_start);

		if (!tmprof_is_walked(vma))
			address = vma->vm_end;
		while (address < vma->vm_end && entries) {
			unsigned long next = skip_empty(mm, address, vma->vm_end);

			if (next == address)
				return address;
			address = next;
			entries--;
		}
		if (!entries || !--entries)
			return address;
	}
	return ULONG_MAX;
}

bool tmprof_can_flush(void)
{
	/* Rewriting CR3 leaves the translations of other PCIDs, the user half's among them. */
	return boot_cpu_has(X86_FEATURE_INVPCID) || !boot_cpu_has(X86_FEATURE_PCID);
}

static void flush_this_cpu(void *unused)
{
	if (boot_cpu_has(X86_FEATURE_INVPCID))
		invpcid_flush_all_nonglobals();
	else
		native_write_cr3(__native_read_cr3());
}

void tmprof_flush(struct mm_struct *mm)
{
	on_each_cpu_mask(tmprof_tlb_cpus(mm), flush_this_cpu, NULL, true);
}
