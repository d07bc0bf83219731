/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Cases of driver/core/regions.h as pictures, for GoogleTest and KUnit alike. A character is a
 *page.
 *
 *	eee|f  33	regions: each page shows the count of its region, in sixteenths of the
 *			greatest, in hexadecimal, '?' one that was not looked at; '|' parts
 *			neighbours; a blank is a page outside all areas
 *	## #  #		an address space: '#' is mapped
 *
 * What comes out is worked out by hand.
 */
#ifndef TMPROF_TESTS_REGION_CASES_H
#define TMPROF_TESTS_REGION_CASES_H

#include "driver/core/regions.h"

#define REGION_CASE_FIRST 0x7f000ULL /* the page of the first character */
#define REGION_CASE_MAX 32U
#define REGION_CASE_PICTURE 96U

#define REGION_CASE_COUNT (TMPROF_REGION_COUNT_MAX / 16)

static inline __u32 region_case_areas(const char* picture, struct tmprof_area* areas) {
  __u64 page = REGION_CASE_FIRST;
  __u32 count = 0;

  for (; *picture; picture++, page++) {
    if (*picture == ' ') continue;
    if (!count || areas[count - 1].end != page) areas[count++].start = page;
    areas[count - 1].end = page + 1;
  }
  return count;
}

static inline void region_case_parse(const char* picture, struct tmprof_region_set* set) {
  __u64 page = REGION_CASE_FIRST;
  char before = ' ';

  set->count = 0;
  for (; *picture; before = *picture++) {
    if (*picture == '|') continue;
    if (*picture != ' ') {
      __u32 count = (__u32)(*picture <= '9' ? *picture - '0' : *picture - 'a' + 10);

      if (before == ' ' || before == '|') {
        struct tmprof_region* region = &set->regions[set->count++];

        *region =
            tmprof_region_make(page, page + 1, *picture == '?' ? 0 : count * REGION_CASE_COUNT);
        /* Often enough that nothing is left to chance. */
        region->looks = *picture != '?' ? 1U << 30 : 0;
      } else {
        set->regions[set->count - 1].end++;
      }
    }
    page++;
  }
}

/* `picture` has room for REGION_CASE_PICTURE. `merged`: what was seen has not been reset. */
static inline void region_case_print(const struct tmprof_region_set* set, bool merged,
                                     char* picture) {
  __u64 page = REGION_CASE_FIRST;
  __u32 i, at = 0;

  for (i = 0; i < set->count; i++) {
    const struct tmprof_region* region = &set->regions[i];

    if (i > 0 && region->start == page) picture[at++] = '|';
    for (; page < region->start; page++) picture[at++] = ' ';
    for (; page < region->end && at < REGION_CASE_PICTURE - 2; page++)
      picture[at++] =
          merged && !region->looks
              ? '?'
              : "0123456789abcdef"[(region->count + REGION_CASE_COUNT / 2) / REGION_CASE_COUNT &
                                   15];
  }
  picture[at] = 0;
}

/* Gives the numbers 0, 1, 2 … from `first` on. */
static inline __u64 region_case_counted(void* context) { return (*(__u64*)context)++; }

enum region_step { REGION_START, REGION_MERGE, REGION_SPLIT, REGION_SPLIT_AT, REGION_UPDATE };

struct region_case {
  const char* name;
  enum region_step step;
  __u32 min_regions;
  __u32 max_regions;
  const char* before; /* REGION_START: the mappings */
  const char* areas;  /* REGION_UPDATE: the mappings */
  __u64 number;       /* REGION_SPLIT: the first random one, REGION_SPLIT_AT: the page */
  int error;          /* only for REGION_SPLIT_AT */
  const char* after;
};

#define REGION_STARTS(name, least, mappings, after) \
  {name, REGION_START, least, 1000, mappings, "", 0, 0, after}
#define REGION_MERGES(name, least, most, before, after) \
  {name, REGION_MERGE, least, most, before, "", 0, 0, after}
#define REGION_SPLITS(name, most, random, before, after) \
  {name, REGION_SPLIT, 3, most, before, "", random, 0, after}
#define REGION_SPLITS_AT(name, most, page, before, error, after) \
  {name, REGION_SPLIT_AT, 3, most, before, "", page, error, after}
#define REGION_UPDATES(name, least, most, before, mappings, after) \
  {name, REGION_UPDATE, least, most, before, mappings, 0, 0, after}

static const struct region_case region_cases[] = {
    REGION_STARTS("three areas, the middle one in equal parts", 5, "##   ######    #",
                  "00   00|00|00    0"),
    REGION_STARTS("the two largest gaps part the areas, smaller ones lie inside", 3,
                  "## #   # ##    ##", "0000   0000    00"),
    REGION_STARTS("of equal gaps the lowest part the areas", 3, "#  #  #  #", "0  0  0000"),
    REGION_STARTS("one mapping", 4, "########", "00|00|00|00"),
    REGION_STARTS("two mappings: the upper one is in parts", 4, "##  ######", "00  00|00|00"),
    REGION_STARTS("a middle of few pages: the largest are halved", 6, "####  ##  ###",
                  "00|00  0|0  0|00"),
    REGION_STARTS("fewer pages than regions", 10, "#  ##", "0  0|0"),
    REGION_STARTS("nothing is mapped", 10, "", ""),

    REGION_MERGES("equal counts", 3, 32, "00|00|55|55|77|77  99|99  2|2",
                  "0000|5555|7777  9999  22"),
    REGION_MERGES("1 from 14.5 is less than a tenth", 3, 32, "ee|ff  0000000  0",
                  "ffff  0000000  0"),
    REGION_MERGES("1 from 9.5 is more", 3, 32, "99|aa  0000000  0", "99|aa  0000000  0"),
    REGION_MERGES("the mean is by size: (14 * 3 + 15) / 4 = 14.25", 3, 32, "eee|f  0000000  0",
                  "eeee  0000000  0"),
    REGION_MERGES("the mean of a join counts for the next: (14.5 * 4 + 14) / 5 = 14.4", 3, 32,
                  "ee|ff|e  000000000  0", "eeeee  000000000  0"),
    REGION_MERGES("nothing joins over a gap", 3, 32, "5|5 5|5 5555", "55 55 5555"),
    REGION_MERGES("no region beyond its share of the least number", 3, 32, "5|5|5|5|5|5",
                  "55|55|55"),
    REGION_MERGES("never below the least number", 3, 32, "7777777777|1|1|1|1", "7777777777|111|1"),
    REGION_MERGES("too many: the least different first", 3, 4, "1|2|9|7|1|1", "1|2|88|11"),
    REGION_MERGES("too many, and none alike: the lowest", 3, 3, "1|9|1|9", "55|1|9"),
    REGION_MERGES("what was not looked at is not cold", 3, 32, "0|?|0  00000  2",
                  "0|?|0  00000  2"),
    REGION_MERGES("but like what was not looked at either", 3, 32, "?|?|00  0000  22",
                  "??|00  0000  22"),
    REGION_MERGES("too many: the count of the one that was looked at", 3, 3, "?|8  8  8",
                  "88  8  8"),
    REGION_MERGES("nothing", 3, 32, "", ""),

    REGION_SPLITS("at the first page that leaves two", 32, 0, "5555", "5|555"),
    REGION_SPLITS("at the last", 32, 2, "5555", "555|5"),
    REGION_SPLITS("each at its own point, from the last on", 32, 0, "3333|4444  5555",
                  "333|3|44|44  5|555"),
    REGION_SPLITS("one page stays one", 32, 0, "3|44  5", "3|4|4  5"),
    REGION_SPLITS("not from half of the greatest number on", 6, 0, "33|44|55", "33|44|55"),
    REGION_SPLITS("to the greatest number", 8, 0, "33|44|55", "3|3|4|4|5|5"),

    REGION_SPLITS_AT("a page inside", 32, 2, "55555|1", 0, "55|5|55|1"),
    REGION_SPLITS_AT("the first page", 32, 0, "55555|1", 0, "5|5555|1"),
    REGION_SPLITS_AT("the last page", 32, 4, "55555|1", 0, "5555|5|1"),
    REGION_SPLITS_AT("a region of that page", 4, 5, "55555|1", 0, "55555|1"),
    REGION_SPLITS_AT("room for one more, and two are needed", 3, 2, "55555|1", -ENOSPC, "55555|1"),
    REGION_SPLITS_AT("room for one more, which will do", 3, 4, "55555|1", 0, "5555|5|1"),
    REGION_SPLITS_AT("a page in a gap", 32, 2, "55  1", -ENOENT, "55  1"),
    REGION_SPLITS_AT("a page past the last", 32, 9, "55  1", -ENOENT, "55  1"),

    REGION_UPDATES("nothing has changed", 3, 32, "11|22  33", "####  ##", "11|22  33"),
    REGION_UPDATES("what has grown is new", 3, 32, "11|22   33", "###### ##", "11|22|00 33"),
    REGION_UPDATES("what has grown downwards, too", 3, 32, "  11|22  33", "######  ##",
                   "00|11|22  33"),
    REGION_UPDATES("what has shrunk is cut", 3, 32, "1111|22  33", " ##     ##", " 1|1     33"),
    REGION_UPDATES("a hole in a region parts it", 3, 32, "11111111|2  3", "##     ### #",
                   "11     1|2|0 3"),
    REGION_UPDATES("a small hole stays inside", 3, 32, "11111111   2    3", "### ####   #    #",
                   "11111111   2    3"),
    REGION_UPDATES("a gap between areas has been filled", 3, 32, "11  22", "######", "11|00|22"),
    REGION_UPDATES("all is elsewhere", 3, 32, "11|22", "        ####", "        0|0|00"),
    REGION_UPDATES("too few are left", 4, 32, "11|22|33|44", "####", "1|1|2|2"),
    REGION_UPDATES("as many as may be, and new ones", 3, 4, "  1|2|3|9", "########", "00|22|66|00"),
    REGION_UPDATES("nothing is left", 3, 32, "11|22", "", ""),
    REGION_UPDATES("nothing was there", 3, 32, "", "##  ##", "0|0  00"),
};

/* Writes what came out; false: the step failed as it should not, or the reverse. */
static inline bool region_case_run(const struct region_case* tried, char* picture) {
  static struct tmprof_region regions[REGION_CASE_MAX + TMPROF_REGION_SPARE];
  struct tmprof_area mappings[REGION_CASE_PICTURE / 2], areas[TMPROF_REGION_AREAS];
  __u64 number = tried->number;
  struct tmprof_random random = {region_case_counted, &number};
  struct tmprof_region_set set = {regions, 0, tried->min_regions, tried->max_regions, true};
  struct tmprof_region_params params = tmprof_region_params_default();
  int error = 0;

  if (tried->step != REGION_START) region_case_parse(tried->before, &set);
  switch (tried->step) {
    case REGION_START:
      params.min_regions = tried->min_regions;
      tmprof_regions_start(
          &set, regions, &params, areas,
          tmprof_region_areas(mappings, region_case_areas(tried->before, mappings), areas));
      break;
    case REGION_MERGE:
      tmprof_regions_merge(&set);
      break;
    case REGION_SPLIT:
      tmprof_regions_split(&set, &random);
      break;
    case REGION_SPLIT_AT:
      error = tmprof_regions_split_at(&set, REGION_CASE_FIRST + tried->number);
      break;
    case REGION_UPDATE:
      tmprof_regions_update(
          &set, areas,
          tmprof_region_areas(mappings, region_case_areas(tried->areas, mappings), areas));
      break;
  }
  region_case_print(&set, tried->step == REGION_MERGE, picture);
  return error == tried->error;
}

/* Parameters: the published ones with one field set to something else. */
struct region_params_case {
  const char* name;
  size_t offset;
  size_t bytes;
  __u64 value;
  __u64 check_ns;
  const char* field; /* NULL: accepted */
};

#define REGION_PARAM(name, field, value, refused)    \
  {name,                                             \
   offsetof(struct tmprof_region_params, field),     \
   sizeof(((struct tmprof_region_params*)0)->field), \
   value,                                            \
   1000,                                             \
   refused}

static const struct region_params_case region_params_cases[] = {
    REGION_PARAM("the published ones, at 1 us a check", min_regions, 10, NULL),
    {"1 ns more is too slow for 1000 regions in 1 ms", 0, 0, 0, 1001, "monitoring_ns"},
    {"not known how slow", 0, 0, 0, 0, NULL},
    REGION_PARAM("a region per area", min_regions, 3, NULL),
    REGION_PARAM("fewer", min_regions, 2, "min_regions"),
    REGION_PARAM("as many as can be reached in time", min_regions, 1000, NULL),
    REGION_PARAM("more", min_regions, 1001, "min_regions"),
    REGION_PARAM("max at min", max_regions, 10, NULL),
    REGION_PARAM("more than can be meant", max_regions, (1U << 20) + 1, "max_regions"),
    REGION_PARAM("no monitoring", monitoring_ns, 0, "monitoring_ns"),
    REGION_PARAM("monitoring too short to check 1000 regions", monitoring_ns, 999999,
                 "monitoring_ns"),
    REGION_PARAM("10 checks to an aggregation", monitoring_ns, 10000000, NULL),
    REGION_PARAM("fewer checks", monitoring_ns, 10000001, "aggregation_ns"),
    REGION_PARAM("aggregation of 10 ms", aggregation_ns, 10000000, NULL),
    REGION_PARAM("aggregation above 1 h", aggregation_ns, 3600000000001, "aggregation_ns"),
    REGION_PARAM("update at each aggregation", update_ns, 100000000, NULL),
    REGION_PARAM("update more often", update_ns, 99999999, "update_ns"),
    REGION_PARAM("update above 1 h", update_ns, 3600000000001, "update_ns"),
};

static inline struct tmprof_params_verdict region_params_case_run(
    const struct region_params_case* tried) {
  struct tmprof_region_params params = tmprof_region_params_default();

  memcpy((char*)&params + tried->offset, &tried->value, tried->bytes);
  return tmprof_region_params_check(&params, tried->check_ns);
}

/* How much a region is accessed, by what was seen of it. */
struct region_count_case {
  const char* name;
  __u32 looks;
  __u32 references;
  __u32 first_accesses;
  __u64 at_risk_ns;
  __u32 of_100_checks;
  __u32 of_400_slots; /* slots of 250 us */
};

static const struct region_count_case region_count_cases[] = {
    {"not looked at", 0, 0, 0, 0, 0, 0},
    {"no access in 100 checks", 100, 0, 0, 100000000, 0, 0},
    {"an access in each", 100, 100, 100, 0, 100, 400},
    {"in a quarter of half the checks", 48, 12, 12, 9000000, 25, 100}, /* 12 / (12 + 36) */
    {"once in 399 slots", 20, 1, 1, 99750000, 5, 1},
};

static inline bool region_count_case_holds(const struct region_count_case* tried) {
  struct tmprof_region region = tmprof_region_make(0, 1, 0);

  region.looks = tried->looks;
  region.references = tried->references;
  region.first_accesses = tried->first_accesses;
  region.at_risk_ns = tried->at_risk_ns;
  return tmprof_region_count_checks(&region, 100) == tried->of_100_checks &&
         tmprof_region_count_slots(&region, 400, 250000) == tried->of_400_slots;
}

/* Two neighbours, each by its looks and those of them that found an access. Whether they join as
 * differing by chance: (a - b)^2 <= p (1 - p) (1 / n + 1 / m), of p = (found + 1/2) / (n + m + 1).
 * By a tenth of their mean none of them is alike. */
struct region_chance_case {
  const char* name;
  __u32 looks[2];
  __u32 found[2];
  bool joined;
};

static const struct region_chance_case region_chance_cases[] = {
    {"3 and 5 of 10: 0.04 <= 0.048", {10, 10}, {3, 5}, true},
    {"3 and 6 of 10: 0.09 > 0.049", {10, 10}, {3, 6}, false},
    {"the same shares of 100: 0.04 > 0.0048", {100, 100}, {30, 50}, false},
    {"0 and 1 of 10: 0.01 <= 0.013", {10, 10}, {0, 1}, true},
    {"0 and 2 of 10: 0.04 > 0.021", {10, 10}, {0, 2}, false},
    {"0 and 10 of 1000: 0.0001 > 0.00001", {1000, 1000}, {0, 10}, false},
    {"few beside many: 0.0025 <= 0.013", {10, 1000}, {2, 150}, true},
    {"and 0.04 > 0.0093", {10, 1000}, {3, 100}, false},
    {"all and none", {10, 10}, {10, 0}, false},
    {"all and nearly all: 0.01 <= 0.013", {10, 10}, {10, 9}, true},
    {"as many as are counted, 2^15: 9.5e-7 > 8.9e-8",
     {1 << 20, 1 << 20},
     {1 << 10, 1 << 11},
     false},
    {"and 6.0e-8 <= 6.7e-8", {1 << 20, 1 << 20}, {1 << 10, (1 << 10) + (1 << 8)}, true},
};

static inline bool region_chance_case_joins(const struct region_chance_case* tried,
                                            bool join_by_chance) {
  struct tmprof_region regions[4];
  struct tmprof_region_set set = {regions, 4, 3, 4, join_by_chance};
  int i;

  for (i = 0; i < 4; i++) {
    regions[i] = tmprof_region_make(i < 2 ? i : 10 * i, i < 2 ? i + 1 : 10 * i + 8, 0);
    regions[i].looks = tried->looks[i & 1];
    regions[i].references = tried->found[i & 1];
    regions[i].count = tmprof_region_count_checks(&regions[i], TMPROF_REGION_COUNT_MAX);
  }
  tmprof_regions_merge(&set);
  return set.count == 3;
}

static inline bool region_chance_case_holds(const struct region_chance_case* tried) {
  return region_chance_case_joins(tried, true) == tried->joined &&
         !region_chance_case_joins(tried, false);
}

/* How many regions there may be from now on, by how long an aggregation took. */
struct region_fit_case {
  const char* name;
  __u32 min_regions; /* the bounds */
  __u32 max_regions;
  __u64 aggregation_ms;
  __u32 most; /* max_regions before */
  __u32 there;
  __u64 took_ms;
  __u32 after;
};

/* An aggregation takes 0.8 s at most, or two of its intervals. Of a time t above that, the part
 * longest / t is kept, t in whole microseconds and one more: 1.6 s keep 0.499999. */
static const struct region_fit_case region_fit_cases[] = {
    {"as long as may be", 10, 1000, 100, 500, 300, 800, 500},
    {"above half of that", 10, 1000, 100, 500, 300, 401, 500},
    {"half of that: a quarter more", 10, 1000, 100, 500, 300, 400, 625},
    {"a quarter more than the bound", 10, 1000, 100, 900, 300, 1, 1000},
    {"at the bound", 10, 1000, 100, 1000, 300, 1, 1000},
    {"twice as long: half of as many as there were", 10, 1000, 100, 500, 500, 1600, 249},
    {"no more than half were there: half of twice those", 10, 1000, 100, 500, 100, 1600, 99},
    {"four times the least number stay", 10, 1000, 100, 500, 25, 80000, 40},
    {"or the bound, if that is less", 10, 20, 100, 20, 20, 80000, 20},
    {"a paused machine: hours", 10, 1000, 100, 1000, 1000, 36000000, 40},
    {"two intervals of 2 s are not too long", 10, 1000, 2000, 500, 300, 4000, 500},
    {"twice as long as those", 10, 1000, 2000, 500, 500, 8000, 249},
    {"half as long", 10, 1000, 2000, 500, 500, 2000, 625},
    {"the longest interval, the most regions", 10, 1 << 20, 3600000, 1 << 20, 1 << 20, 14400000,
     524286},
    {"no more than one", 3, 3, 100, 3, 3, 80000, 3},
    {"of so few, one more", 3, 1000, 100, 12, 12, 1, 15},
};

static inline bool region_fit_case_holds(const struct region_fit_case* tried) {
  struct tmprof_region_params bounds = tmprof_region_params_default();
  struct tmprof_region_set set = {NULL, tried->there, tried->min_regions, tried->most, true};

  bounds.min_regions = tried->min_regions;
  bounds.max_regions = tried->max_regions;
  bounds.aggregation_ns = tried->aggregation_ms * 1000000;
  tmprof_regions_fit(&set, &bounds, tried->took_ms * 1000000);
  return set.max_regions == tried->after;
}

#endif /* TMPROF_TESTS_REGION_CASES_H */
