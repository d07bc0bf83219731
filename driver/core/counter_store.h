/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The pages one target touched in one epoch, and what was counted for each.
 *
 * A B+ tree that only grows, of 4 KiB nodes. A leaf holds up to 340 pages of 12 bytes, sorted. The
 * scanner comes in ascending order and finds its page at the finger. Reading an epoch out in order
 * costs nothing extra. A full leaf first shares with its neighbours, and three full leaves become
 * four. Leaves thus stay three quarters full: 12 bytes / (3/4) = 16 bytes per page.
 *
 *	bytes <= 16.4 per page + 8 KiB + 4 KiB per 16 TiB of address space touched
 *
 * Sharing only while it gains 4 entries per leaf takes 0.2 of the 0.4 bytes. Half-full branches
 * take the rest. Pages in ascending order take 12.1 bytes. (A table with one array of counters
 * per 2 MiB block was refused: a lone page costs it the whole array. A hash table was refused: it
 * is half empty after it has grown, and needs a sort to be read.)
 *
 * No locking: callers serialise. Adding may allocate, so it runs where `memory->allocate` may.
 */
#ifndef TMPROF_CORE_COUNTER_STORE_H
#define TMPROF_CORE_COUNTER_STORE_H

#include <linux/types.h>
#ifdef __KERNEL__
#include <linux/string.h>
#else
#include <stdbool.h>
#include <string.h>
#endif

#include "driver/core/memory.h"

#define TMPROF_COUNT_MAX    0xffffU
#define TMPROF_NODE_UNKNOWN 0x3ffU /* and every node that has a higher number */

/* A page-table leaf: 4 KiB, 2 MiB or 1 GiB; its pages are 1 << (9 * span). */
enum tmprof_span {
	TMPROF_SPAN_4K = 0,
	TMPROF_SPAN_2M = 1,
	TMPROF_SPAN_1G = 2,
};

/* Counters stop at TMPROF_COUNT_MAX, which then means "at least". */
struct tmprof_counts {
	__u16 references;
	__u16 load_samples;
	__u16 store_samples;
	__u16 place; /* node: 10 bits, span: 2, flags: 4 */
};

static inline __u32 tmprof_counts_node(const struct tmprof_counts *counts)
{
	return counts->place & 0x3ffU;
}

static inline __u32 tmprof_counts_span(const struct tmprof_counts *counts)
{
	return (counts->place >> 10) & 0x3U;
}

static inline __u32 tmprof_counts_flags(const struct tmprof_counts *counts)
{
	return counts->place >> 12;
}

static inline bool tmprof_counts_saturated(const struct tmprof_counts *counts)
{
	return counts->references == TMPROF_COUNT_MAX || counts->load_samples == TMPROF_COUNT_MAX ||
	       counts->store_samples == TMPROF_COUNT_MAX;
}

/* The counts that one scan or a batch of samples adds to a page. A huge page goes by its first
 * vpn. */
struct tmprof_observation {
	__u64 vpn;
	__u32 references;
	__u32 load_samples;
	__u32 store_samples;
	__u16 node; /* TMPROF_NODE_UNKNOWN leaves an earlier one; the last one known wins */
	__u8 span;  /* enum tmprof_span; the largest wins: a sample does not know its page's */
	__u8 flags; /* 4 bits of the caller's; they accumulate */
};

struct tmprof_page {
	__u64 vpn;
	struct tmprof_counts counts;
};

#define TMPROF_TREE_NODE_BYTES	   4096U
#define TMPROF_LEAF_PAGES	   340U
#define TMPROF_BRANCH_CHILDREN	   255U
#define TMPROF_SHARE_WINDOW	   3U
#define TMPROF_SHARE_GAIN_PER_LEAF 4U
/* 127 children at least: 127^6 leaves are more than 57-bit addresses have pages. */
#define TMPROF_TREE_HEIGHT_MAX 6U

/* All pages of a leaf share the upper bits of their vpn: 2^32 pages, 16 TiB, are a region. */
struct tmprof_leaf {
	__u32 count;
	__u32 region;
	struct tmprof_counts counts[TMPROF_LEAF_PAGES];
	__u32 low[TMPROF_LEAF_PAGES]; /* ascending */
};

/* Child i holds the pages of [first[i], first[i + 1]); first[0] bounds nothing: whatever is below
 * it goes to child 0 as well. The first leaf of a region has the region's start for its `first`. */
struct tmprof_branch {
	__u32 count;
	__u32 reserved;
	__u64 first[TMPROF_BRANCH_CHILDREN];
	void *child[TMPROF_BRANCH_CHILDREN]; /* branches, or leaves at the lowest level */
};

struct tmprof_store {
	struct tmprof_memory *memory;
	void *root;
	__u32 height; /* levels of branches above the leaves */
	__u64 pages;
	__u64 nodes;
	__u64 lost; /* observations dropped for want of memory */

	/* The leaf of the last addition, the pages it may hold, and where in it that was. */
	struct tmprof_leaf *finger;
	__u64 finger_start;
	__u64 finger_end;
	__u32 finger_position;
};

/* The way to a leaf, and the half-open range of pages that belong to it. */
struct tmprof_path {
	struct tmprof_branch *branch[TMPROF_TREE_HEIGHT_MAX];
	__u32 slot[TMPROF_TREE_HEIGHT_MAX];
	struct tmprof_leaf *leaf;
	__u64 start;
	__u64 end;
};

static inline void tmprof_store_init(struct tmprof_store *store, struct tmprof_memory *memory)
{
	memset(store, 0, sizeof(*store));
	store->memory = memory;
}

static inline __u64 tmprof_store_bytes(const struct tmprof_store *store)
{
	return store->nodes * TMPROF_TREE_NODE_BYTES;
}

static inline __u64 tmprof_leaf_vpn(const struct tmprof_leaf *leaf, __u32 position)
{
	return (__u64)leaf->region << 32 | leaf->low[position];
}

static inline void tmprof_store_descend(const struct tmprof_store *store, __u64 vpn,
					struct tmprof_path *path)
{
	void *node = store->root;
	__u32 level;

	path->start = 0;
	path->end = ~0ULL;
	for (level = 0; level < store->height; level++) {
		struct tmprof_branch *branch = (struct tmprof_branch *)node;
		__u32 low = 0, high = branch->count;

		while (high - low > 1) {
			__u32 middle = (low + high) / 2;

			if (branch->first[middle] <= vpn)
				low = middle;
			else
				high = middle;
		}
		if (low > 0)
			path->start = branch->first[low];
		if (low + 1 < branch->count)
			path->end = branch->first[low + 1];
		path->branch[level] = branch;
		path->slot[level] = low;
		node = branch->child[low];
	}
	path->leaf = (struct tmprof_leaf *)node;
}

/* The first position whose page is not below; `count` when there is none. */
static inline __u32 tmprof_leaf_position(const struct tmprof_leaf *leaf, __u32 low)
{
	__u32 start = 0, end = leaf->count;

	/* A scan adds in ascending order. */
	if (end > 0 && leaf->low[end - 1] < low)
		return end;
	while (start < end) {
		__u32 middle = (start + end) / 2;

		if (leaf->low[middle] < low)
			start = middle + 1;
		else
			end = middle;
	}
	return start;
}

/* Makes room at a position of a leaf that is not full. */
static inline void tmprof_leaf_open(struct tmprof_leaf *leaf, __u32 position, __u32 room)
{
	__u32 tail = leaf->count - position;

	if (tail > 0) {
		memmove(&leaf->counts[position + room], &leaf->counts[position],
			tail * sizeof(leaf->counts[0]));
		memmove(&leaf->low[position + room], &leaf->low[position],
			tail * sizeof(leaf->low[0]));
	}
	leaf->count += room;
}

static inline void tmprof_leaf_copy(struct tmprof_leaf *to, __u32 to_position,
				    const struct tmprof_leaf *from, __u32 from_position,
				    __u32 count)
{
	memcpy(&to->counts[to_position], &from->counts[from_position],
	       count * sizeof(to->counts[0]));
	memcpy(&to->low[to_position], &from->low[from_position], count * sizeof(to->low[0]));
}

static inline void tmprof_leaf_shift_right(struct tmprof_leaf *left, struct tmprof_leaf *right,
					   __u32 count)
{
	tmprof_leaf_open(right, 0, count);
	tmprof_leaf_copy(right, 0, left, left->count - count, count);
	left->count -= count;
}

static inline void tmprof_leaf_shift_left(struct tmprof_leaf *left, struct tmprof_leaf *right,
					  __u32 count)
{
	__u32 rest = right->count - count;

	tmprof_leaf_copy(left, left->count, right, 0, count);
	left->count += count;
	memmove(&right->counts[0], &right->counts[count], rest * sizeof(right->counts[0]));
	memmove(&right->low[0], &right->low[count], rest * sizeof(right->low[0]));
	right->count = rest;
}

static inline __u32 tmprof_min_u32(__u32 left, __u32 right)
{
	return left < right ? left : right;
}

/*
 * Evens out neighbouring leaves in place. The pages to move across the border after leaf i are the
 * difference between the pages now left of the border and those wanted there. A round moves as many
 * as fit. While a border is unsettled, some leaf next to it has pages to give and its neighbour has
 * room for them, so each round moves some.
 */
static inline void tmprof_leaves_even_out(struct tmprof_leaf *const *leaves, __u32 count)
{
	__u32 total = 0, i, settled;

	for (i = 0; i < count; i++)
		total += leaves[i]->count;
	do {
		__u32 before = total, wanted;

		settled = 1;
		for (i = count - 1; i > 0; i--) {
			before -= leaves[i]->count;
			wanted = total * i / count;
			if (before > wanted) {
				__u32 moved = tmprof_min_u32(
					before - wanted,
					tmprof_min_u32(leaves[i - 1]->count,
						       TMPROF_LEAF_PAGES - leaves[i]->count));

				tmprof_leaf_shift_right(leaves[i - 1], leaves[i], moved);
				settled &= moved == before - wanted;
				before -= moved;
			}
		}
		before = 0;
		for (i = 1; i < count; i++) {
			before += leaves[i - 1]->count;
			wanted = total * i / count;
			if (before < wanted) {
				__u32 moved = tmprof_min_u32(
					wanted - before,
					tmprof_min_u32(leaves[i]->count,
						       TMPROF_LEAF_PAGES - leaves[i - 1]->count));

				tmprof_leaf_shift_left(leaves[i - 1], leaves[i], moved);
				settled &= moved == wanted - before;
				before += moved;
			}
		}
	} while (!settled);
}

static inline __u16 tmprof_saturating_add(__u16 count, __u32 more)
{
	return more < TMPROF_COUNT_MAX - count ? (__u16)(count + more) : (__u16)TMPROF_COUNT_MAX;
}

static inline void tmprof_counts_fold(struct tmprof_counts *counts,
				      const struct tmprof_observation *seen)
{
	__u32 node = seen->node < TMPROF_NODE_UNKNOWN ? seen->node : tmprof_counts_node(counts);
	__u32 span = tmprof_counts_span(counts);
	__u32 flags = tmprof_counts_flags(counts) | (seen->flags & 0xfU);

	if (seen->span > span)
		span = seen->span & 0x3U;
	counts->references = tmprof_saturating_add(counts->references, seen->references);
	counts->load_samples = tmprof_saturating_add(counts->load_samples, seen->load_samples);
	counts->store_samples = tmprof_saturating_add(counts->store_samples, seen->store_samples);
	counts->place = (__u16)(node | span << 10 | flags << 12);
}

static inline void tmprof_leaf_insert(struct tmprof_leaf *leaf, __u32 position,
				      const struct tmprof_observation *seen)
{
	struct tmprof_counts none = {0, 0, 0, TMPROF_NODE_UNKNOWN};

	tmprof_leaf_open(leaf, position, 1);
	leaf->low[position] = (__u32)seen->vpn;
	leaf->counts[position] = none;
	tmprof_counts_fold(&leaf->counts[position], seen);
}

static inline void tmprof_branch_insert(struct tmprof_branch *branch, __u32 slot, __u64 first,
					void *child)
{
	__u32 tail = branch->count - slot;

	memmove(&branch->first[slot + 1], &branch->first[slot], tail * sizeof(branch->first[0]));
	memmove(&branch->child[slot + 1], &branch->child[slot], tail * sizeof(branch->child[0]));
	branch->first[slot] = first;
	branch->child[slot] = child;
	branch->count++;
}

/* Nodes for one insertion, got before anything is changed: a failure changes nothing. */
struct tmprof_spares {
	void *node[TMPROF_TREE_HEIGHT_MAX + 2];
	__u32 count;
};

static inline int tmprof_store_get_spares(struct tmprof_store *store,
					  const struct tmprof_path *path,
					  struct tmprof_spares *spares)
{
	__u32 needed = 1, level = store->height;
	int error = 0;

	if (store->root) {
		while (level > 0 && path->branch[level - 1]->count == TMPROF_BRANCH_CHILDREN) {
			needed++;
			level--;
		}
		needed += level == 0;
	}
	spares->count = 0;
	if (level == 0 && store->height == TMPROF_TREE_HEIGHT_MAX)
		return -ENOSPC;
	while (spares->count < needed && !error) {
		error = tmprof_memory_get(store->memory, TMPROF_TREE_NODE_BYTES,
					  &spares->node[spares->count]);
		spares->count += !error;
	}
	while (error && spares->count > 0)
		tmprof_memory_put(store->memory, spares->node[--spares->count],
				  TMPROF_TREE_NODE_BYTES);
	return error;
}

static inline void *tmprof_store_spend(struct tmprof_store *store, struct tmprof_spares *spares)
{
	store->nodes++;
	return spares->node[--spares->count];
}

static inline struct tmprof_leaf *tmprof_store_new_leaf(struct tmprof_store *store,
							struct tmprof_spares *spares, __u32 region)
{
	struct tmprof_leaf *leaf = (struct tmprof_leaf *)tmprof_store_spend(store, spares);

	leaf->count = 0;
	leaf->region = region;
	return leaf;
}

static inline struct tmprof_branch *tmprof_store_new_branch(struct tmprof_store *store,
							    struct tmprof_spares *spares)
{
	struct tmprof_branch *branch = (struct tmprof_branch *)tmprof_store_spend(store, spares);

	branch->count = 0;
	branch->reserved = 0;
	return branch;
}

/* Hangs a leaf into the branch above `path`, at `slot` of it, splitting what is full. */
static inline void tmprof_store_link(struct tmprof_store *store, struct tmprof_path *path,
				     __u32 slot, __u64 first, void *child,
				     struct tmprof_spares *spares)
{
	__u32 level = store->height;

	while (level > 0) {
		struct tmprof_branch *branch = path->branch[level - 1];
		struct tmprof_branch *right;
		__u32 kept;

		if (branch->count < TMPROF_BRANCH_CHILDREN) {
			tmprof_branch_insert(branch, slot, first, child);
			return;
		}
		right = tmprof_store_new_branch(store, spares);
		/* At its end the branch grows in ascending order: it is left full. */
		kept = slot == branch->count ? branch->count : branch->count / 2;
		right->count = branch->count - kept;
		memcpy(right->first, &branch->first[kept], right->count * sizeof(right->first[0]));
		memcpy(right->child, &branch->child[kept], right->count * sizeof(right->child[0]));
		branch->count = kept;
		if (slot > kept || right->count == 0)
			tmprof_branch_insert(right, slot - kept, first, child);
		else
			tmprof_branch_insert(branch, slot, first, child);
		first = right->first[0];
		child = right;
		level--;
		if (level > 0)
			slot = path->slot[level - 1] + 1;
		else
			slot = 1;
	}
	{
		struct tmprof_branch *root = tmprof_store_new_branch(store, spares);

		tmprof_branch_insert(root, 0, 0, store->root);
		tmprof_branch_insert(root, slot, first, child);
		store->root = root;
		store->height++;
	}
}

/* The leaf's neighbours under the same branch and of the same region, the leaf among them: up to
 * TMPROF_SHARE_WINDOW, `*start` the slot of the first. */
static inline __u32 tmprof_path_window(const struct tmprof_store *store,
				       const struct tmprof_path *path, struct tmprof_leaf **window,
				       __u32 *start)
{
	const struct tmprof_branch *branch;
	__u32 slot, left, right, i;

	if (store->height == 0) {
		window[0] = path->leaf;
		*start = 0;
		return 1;
	}
	branch = path->branch[store->height - 1];
	slot = path->slot[store->height - 1];
	left = slot;
	right = slot + 1;
	for (i = 1; i < TMPROF_SHARE_WINDOW; i++) {
		bool more_right =
			right < branch->count &&
			((struct tmprof_leaf *)branch->child[right])->region == path->leaf->region;
		bool more_left =
			left > 0 && ((struct tmprof_leaf *)branch->child[left - 1])->region ==
					    path->leaf->region;

		if (more_right && (right - slot <= slot - left || !more_left))
			right++;
		else if (more_left)
			left--;
	}
	for (i = left; i < right; i++)
		window[i - left] = (struct tmprof_leaf *)branch->child[i];
	*start = left;
	return right - left;
}

/* Inserts a page for which its leaf has no room, or which is the first of its region. */
static inline int tmprof_store_grow(struct tmprof_store *store, struct tmprof_path *path,
				    const struct tmprof_observation *seen)
{
	struct tmprof_leaf *window[TMPROF_SHARE_WINDOW + 1];
	struct tmprof_leaf *leaf = path->leaf;
	struct tmprof_spares spares;
	__u32 region = (__u32)(seen->vpn >> 32);
	__u32 slot = store->height > 0 ? path->slot[store->height - 1] : 0;
	__u32 start, count, room = 0, i;
	bool added;
	int error;

	if (!leaf || leaf->region != region) {
		error = tmprof_store_get_spares(store, path, &spares);
		if (error)
			return error;
		window[0] = tmprof_store_new_leaf(store, &spares, region);
		tmprof_leaf_insert(window[0], 0, seen);
		if (!leaf) {
			store->root = window[0];
		} else if (region > leaf->region) {
			tmprof_store_link(store, path, slot + 1, (__u64)region << 32, window[0],
					  &spares);
		} else if (store->height > 0) {
			/* Below everything: child 0 has no lower bound yet, its own region is. */
			path->branch[store->height - 1]->first[0] = (__u64)leaf->region << 32;
			tmprof_store_link(store, path, 0, (__u64)region << 32, window[0], &spares);
		} else {
			store->root = window[0];
			tmprof_store_link(store, path, 1, (__u64)leaf->region << 32, leaf, &spares);
		}
		return 0;
	}

	/* At the end of its region the tree grows in ascending order: the leaf is left full. */
	if (path->end >> 32 > region && seen->vpn > tmprof_leaf_vpn(leaf, leaf->count - 1)) {
		error = tmprof_store_get_spares(store, path, &spares);
		if (error)
			return error;
		window[0] = tmprof_store_new_leaf(store, &spares, region);
		tmprof_leaf_insert(window[0], 0, seen);
		tmprof_store_link(store, path, slot + 1, seen->vpn, window[0], &spares);
		return 0;
	}

	count = tmprof_path_window(store, path, window, &start);
	for (i = 0; i < count; i++)
		room += TMPROF_LEAF_PAGES - window[i]->count;
	added = room < count * TMPROF_SHARE_GAIN_PER_LEAF;
	if (added) {
		error = tmprof_store_get_spares(store, path, &spares);
		if (error)
			return error;
		window[count++] = tmprof_store_new_leaf(store, &spares, region);
	}
	tmprof_leaves_even_out(window, count);
	if (store->height > 0) {
		struct tmprof_branch *branch = path->branch[store->height - 1];

		for (i = 1; i < count - added; i++)
			branch->first[start + i] = tmprof_leaf_vpn(window[i], 0);
	}
	i = count - 1;
	while (i > 0 && tmprof_leaf_vpn(window[i], 0) > seen->vpn)
		i--;
	tmprof_leaf_insert(window[i], tmprof_leaf_position(window[i], (__u32)seen->vpn), seen);
	if (added)
		tmprof_store_link(store, path, start + count - 1,
				  tmprof_leaf_vpn(window[count - 1], 0), window[count - 1],
				  &spares);
	return 0;
}

/* Adds to a page of this leaf, if it has the page or room for it; `position`: where it may be. */
static inline bool tmprof_leaf_add(struct tmprof_store *store, struct tmprof_leaf *leaf,
				   __u32 position, const struct tmprof_observation *seen)
{
	__u32 low = (__u32)seen->vpn;

	if (leaf->region != seen->vpn >> 32)
		return false;
	if (position >= leaf->count || leaf->low[position] != low)
		position = tmprof_leaf_position(leaf, low);
	store->finger_position = position;
	if (position < leaf->count && leaf->low[position] == low) {
		tmprof_counts_fold(&leaf->counts[position], seen);
		return true;
	}
	if (leaf->count == TMPROF_LEAF_PAGES)
		return false;
	tmprof_leaf_insert(leaf, position, seen);
	store->pages++;
	return true;
}

/* Apart from tmprof_store_add(), so that only those pay for a path who need one: kernels clear what
 * is on the stack (CONFIG_INIT_STACK_ALL_ZERO). */
static __attribute__((__noinline__, __unused__)) int
tmprof_store_add_by_path(struct tmprof_store *store, const struct tmprof_observation *seen)
{
	struct tmprof_path path;
	int error;

	tmprof_store_descend(store, seen->vpn, &path);
	store->finger = path.leaf;
	store->finger_start = path.start;
	store->finger_end = path.end;
	if (path.leaf && tmprof_leaf_add(store, path.leaf, 0, seen))
		return 0;
	store->finger = NULL;
	error = tmprof_store_grow(store, &path, seen);
	if (error)
		store->lost++;
	else
		store->pages++;
	return error;
}

/*
 * Adds to a page's counters. 0, or -ENOSPC at the memory's limit or -ENOMEM without memory: then
 * the observation is lost and counted, and the store is as before. A page that is there already
 * never fails.
 */
static inline int tmprof_store_add(struct tmprof_store *store,
				   const struct tmprof_observation *seen)
{
	if (store->finger && seen->vpn >= store->finger_start && seen->vpn < store->finger_end &&
	    tmprof_leaf_add(store, store->finger, store->finger_position + 1, seen))
		return 0;
	return tmprof_store_add_by_path(store, seen);
}

/* NULL: the page was not touched. Valid until the next addition. */
static inline const struct tmprof_counts *tmprof_store_find(const struct tmprof_store *store,
							    __u64 vpn)
{
	struct tmprof_path path;
	__u32 position;

	tmprof_store_descend(store, vpn, &path);
	if (!path.leaf || path.leaf->region != vpn >> 32)
		return NULL;
	position = tmprof_leaf_position(path.leaf, (__u32)vpn);
	if (position == path.leaf->count || path.leaf->low[position] != (__u32)vpn)
		return NULL;
	return &path.leaf->counts[position];
}

/* Copies up to `limit` pages from `vpn` on, ascending; fewer only at the end. To go on, ask again
 * from the last one's vpn + 1. */
static inline __u32 tmprof_store_read(const struct tmprof_store *store, __u64 vpn,
				      struct tmprof_page *pages, __u32 limit)
{
	struct tmprof_path path;
	__u32 copied = 0;

	if (!store->root)
		return 0;
	do {
		__u32 position = 0;

		tmprof_store_descend(store, vpn, &path);
		if (path.leaf->region < vpn >> 32)
			position = path.leaf->count;
		else if (path.leaf->region == vpn >> 32)
			position = tmprof_leaf_position(path.leaf, (__u32)vpn);
		for (; position < path.leaf->count && copied < limit; position++, copied++) {
			pages[copied].vpn = tmprof_leaf_vpn(path.leaf, position);
			pages[copied].counts = path.leaf->counts[position];
		}
		vpn = path.end;
	} while (copied < limit && path.end != ~0ULL);
	return copied;
}

/* Frees all nodes; what was lost is forgotten as well. */
static inline void tmprof_store_clear(struct tmprof_store *store)
{
	struct tmprof_branch *branch[TMPROF_TREE_HEIGHT_MAX + 1];
	__u32 next[TMPROF_TREE_HEIGHT_MAX + 1];
	void *node = store->root;
	__u32 level = 0;

	while (node) {
		if (level < store->height) {
			branch[level] = (struct tmprof_branch *)node;
			next[level] = 0;
			node = branch[level]->child[0];
			level++;
			continue;
		}
		/* A leaf, or a branch whose children are gone. */
		tmprof_memory_put(store->memory, node, TMPROF_TREE_NODE_BYTES);
		node = NULL;
		while (level > 0 && !node) {
			level--;
			if (++next[level] < branch[level]->count) {
				node = branch[level]->child[next[level]];
				level++;
			} else {
				tmprof_memory_put(store->memory, branch[level],
						  TMPROF_TREE_NODE_BYTES);
			}
		}
	}
	tmprof_store_init(store, store->memory);
}

/* Turns the epoch: `ended` takes the counts gathered in `running`, and `running` starts empty. The
 * caller must have cleared the old contents of `ended`. Constant time. */
static inline void tmprof_store_turn_over(struct tmprof_store *running, struct tmprof_store *ended)
{
	*ended = *running;
	ended->finger = NULL;
	tmprof_store_init(running, running->memory);
}

#endif /* TMPROF_CORE_COUNTER_STORE_H */
