/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A set-associative cache of tags: an LLC (of lines) or a TLB (of pages). It says hit or miss and
 * holds no data. No locking: callers serialise.
 */
#ifndef TMPROF_TESTBED_TIERSIM_CACHE_MODEL_H
#define TMPROF_TESTBED_TIERSIM_CACHE_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum tiersim_policy {
  TIERSIM_LRU,         /* evicts the line whose last access is oldest */
  TIERSIM_ROUND_ROBIN, /* evicts the line that was filled first */
};

/* In the order of enum tiersim_policy. */
static const struct tiersim_policy_name {
  const char* option;
  const char* text;
} tiersim_policy_names[] = {{"lru", "LRU"}, {"round-robin", "round robin"}};

#define TIERSIM_POLICIES (sizeof(tiersim_policy_names) / sizeof(*tiersim_policy_names))
#define TIERSIM_MAX_WAYS 64u

struct tiersim_cache {
  uint64_t* tags; /* [sets][ways], granule + 1, 0 empty; LRU: the last used is first */
  uint8_t* next;  /* [sets], round robin's next victim */
  uint64_t set_mask;
  uint32_t ways;
  uint32_t granule_shift;
  enum tiersim_policy policy;
};

/* log2 of a power of two, or -1. */
static inline int tiersim_log2(uint64_t value) {
  return value && !(value & (value - 1)) ? __builtin_ctzll(value) : -1;
}

/*
 * `entries` lines (or translations) of `granule_bytes` each in sets of `ways`, without memory: the
 * caller sets `tags` and `next`, zeroed. Returns NULL, or what is wrong with them: the granule and
 * the number of sets are powers of two, and 1 <= ways <= TIERSIM_MAX_WAYS.
 */
static inline const char* tiersim_cache_shape(struct tiersim_cache* cache, uint64_t entries,
                                              uint32_t ways, uint64_t granule_bytes,
                                              enum tiersim_policy policy) {
  memset(cache, 0, sizeof(*cache));
  if (ways < 1 || ways > TIERSIM_MAX_WAYS) return "ways are 1 to 64";
  if (tiersim_log2(granule_bytes) < 0) return "a line's bytes are a power of two";
  if (entries % ways != 0) return "the lines do not fill sets of that many ways";
  if (tiersim_log2(entries / ways) < 0) return "the number of sets is not a power of two";
  cache->set_mask = entries / ways - 1;
  cache->ways = ways;
  cache->granule_shift = (uint32_t)tiersim_log2(granule_bytes);
  cache->policy = policy;
  return NULL;
}

/* Does what tiersim_cache_shape() does, with memory that tiersim_cache_free() frees. */
static inline const char* tiersim_cache_init(struct tiersim_cache* cache, uint64_t entries,
                                             uint32_t ways, uint64_t granule_bytes,
                                             enum tiersim_policy policy) {
  const char* const error = tiersim_cache_shape(cache, entries, ways, granule_bytes, policy);
  if (error) return error;
  cache->tags = (uint64_t*)calloc(entries, sizeof(*cache->tags));
  cache->next = (uint8_t*)calloc(cache->set_mask + 1, sizeof(*cache->next));
  if (!cache->tags || !cache->next) {
    free(cache->tags);
    free(cache->next);
    memset(cache, 0, sizeof(*cache));
    return "no memory for the model";
  }
  return NULL;
}

static inline void tiersim_cache_free(struct tiersim_cache* cache) {
  free(cache->tags);
  free(cache->next);
  memset(cache, 0, sizeof(*cache));
}

/* Empties it, as a TLB flush does. */
static inline void tiersim_cache_flush(struct tiersim_cache* cache) {
  memset(cache->tags, 0, (cache->set_mask + 1) * cache->ways * sizeof(*cache->tags));
  memset(cache->next, 0, (cache->set_mask + 1) * sizeof(*cache->next));
}

/* Takes the granule of `address` out, if it is in. LRU fills its place next; round
 * robin when its turn comes. */
static inline void tiersim_cache_remove(struct tiersim_cache* cache, uint64_t address) {
  const uint64_t granule = address >> cache->granule_shift;
  uint64_t* const tags = &cache->tags[(granule & cache->set_mask) * cache->ways];
  uint32_t way = 0;
  while (way < cache->ways && tags[way] != granule + 1) ++way;
  if (way == cache->ways) return;
  if (cache->policy == TIERSIM_LRU) {
    memmove(tags + way, tags + way + 1, (cache->ways - 1 - way) * sizeof(*tags));
    tags[cache->ways - 1] = 0;
  } else {
    tags[way] = 0;
  }
}

/* The number of the set that the granule of `address` is in. */
static inline uint64_t tiersim_cache_set(const struct tiersim_cache* cache, uint64_t address) {
  return address >> cache->granule_shift & cache->set_mask;
}

/* True for a hit. A miss brings the granule of `address` in. */
static inline bool tiersim_cache_access(struct tiersim_cache* cache, uint64_t address) {
  const uint64_t granule = address >> cache->granule_shift;
  const uint64_t tag = granule + 1;
  const uint64_t set = granule & cache->set_mask;
  uint64_t* const tags = &cache->tags[set * cache->ways];
  uint32_t way = 0;
  while (way < cache->ways && tags[way] != tag) ++way;
  const bool hit = way < cache->ways;

  if (cache->policy == TIERSIM_LRU) {
    if (way == 0) return true;
    memmove(tags + 1, tags, (hit ? way : cache->ways - 1) * sizeof(*tags));
    tags[0] = tag;
  } else if (!hit) {
    tags[cache->next[set]] = tag;
    cache->next[set] = (uint8_t)((cache->next[set] + 1u) % cache->ways);
  }
  return hit;
}

/* For people: "16384 x 64 B, 16 ways, LRU". Cut to fit. */
static inline void tiersim_cache_describe(const struct tiersim_cache* cache, char* text,
                                          size_t text_bytes) {
  const uint64_t granule_bytes = 1ull << cache->granule_shift;
  snprintf(text, text_bytes, "%llu x %llu B, %u ways, %s",
           (unsigned long long)((cache->set_mask + 1) * cache->ways),
           (unsigned long long)granule_bytes, cache->ways,
           tiersim_policy_names[cache->policy].text);
}

#endif /* TMPROF_TESTBED_TIERSIM_CACHE_MODEL_H */
