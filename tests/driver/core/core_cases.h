/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Cases of driver/core that hold wherever it is compiled: GoogleTest runs them in user space,
 * tests/driver/kunit in the kernel. Expected values are worked out by hand.
 */
#ifndef TMPROF_TESTS_CORE_CASES_H
#define TMPROF_TESTS_CORE_CASES_H

#include "driver/core/counter_store.h"
#include "driver/core/event_reading.h"
#include "driver/core/gate.h"
#include "driver/core/hold_buckets.h"
#include "driver/core/ladder.h"
#include "driver/core/params_check.h"
#include "driver/core/sample_decode.h"
#include "driver/core/sample_ring.h"
#include "driver/uapi/tmprof.h"

/* Parameters: the defaults with up to three fields set to something else. */
struct params_change {
  size_t offset;
  size_t bytes;
  __u64 value;
};

struct params_case {
  const char* name;
  struct params_change change[3];
  int error;
  const char* field; /* NULL: accepted */
};

#define PARAMS_SET(field, value) \
  {offsetof(struct tmprof_params, field), sizeof(((struct tmprof_params*)0)->field), (value)}
#define PARAMS_NONE {0, 0, 0}
#define PARAMS_ONE(name, field, value, error, refused) \
  {name, {PARAMS_SET(field, value), PARAMS_NONE, PARAMS_NONE}, error, refused}
#define PARAMS_TWO(name, field, value, other, other_value, error, refused) \
  {name, {PARAMS_SET(field, value), PARAMS_SET(other, other_value), PARAMS_NONE}, error, refused}
#define PARAMS_THREE(name, field, value, other, other_value, third, third_value, error, refused) \
  {name,                                                                                         \
   {PARAMS_SET(field, value), PARAMS_SET(other, other_value), PARAMS_SET(third, third_value)},   \
   error,                                                                                        \
   refused}

static const struct params_case params_cases[] = {
    {"the defaults", {PARAMS_NONE, PARAMS_NONE, PARAMS_NONE}, 0, NULL},

    PARAMS_ONE("version 0", head.version, 0, -EPROTO, "head.version"),
    PARAMS_ONE("the next version", head.version, 2, -EPROTO, "head.version"),
    PARAMS_TWO("a size of another version", head.version, 2, head.size, 300, -EPROTO,
               "head.version"),
    PARAMS_ONE("8 bytes short", head.size, 256, -EINVAL, "head.size"),
    PARAMS_ONE("8 bytes long", head.size, 272, -EINVAL, "head.size"),
    PARAMS_ONE("a flag", head.flags, 1, -EINVAL, "head.flags"),
    PARAMS_ONE("reserved in the head", head.reserved, 1, -EINVAL, "head.reserved"),

    PARAMS_ONE("no interval", scan_interval_ns, 0, -EINVAL, "scan_interval_ns"),
    PARAMS_ONE("interval below 1 ms", scan_interval_ns, 999999, -EINVAL, "scan_interval_ns"),
    PARAMS_ONE("interval of 1 ms", scan_interval_ns, 1000000, 0, NULL),
    PARAMS_ONE("interval of 1 h", scan_interval_ns, 3600000000000, 0, NULL),
    PARAMS_ONE("interval above 1 h", scan_interval_ns, 3600000000001, -EINVAL, "scan_interval_ns"),
    PARAMS_ONE("no budget", scan_budget_ns, 0, -EINVAL, "scan_budget_ns"),
    PARAMS_ONE("smallest budget", scan_budget_ns, 1, 0, NULL),
    PARAMS_ONE("no limit to the budget", scan_budget_ns, 1000000000, 0, NULL),
    PARAMS_ONE("more than a second per second", scan_budget_ns, 1000000001, -EINVAL,
               "scan_budget_ns"),
    PARAMS_ONE("empty chunks", scan_chunk_entries, 0, -EINVAL, "scan_chunk_entries"),
    PARAMS_ONE("chunks of one entry", scan_chunk_entries, 1, 0, NULL),
    PARAMS_ONE("largest chunks", scan_chunk_entries, 262144, 0, NULL),
    PARAMS_ONE("chunks too large", scan_chunk_entries, 262145, -EINVAL, "scan_chunk_entries"),
    PARAMS_ONE("flush at the end", flush_policy, TMPROF_FLUSH_PASS_END, 0, NULL),
    PARAMS_ONE("an unknown flush policy", flush_policy, 3, -EINVAL, "flush_policy"),
    PARAMS_ONE("flush every 0th", flush_policy, TMPROF_FLUSH_EVERY_NTH, -EINVAL, "flush_every"),
    PARAMS_TWO("flush every 5th", flush_policy, TMPROF_FLUSH_EVERY_NTH, flush_every, 5, 0, NULL),
    PARAMS_TWO("flush at the end and every 5th", flush_policy, TMPROF_FLUSH_PASS_END, flush_every,
               5, -EINVAL, "flush_every"),
    PARAMS_ONE("never flush, every 5th", flush_every, 5, -EINVAL, "flush_every"),
    PARAMS_ONE("unknown scan mode", abit_mode, 2, -EINVAL, "abit_mode"),

    PARAMS_ONE("epochs of 1 ms", epoch_ns, 1000000, 0, NULL),
    PARAMS_ONE("epochs of 1 ns", epoch_ns, 1, -EINVAL, "epoch_ns"),
    PARAMS_ONE("epochs above 1 h", epoch_ns, 3600000000001, -EINVAL, "epoch_ns"),
    PARAMS_ONE("no memory", memory_limit_bytes, 0, -EINVAL, "memory_limit_bytes"),
    PARAMS_ONE("16 KiB less one", memory_limit_bytes, 16383, -EINVAL, "memory_limit_bytes"),
    PARAMS_ONE("16 KiB", memory_limit_bytes, 16384, 0, NULL),
    PARAMS_ONE("all memory", memory_limit_bytes, ~0ULL, 0, NULL),

    PARAMS_ONE("an absent event with a type", sample_event.type, 1, -EINVAL, "sample_event"),
    PARAMS_ONE("an absent event with a config", sample_event.config, 1, -EINVAL, "sample_event"),
    PARAMS_ONE("an absent event with config1", sample_event.config1, 1, -EINVAL, "sample_event"),
    PARAMS_ONE("an absent event with config2", sample_event.config2, 1, -EINVAL, "sample_event"),
    PARAMS_ONE("an absent precise event", sample_event.flags, 1 << 8, -EINVAL, "sample_event"),
    PARAMS_ONE("an event without a period", sample_event.flags, TMPROF_EVENT_PRESENT, -EINVAL,
               "sample_period"),
    PARAMS_ONE("a period without an event", sample_period, 1000, -EINVAL, "sample_period"),
    PARAMS_TWO("an event and its period", sample_event.flags, TMPROF_EVENT_PRESENT, sample_period,
               262144, 0, NULL),
    PARAMS_TWO("all flags of a sampled event", sample_event.flags, 0x31f, sample_period, 1, 0,
               NULL),
    PARAMS_THREE("a tracepoint", sample_event.flags, TMPROF_EVENT_PRESENT, sample_event.type,
                 PERF_TYPE_TRACEPOINT, sample_period, 1, -EINVAL, "sample_event"),
    PARAMS_THREE("a breakpoint", sample_event.flags, TMPROF_EVENT_PRESENT, sample_event.type,
                 PERF_TYPE_BREAKPOINT, sample_period, 1, -EINVAL, "sample_event"),
    PARAMS_TWO("an unknown event flag", sample_event.flags, 0x21, sample_period, 1, -EINVAL,
               "sample_event"),
    PARAMS_TWO("only misses, of no data source", sample_event.flags, 0x11, sample_period, 1,
               -EINVAL, "sample_event"),
    PARAMS_TWO("a third bit of precision", sample_event.flags, 0x401, sample_period, 1, -EINVAL,
               "sample_event"),
    PARAMS_TWO("the longest period", sample_event.flags, TMPROF_EVENT_PRESENT, sample_period,
               0x7fffffffffffffff, 0, NULL),
    PARAMS_TWO("a period too long for perf", sample_event.flags, TMPROF_EVENT_PRESENT,
               sample_period, 0x8000000000000000, -EINVAL, "sample_period"),

    PARAMS_ONE("no ring", ring_samples, 0, -EINVAL, "ring_samples"),
    PARAMS_ONE("a ring of 8", ring_samples, 8, -EINVAL, "ring_samples"),
    PARAMS_ONE("a ring of 16", ring_samples, 16, 0, NULL),
    PARAMS_ONE("a ring of 48", ring_samples, 48, -EINVAL, "ring_samples"),
    PARAMS_ONE("the largest ring", ring_samples, 65536, 0, NULL),
    PARAMS_ONE("a ring too large", ring_samples, 131072, -EINVAL, "ring_samples"),
    PARAMS_ONE("the largest log", log_samples, 1048576, 0, NULL),
    PARAMS_ONE("a log too large", log_samples, 1048577, -EINVAL, "log_samples"),

    PARAMS_ONE("no gate period", gate_period_ns, 0, -EINVAL, "gate_period_ns"),
    PARAMS_ONE("gate period above 1 h", gate_period_ns, 3600000000001, -EINVAL, "gate_period_ns"),
    PARAMS_ONE("a closed gate", gate[TMPROF_ABIT].mode, TMPROF_GATE_ALWAYS_OFF, 0, NULL),
    PARAMS_ONE("an unknown gate", gate[TMPROF_ABIT].mode, 3, -EINVAL, "gate[ABIT].mode"),
    PARAMS_ONE("an unknown gate of the sampler", gate[TMPROF_SAMPLER].mode, 3, -EINVAL,
               "gate[SAMPLER].mode"),
    PARAMS_ONE("a threshold without a count", gate[TMPROF_ABIT].threshold_permille, 200, -EINVAL,
               "gate[ABIT].threshold_permille"),
    PARAMS_ONE("counted without an event", gate[TMPROF_SAMPLER].mode, TMPROF_GATE_COUNTED, -EINVAL,
               "gate[SAMPLER].event"),
    PARAMS_ONE("an event that is not counted", gate[TMPROF_ABIT].event.flags, TMPROF_EVENT_PRESENT,
               -EINVAL, "gate[ABIT].event"),
    PARAMS_THREE("a counted gate", gate[TMPROF_ABIT].mode, TMPROF_GATE_COUNTED,
                 gate[TMPROF_ABIT].event.flags, 0x3, gate[TMPROF_ABIT].threshold_permille, 1000, 0,
                 NULL),
    PARAMS_THREE("a threshold above all", gate[TMPROF_SAMPLER].mode, TMPROF_GATE_COUNTED,
                 gate[TMPROF_SAMPLER].event.flags, 1, gate[TMPROF_SAMPLER].threshold_permille, 1001,
                 -EINVAL, "gate[SAMPLER].threshold_permille"),
    PARAMS_TWO("a counted event with addresses", gate[TMPROF_ABIT].mode, TMPROF_GATE_COUNTED,
               gate[TMPROF_ABIT].event.flags, 0x5, -EINVAL, "gate[ABIT].event"),
    PARAMS_THREE("a counted tracepoint", gate[TMPROF_ABIT].mode, TMPROF_GATE_COUNTED,
                 gate[TMPROF_ABIT].event.flags, TMPROF_EVENT_PRESENT, gate[TMPROF_ABIT].event.type,
                 PERF_TYPE_TRACEPOINT, -EINVAL, "gate[ABIT].event"),
    PARAMS_TWO("a counted event with a data source", gate[TMPROF_ABIT].mode, TMPROF_GATE_COUNTED,
               gate[TMPROF_ABIT].event.flags, 0x9, -EINVAL, "gate[ABIT].event"),

    PARAMS_ONE("the first reserved word", reserved[0], 1, -EINVAL, "reserved"),
    PARAMS_ONE("the last reserved word", reserved[1], 1ULL << 63, -EINVAL, "reserved"),
    PARAMS_TWO("two faults: the first field is named", scan_budget_ns, 0, reserved[0], 1, -EINVAL,
               "scan_budget_ns"),
};

static inline void params_case_build(const struct params_case* tried,
                                     struct tmprof_params* params) {
  __u32 i;

  tmprof_params_defaults(params);
  /* Little-endian, as all that the driver runs on. */
  for (i = 0; i < 3; i++)
    memcpy((unsigned char*)params + tried->change[i].offset, &tried->change[i].value,
           tried->change[i].bytes);
}

/* Rings: 'w' writes a record, 'r' reads one, 'n' writes one while another interrupts it. */
struct ring_case {
  const char* name;
  __u32 capacity; /* at most 8 */
  __u32 first;    /* number of records written and taken before */
  const char* steps;
  __u64 lost_full;
  __u64 lost_nested;
  __u32 read;
};

static const struct ring_case ring_cases[] = {
    {"nothing to read", 4, 0, "rr", 0, 0, 0},
    {"read what was written", 4, 0, "wwrrr", 0, 0, 2},
    {"full, then the newest is lost", 4, 0, "wwwwwwrrrrr", 2, 0, 4},
    {"room again after one read", 2, 0, "wwwrwrrr", 1, 0, 3},
    {"an interrupted writer keeps its record", 4, 0, "nnrrr", 0, 2, 2},
    {"full and interrupted: both are lost", 1, 0, "wnrr", 2, 0, 1},
    {"numbers start over at 2^32", 2, 0xfffffffeU, "wwwrrwwwrrr", 2, 0, 4},
};

/* Lost counts and reads as expected, and the records in order. */
static inline bool ring_case_holds(const struct ring_case* tried) {
  struct tmprof_ring ring;
  __u64 records[8];
  __u64 written = 0, next = 0;
  __u32 read = 0;
  const char* step;

  tmprof_ring_init(&ring, records, sizeof(records[0]), tried->capacity);
  ring.head = tried->first;
  ring.tail = tried->first;
  for (step = tried->steps; *step; step++) {
    if (*step == 'r') {
      const __u64* record = (const __u64*)tmprof_ring_peek(&ring);

      if (!record) continue;
      if (*record != next) return false;
      next++;
      read++;
      tmprof_ring_take(&ring);
    } else {
      __u64* record = (__u64*)tmprof_ring_reserve(&ring);

      if (*step == 'n' && tmprof_ring_reserve(&ring)) return false;
      if (record) {
        *record = written++;
        tmprof_ring_commit(&ring);
      }
    }
  }
  return ring.lost_full == tried->lost_full && ring.lost_nested == tried->lost_nested &&
         tmprof_ring_lost(&ring) == tried->lost_full + tried->lost_nested && read == tried->read;
}

/* Stores: page i of `pages` is start + (i * stride % pages) * step; stride and pages share no
 * factor, so each page is added once. All are then added again. */
struct store_case {
  const char* name;
  __u64 start;
  __u64 step;
  __u32 stride;
  __u32 pages;
  __u64 max_bytes;
};

static const struct store_case store_cases[] = {
    {"one page", 0x7f0000000, 1, 1, 1, 4096},
    {"one leaf", 0x7f0000000, 1, 1, 340, 4096},
    {"one page more: two leaves and a root", 0x7f0000000, 1, 1, 341, 3 * 4096},
    {"dense, ascending: full leaves", 0x7f0000000, 1, 1, 34000, 101 * 4096},
    {"dense, descending", 0x7f0000000, 1, 33999, 34000, 34000 * 164ULL / 10 + 8192 + 4096},
    {"dense, out of order", 0x7f0000000, 1, 20011, 34000, 34000 * 164ULL / 10 + 8192 + 4096},
    {"one page in each 2 MiB, ascending", 0x100000000, 512, 1, 34000, 101 * 4096},
    {"one page in each 2 MiB, out of order", 0x100000000, 512, 20011, 34000,
     34000 * 164ULL / 10 + 8192 + 4096},
    {"two levels of branches", 0x7f0000000, 3, 70001, 100000, 100000 * 164ULL / 10 + 8192 + 4096},
    {"one page in each 16 TiB", 5, 1ULL << 32, 1, 100, 101 * 4096},
};

/* NULL: holds; else what does not. Empties the store; `memory` is used by nothing else. */
static inline const char* store_case_failure(const struct store_case* tried,
                                             struct tmprof_memory* memory) {
  struct tmprof_store store;
  struct tmprof_observation seen;
  struct tmprof_page page;
  const char* failure = NULL;
  __u64 next = 0;
  __u32 i, round;

  memset(&seen, 0, sizeof(seen));
  tmprof_store_init(&store, memory);
  for (round = 0; round < 2; round++) {
    for (i = 0; i < tried->pages && !failure; i++) {
      __u64 place = (__u64)i * tried->stride % tried->pages;

      seen.vpn = tried->start + place * tried->step;
      seen.references = (__u32)(place & 0xff) + 1;
      seen.node = (__u16)(place & 1);
      if (tmprof_store_add(&store, &seen)) failure = "an addition failed";
    }
  }
  if (store.pages != tried->pages) failure = "the number of pages is wrong";
  if (tmprof_store_bytes(&store) > tried->max_bytes) failure = "more memory than the bound";
  if (memory->used_bytes != tmprof_store_bytes(&store)) failure = "memory is not accounted for";
  for (i = 0; i < tried->pages && !failure; i++) {
    const struct tmprof_counts* found = tmprof_store_find(&store, tried->start + i * tried->step);

    if (!found || found->references != 2 * ((i & 0xff) + 1) || tmprof_counts_node(found) != (i & 1))
      failure = "a page's counts are wrong";
    else if (tmprof_store_read(&store, next, &page, 1) != 1 ||
             page.vpn != tried->start + i * tried->step)
      failure = "pages are not read in order";
    next = page.vpn + 1;
  }
  if (!failure && tmprof_store_read(&store, next, &page, 1) != 0)
    failure = "a page was read that was never added";
  tmprof_store_clear(&store);
  if (memory->used_bytes != 0) failure = "memory was kept";
  return failure;
}

/* Gates: counts of one period after another; '+' on, '-' off; a count of ~0 is unreadable. */
struct gate_case {
  const char* name;
  __u32 threshold_permille;
  __u64 count[6];
  const char* active;
};

static const struct gate_case gate_cases[] = {
    {"above a fifth of the largest", 200, {1000, 201, 200, 199, 1000, 0}, "++--+-"},
    {"a new largest raises the bar", 200, {100, 21, 1000, 21, 201, 200}, "+++-+-"},
    {"unreadable is on, and no zero", 200, {1000, ~0ULL, 200, ~0ULL, 201, 0}, "++-++-"},
    {"at a threshold of 0 any count opens", 0, {10, 1, 0, 1, 0, 5}, "++-+-+"},
    {"at 1000 nothing is above the largest", 1000, {0, 1, 1, 2, 1, 3}, "------"},
    {"counts near the end of the type",
     200,
     {0xfffffffffffffff0, 0x3333333333333330, 0x3333333333333331, 0, 1, 2},
     "+-+---"},
};

static inline bool gate_case_holds(const struct gate_case* tried) {
  struct tmprof_gate_state state = {0};
  __u32 i;

  for (i = 0; i < 6; i++) {
    bool known = tried->count[i] != ~0ULL;
    struct tmprof_gate_decision decision =
        tmprof_gate_decide(state, known, tried->count[i], tried->threshold_permille);

    if (decision.active != (tried->active[i] == '+') || decision.known != known) return false;
    state = decision.next;
  }
  return true;
}

/* A count of a period of 1000 ns, and what it is for one that is on time. */
struct late_case {
  const char* name;
  __u64 count;
  __u64 elapsed_ns;
  __u64 of_period;
};

static const struct late_case late_cases[] = {
    {"on time", 900, 1000, 900},
    {"an eighth late", 900, 1125, 900},
    {"an eighth early", 900, 875, 900},
    {"a part of it", 200, 250, 800},
    {"later", 900, 1200, 750},
    {"ten times as long", 905, 10000, 90}, /* rounded down */
    {"nothing in a long time", 0, 10000, 0},
};

static inline bool late_case_holds(const struct late_case* tried) {
  return tmprof_gate_count_of_period(tried->count, 1000, tried->elapsed_ns) == tried->of_period;
}

/* Two readings of an event, from `sum` so far. */
struct reading_case {
  const char* name;
  struct tmprof_event_reading last;
  struct tmprof_event_reading now;
  __u64 sum;
  bool known;
  __u64 wanted; /* the sum then */
};

static const struct reading_case reading_cases[] = {
    {"on its counter all the time", {100, 10, 10}, {350, 30, 30}, 7, true, 257},
    {"never enabled", {5, 10, 10}, {5, 10, 10}, 7, true, 7},
    {"on its counter a third of the time", {0, 0, 0}, {100, 30, 10}, 0, true, 300},
    {"rounded down", {0, 0, 0}, {10, 4, 3}, 0, true, 13},
    {"never on a counter", {9, 10, 10}, {9, 30, 10}, 7, false, 7},
    {"a count that steps back", {100, 10, 10}, {99, 30, 30}, 7, false, 7},
    {"a time that steps back", {100, 10, 10}, {200, 30, 9}, 7, false, 7},
    {"product beyond 64 bits",
     {0, 0, 0},
     {1ULL << 40, 1ULL << 40, 1ULL << 39},
     0,
     true,
     1ULL << 41},
    {"quotient of 2^63", {0, 0, 0}, {1ULL << 62, 1ULL << 40, 1ULL << 39}, 0, true, 1ULL << 63},
    {"quotient of 2^64", {0, 0, 0}, {1ULL << 63, 2, 1}, 0, true, 0xfffffffffffffffe},
    {"quotient of 2^102", {0, 0, 0}, {1ULL << 62, 1ULL << 40, 1}, 0, true, 0xfffffffffffffffe},
    {"a scaled count that would read as unknown",
     {0, 0, 0},
     {0x5555555555555555, 3, 1},
     0,
     true,
     0xfffffffffffffffe},
    {"a sum beyond 64 bits", {0, 0, 0}, {5, 1, 1}, 0xfffffffffffffffa, true, 0xfffffffffffffffe},
    {"a sum at its largest", {0, 0, 0}, {0, 1, 1}, 0xfffffffffffffffe, true, 0xfffffffffffffffe},
};

static inline bool reading_case_holds(const struct reading_case* tried) {
  __u64 sum = tried->sum;

  return tmprof_event_add(&tried->last, &tried->now, &sum) == tried->known && sum == tried->wanted;
}

struct source_case {
  const char* name;
  __u64 word;
  enum tmprof_data_source source;
  bool beyond_llc;
  bool if_only_misses; /* are sampled */
};

/* Words as in include/uapi/linux/perf_event.h: op at bit 0, level at 5, level number at 33, remote
 * at 37. */
#define SOURCE_WORD(op, level, number, remote) \
  ((__u64)(op) | (__u64)(level) << 5 | (__u64)(number) << 33 | (__u64)(remote) << 37)
#define SOURCE_LOAD 0x02
#define SOURCE_STORE 0x04
#define SOURCE_PREFETCH 0x08
#define SOURCE_HIT 0x02
#define SOURCE_NA 0x0f

static const struct source_case source_cases[] = {
    {"load, local memory", SOURCE_WORD(SOURCE_LOAD, 0, 0x0d, 0), TMPROF_SOURCE_LOCAL_MEMORY, true,
     true},
    {"load, another node's memory", SOURCE_WORD(SOURCE_LOAD, 0, 0x0d, 1),
     TMPROF_SOURCE_REMOTE_MEMORY, true, true},
    {"store, persistent memory", SOURCE_WORD(SOURCE_STORE, 0, 0x0e, 0), TMPROF_SOURCE_REMOTE_MEMORY,
     true, true},
    {"load, CXL memory", SOURCE_WORD(SOURCE_LOAD, 0, 0x09, 0), TMPROF_SOURCE_REMOTE_MEMORY, true,
     true},
    {"load, L3", SOURCE_WORD(SOURCE_LOAD, SOURCE_HIT | 0x40, 0x03, 0), TMPROF_SOURCE_CACHE, false,
     false},
    {"load, line fill buffer", SOURCE_WORD(SOURCE_LOAD, 0, 0x0c, 0), TMPROF_SOURCE_CACHE, false,
     false},
    {"level number beats old bits", SOURCE_WORD(SOURCE_LOAD, SOURCE_HIT | 0x80, 0x03, 0),
     TMPROF_SOURCE_CACHE, false, false},
    {"old bits, local memory", SOURCE_WORD(SOURCE_LOAD, SOURCE_HIT | 0x80, 0, 0),
     TMPROF_SOURCE_LOCAL_MEMORY, true, true},
    {"old bits, level number n/a", SOURCE_WORD(SOURCE_LOAD, SOURCE_HIT | 0x100, SOURCE_NA, 0),
     TMPROF_SOURCE_REMOTE_MEMORY, true, true},
    {"old bits, another socket's cache", SOURCE_WORD(SOURCE_LOAD, SOURCE_HIT | 0x400, SOURCE_NA, 0),
     TMPROF_SOURCE_CACHE, false, false},
    {"old bits, L1 hit", SOURCE_WORD(SOURCE_STORE, SOURCE_HIT | 0x08, 0, 0), TMPROF_SOURCE_CACHE,
     false, false},
    {"a store that missed L1 was served by nobody known", SOURCE_WORD(SOURCE_STORE, 0x0c, 0, 0),
     TMPROF_SOURCE_UNKNOWN, false, true},
    {"uncached", SOURCE_WORD(SOURCE_LOAD, SOURCE_HIT | 0x2000, SOURCE_NA, 0),
     TMPROF_SOURCE_UNCACHED, false, false},
    {"I/O", SOURCE_WORD(SOURCE_LOAD, 0, 0x0a, 0), TMPROF_SOURCE_UNCACHED, false, false},
    {"prefetch from memory", SOURCE_WORD(SOURCE_LOAD | SOURCE_PREFETCH, 0, 0x0d, 0),
     TMPROF_SOURCE_NOT_DEMAND, false, false},
    {"instruction fetch", SOURCE_WORD(0x10, 0, 0x0d, 0), TMPROF_SOURCE_NOT_DEMAND, false, false},
    {"no memory operation", SOURCE_WORD(0x01, 0, SOURCE_NA, 0), TMPROF_SOURCE_NOT_DEMAND, false,
     false},
    {"nothing known", SOURCE_WORD(SOURCE_LOAD, 0x01, SOURCE_NA, 0), TMPROF_SOURCE_UNKNOWN, false,
     true},
};

static inline bool source_case_holds(const struct source_case* tried) {
  enum tmprof_data_source source = tmprof_decode_data_source(tried->word);

  return source == tried->source && !!tmprof_beyond_llc(source, 0) == tried->beyond_llc &&
         !!tmprof_beyond_llc(source, TMPROF_EVENT_ONLY_MISSES) == tried->if_only_misses;
}

/* A hold of the mmap lock, and where its bucket ends by the ABI's words. */
struct hold_case {
  const char* name;
  __u64 hold_ns;
  __u32 bucket;
  __u64 end_ns;
};

static const struct hold_case hold_cases[] = {
    {"none", 0, 0, 64},
    {"the last of the linear ones", 255, 3, 256},
    {"the first of a power of two", 256, 4, 320},
    {"the last of it", 511, 7, 512},
    {"1 ms", 1000000, 51, 1048576}, /* q = 15625: 2^13 <= q, (15625 >> 11) % 4 = 3 */
    {"longer than any", ~0ULL, 95, TMPROF_UNKNOWN},
};

static inline bool hold_case_holds(const struct hold_case* tried) {
  return tmprof_hold_bucket(tried->hold_ns) == tried->bucket &&
         tmprof_hold_bucket_end_ns(tried->bucket) == tried->end_ns;
}

/* A budget that starts empty, may save up 500 us and owe 1 s. */
struct budget_case {
  const char* name;
  __u64 share_ppm;
  __u64 earned_ns; /* target CPU time, in `times` equal parts */
  __u32 times;
  __s64 reserved_ns;
  __u64 charged_ns;
  __s64 balance_ns;
};

static const struct budget_case budget_cases[] = {
    {"a share of what is earned", 10000, 1000000, 1, 0, 0, 10000},
    {"small steps lose nothing", 6000, 101, 1000, 0, 0, 606}, /* 101 000 ns x 0.6 % */
    {"no more than a burst is saved up", 1000000, 1000000000, 1, 0, 0, 500000},
    {"what is reserved may be saved up, too", 1000000, 1000000000, 1, 200000, 0, 700000},
    {"what is charged is owed", 10000, 1000000, 1, 0, 30000, -20000},
    {"and no more than the floor", 10000, 1000000, 1, 0, ~0ULL, -1000000000},
};

static inline bool budget_case_holds(const struct budget_case* tried) {
  struct tmprof_budget budget = {0};
  __u32 i;

  budget.share_ppm = tried->share_ppm;
  budget.limit_ns = 500000;
  budget.floor_ns = -1000000000;
  budget.reserved_ns = tried->reserved_ns;
  for (i = 0; i < tried->times; i++) tmprof_budget_earn(&budget, tried->earned_ns);
  tmprof_budget_charge(&budget, tried->charged_ns);
  return budget.balance_ns == tried->balance_ns;
}

#endif /* TMPROF_TESTS_CORE_CASES_H */
