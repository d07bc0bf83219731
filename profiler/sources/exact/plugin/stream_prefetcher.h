/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A stream prefetcher, one for each vCPU. Once two accesses in a row went to the next line of a
 * page, in the same direction, the lines ahead are to be fetched. It never goes beyond the page, as
 * in hardware (Intel 64 and IA-32 Architectures Optimization Reference Manual, "Data Prefetching").
 */
#ifndef TMPROF_TESTBED_TIERSIM_STREAM_PREFETCHER_H
#define TMPROF_TESTBED_TIERSIM_STREAM_PREFETCHER_H

#include <stdint.h>

#define TIERSIM_STREAMS 16u /* pages followed at a time; the one seen longest ago goes first */
#define TIERSIM_PAGE_SHIFT 12u

struct tiersim_stream {
  uint64_t page; /* physical page + 1, 0 empty */
  uint64_t used; /* when it was last seen */
  int32_t line;  /* within the page */
  int32_t step;  /* 1, -1 or, before there is a direction, 0 */
};

struct tiersim_prefetcher {
  struct tiersim_stream streams[TIERSIM_STREAMS];
  uint64_t now;
};

/*
 * The lines that an access to `address`, one that missed L1, has fetched: `ahead` lines from *first
 * on, *step apart. Returns how many of them lie in the page, 0 for none. line_shift: log2 of a
 * line's bytes.
 */
static inline uint32_t tiersim_prefetch(struct tiersim_prefetcher* prefetcher, uint64_t address,
                                        uint32_t line_shift, uint32_t ahead, uint64_t* first,
                                        int64_t* step) {
  const uint64_t page = (address >> TIERSIM_PAGE_SHIFT) + 1;
  const int32_t lines = 1 << (TIERSIM_PAGE_SHIFT - line_shift);
  const int32_t line = (int32_t)((address >> line_shift) & (uint64_t)(lines - 1));
  struct tiersim_stream* stream = &prefetcher->streams[0];
  for (uint32_t i = 0; i < TIERSIM_STREAMS; ++i) {
    struct tiersim_stream* const other = &prefetcher->streams[i];
    if (other->page == page) {
      stream = other;
      break;
    }
    if (other->used < stream->used) stream = other;
  }
  const int32_t moved = line - stream->line;
  const int32_t before = stream->step;
  const int known = stream->page == page;
  if (!known || moved) {
    stream->step = known && (moved == 1 || moved == -1) ? moved : 0;
    stream->line = line;
  }
  stream->page = page;
  stream->used = ++prefetcher->now;
  if (!known || !moved || !before || stream->step != before) return 0;
  const int32_t left = before > 0 ? lines - 1 - line : line;
  *step = before * (int64_t)(1 << line_shift);
  *first = (address >> line_shift << line_shift) + (uint64_t)*step;
  return left < (int32_t)ahead ? (uint32_t)left : ahead;
}

#endif /* TMPROF_TESTBED_TIERSIM_STREAM_PREFETCHER_H */
