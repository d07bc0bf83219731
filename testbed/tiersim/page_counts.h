/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Exact counts by target, virtual page and frame, as entries of the truth stream, in the order in
 * which they came first. No locking: one vCPU's own.
 */
#ifndef TMPROF_TESTBED_TIERSIM_PAGE_COUNTS_H
#define TMPROF_TESTBED_TIERSIM_PAGE_COUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/sources/exact/plugin/format/truth_stream.h"

struct tiersim_pages {
  struct tmprof_truth_page* entries;
  uint32_t count;
  uint32_t capacity;
  uint32_t* index; /* [index_mask + 1], position in entries + 1, 0 empty; at most half full */
  uint32_t index_mask;
  uint32_t last; /* the entry asked for last: accesses come in runs of one page */
};

static inline uint32_t tiersim_pages_hash(uint32_t target, uint64_t vpn, uint64_t pfn) {
  /* Fibonacci hashing (Knuth, TAOCP vol. 3, 6.4): the high bits are the good ones. */
  const uint64_t key = vpn ^ (pfn << 21) ^ ((uint64_t)target << 42);
  return (uint32_t)((key * 0x9e3779b97f4a7c15ull) >> 32);
}

static inline bool tiersim_pages_is(const struct tmprof_truth_page* page, uint32_t target,
                                    uint64_t vpn, uint64_t pfn) {
  return page->vpn == vpn && page->pfn == pfn && page->target == target;
}

static inline bool tiersim_pages_grow(struct tiersim_pages* pages) {
  const uint32_t capacity = pages->capacity ? 2 * pages->capacity : 1024;
  struct tmprof_truth_page* const entries =
      (struct tmprof_truth_page*)realloc(pages->entries, capacity * sizeof(*entries));
  if (entries) pages->entries = entries;
  uint32_t* const index = (uint32_t*)calloc(2 * (size_t)capacity, sizeof(*index));
  if (!entries || !index) {
    free(index);
    return false;
  }
  const uint32_t mask = 2 * capacity - 1;
  for (uint32_t i = 0; i < pages->count; ++i) {
    uint32_t at = tiersim_pages_hash(entries[i].target, entries[i].vpn, entries[i].pfn) & mask;
    while (index[at]) at = (at + 1) & mask;
    index[at] = i + 1;
  }
  free(pages->index);
  pages->index = index;
  pages->index_mask = mask;
  pages->capacity = capacity;
  return true;
}

/* The entry, new ones without counts, node or flags. NULL: no memory. Good until the next call. */
static inline struct tmprof_truth_page* tiersim_pages_find(struct tiersim_pages* pages,
                                                           uint32_t target, uint64_t vpn,
                                                           uint64_t pfn) {
  if (pages->last < pages->count &&
      tiersim_pages_is(&pages->entries[pages->last], target, vpn, pfn))
    return &pages->entries[pages->last];
  if (pages->count == pages->capacity && !tiersim_pages_grow(pages)) return NULL;
  uint32_t at = tiersim_pages_hash(target, vpn, pfn) & pages->index_mask;
  while (pages->index[at] &&
         !tiersim_pages_is(&pages->entries[pages->index[at] - 1], target, vpn, pfn))
    at = (at + 1) & pages->index_mask;
  if (!pages->index[at]) {
    struct tmprof_truth_page* const page = &pages->entries[pages->count];
    memset(page, 0, sizeof(*page));
    page->target = target;
    page->vpn = vpn;
    page->pfn = pfn;
    pages->index[at] = ++pages->count;
  }
  pages->last = pages->index[at] - 1;
  return &pages->entries[pages->last];
}

static inline void tiersim_pages_clear(struct tiersim_pages* pages) {
  if (pages->index)
    memset(pages->index, 0, ((size_t)pages->index_mask + 1) * sizeof(*pages->index));
  pages->count = 0;
  pages->last = 0;
}

static inline void tiersim_pages_free(struct tiersim_pages* pages) {
  free(pages->entries);
  free(pages->index);
  memset(pages, 0, sizeof(*pages));
}

#endif /* TMPROF_TESTBED_TIERSIM_PAGE_COUNTS_H */
