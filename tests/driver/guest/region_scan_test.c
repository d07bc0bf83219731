// SPDX-License-Identifier: Apache-2.0
/* The driver's scan by regions: what it bounds, what it covers, what it finds, and who stops it. */

#include <sys/prctl.h>

#include "driver/core/region_parts.h"
#include "tests/driver/guest/fake_sampler.h"

#define MS 1000000ULL
#define SECOND (1000 * MS)
#define MOST_RECORDS 131072
#define PAGES 16384UL
#define HOT_FIRST 4096UL
#define HOT_PAGES 4096UL

static struct tmprof_region_record records[MOST_RECORDS];
static volatile char* memory;

/* How much of the time a program had its CPU, which a busy host may withhold: in how many windows
 * it came round. */
#define WINDOW_NS (20 * MS)
static struct progress {
  __u64 windows, latest;
} volatile* progress;

static void note_round(void) {
  __u64 window = now_ns() / WINDOW_NS;

  if (window == progress->latest) return;
  progress->latest = window;
  progress->windows++;
}

static struct tmprof_params region_params(int session) {
  struct tmprof_params params = params_of(session);

  params.abit_mode = TMPROF_ABIT_REGIONS;
  params.scan_budget_ns = SECOND;
  params.regions.monitoring_ns = 5 * MS;
  params.regions.aggregation_ns = 100 * MS;
  params.regions.update_ns = 200 * MS;
  params.regions.max_regions = 200;
  params.region_log = MOST_RECORDS;
  return params;
}

static void set_params(int session, const struct tmprof_params* params) {
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, params) == 0);
}

static struct tmprof_read_regions read_some(int session, __u32 capacity) {
  struct tmprof_read_regions request = {
      .head = HEAD(struct tmprof_read_regions),
      .regions = (unsigned long)records,
      .capacity = capacity,
  };

  EXPECT(ioctl(session, TMPROF_IOC_READ_REGIONS, &request) == 0);
  EXPECT(request.count <= capacity);
  return request;
}

static void wait_for_aggregations(int session, __u64 aggregations) {
  __u64 deadline_ns = now_ns() + 60 * SECOND;

  while (stats_of(session).region_aggregations < aggregations) {
    EXPECT(now_ns() < deadline_ns);
    usleep(10000);
  }
}

/* An emulated TLB keeps what it has, and sets no bit of that again, until another process has its
 * CPU: this one, each millisecond. */
static pid_t start_switcher(int cpu) {
  pid_t child = fork();

  EXPECT(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_on_cpu(cpu);
    for (;;) usleep(1000);
  }
  return child;
}

/* Writes its hot pages again and again. Returns once it has all its memory. */
static pid_t start_program(void) {
  volatile char* ready =
      mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child;

  EXPECT(ready != MAP_FAILED);
  child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_on_cpu(1);
    touch(memory, PAGES, 1);
    *ready = 1;
    for (;;) {
      touch(memory + HOT_FIRST * PAGE, HOT_PAGES, 1);
      note_round();
    }
  }
  while (!*ready) usleep(1000);
  munmap((char*)ready, PAGE);
  return child;
}

static void end_program(pid_t child) {
  kill(child, SIGKILL);
  EXPECT(waitpid(child, NULL, 0) == child);
}

static void start(int session) { EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0); }
static void stop(int session) { EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0); }

static void what_cannot_go_together_is_refused(void) {
  int session = open_session();
  struct tmprof_params good = region_params(session), bad;

  bad = good;
  bad.abit_mode = 2;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SET_PARAMS, &bad), EINVAL);
  bad = good;
  bad.flush_policy = TMPROF_FLUSH_PASS_END;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SET_PARAMS, &bad), EINVAL);
  bad = good;
  bad.regions.aggregation_ns = 9 * bad.regions.monitoring_ns;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SET_PARAMS, &bad), EINVAL);
  bad = good;
  bad.regions.monitoring_ns = MS / 2;
  bad.regions.max_regions = 100000;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SET_PARAMS, &bad), EINVAL);
  bad = good;
  bad.region_log = 1U << 21;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SET_PARAMS, &bad), EINVAL);
  EXPECT_EQ(params_of(session).abit_mode, TMPROF_ABIT_FULL);
  set_params(session, &good);
  EXPECT_EQ(params_of(session).regions.max_regions, 200);
  close(session);
}

static void there_is_nothing_to_read_before_a_scan_by_regions_keeps_a_log(void) {
  int session = open_session();
  struct tmprof_params params = params_of(session);
  struct tmprof_read_regions request = {.head = HEAD(struct tmprof_read_regions)};

  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_READ_REGIONS, &request), ENXIO);
  start(session);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_READ_REGIONS, &request), ENXIO);
  stop(session);
  params = region_params(session);
  params.region_log = 0;
  set_params(session, &params);
  start(session);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_READ_REGIONS, &request), ENXIO);
  stop(session);
  params.region_log = 100;
  set_params(session, &params);
  start(session);
  EXPECT(ioctl(session, TMPROF_IOC_READ_REGIONS, &request) == 0);
  EXPECT_EQ(request.count, 0);
  close(session);
}

/* Returns how many records the aggregation that begins at `first` has. */
static __u32 check_aggregation(__u32 first, __u32 count, __u32 target) {
  __u32 regions = records[first].regions, i;

  /* Mappings that are not looked at cut regions in up to three. */
  EXPECT(regions >= 10 && regions <= 200 + 2 * TMPROF_REGION_UNSEEN);
  EXPECT(first + regions <= count);
  for (i = first; i < first + regions; i++) {
    EXPECT_EQ(records[i].target_id, target);
    EXPECT_EQ(records[i].regions, regions);
    EXPECT_EQ(records[i].time_ns, records[first].time_ns);
    EXPECT(records[i].start_vpn < records[i].end_vpn);
    EXPECT(i == first || records[i - 1].end_vpn <= records[i].start_vpn);
    EXPECT(records[i].references <= records[i].looks);
    EXPECT(records[i].frame == TMPROF_UNKNOWN || records[i].frame < 1ULL << 40);
  }
  return regions;
}

/* True if regions of the aggregation hold each page from `start` on. */
static int covers(__u32 first, __u32 regions, __u64 start, __u64 pages) {
  __u64 at = start;
  __u32 i;

  for (i = first; i < first + regions && at < start + pages; i++) {
    if (records[i].start_vpn <= at && at < records[i].end_vpn) at = records[i].end_vpn;
  }
  return at >= start + pages;
}

static void regions_cover_the_memory_and_stay_within_their_bounds(void) {
  int session = open_session();
  struct tmprof_params params = region_params(session);
  pid_t child = start_program();
  __u32 target = add_target(session, child), count, first;
  struct tmprof_stats stats;

  set_params(session, &params);
  start(session);
  wait_for_aggregations(session, 10);
  stop(session);
  stats = stats_of(session);
  EXPECT(stats.region_checks > 0);
  EXPECT(stats.region_checks + stats.region_checks_lost <= (stats.region_steps + 1) * 200);
  EXPECT(stats.cleared_bits <= stats.region_checks + stats.region_checks_lost);
  EXPECT_EQ(stats.flushes, 0);
  EXPECT_EQ(stats.passes, 0);
  count = read_some(session, MOST_RECORDS).count;
  EXPECT(count > 0);
  for (first = 0; first < count; first += records[first].regions) {
    __u32 regions = check_aggregation(first, count, target);

    EXPECT(covers(first, regions, (unsigned long)memory / PAGE, PAGES));
  }
  end_program(child);
  close(session);
}

/* References per look of `pages` from `vpn` on, in what was read of the time since then, in
 * percent. */
static unsigned int percent_accessed(__u32 count, __u64 vpn, __u64 pages, __u64 since_ns) {
  double looks = 0, references = 0;
  __u32 i;

  for (i = 0; i < count; i++) {
    __u64 start = records[i].start_vpn > vpn ? records[i].start_vpn : vpn;
    __u64 end = records[i].end_vpn < vpn + pages ? records[i].end_vpn : vpn + pages;
    double share;

    if (start >= end || records[i].time_ns < since_ns) continue;
    share = (double)(end - start) / (records[i].end_vpn - records[i].start_vpn);
    looks += share * records[i].looks;
    references += share * records[i].references;
  }
  EXPECT(looks > 0);
  return 100 * references / looks;
}

struct watched {
  __u32 count; /* number of records */
  __u64 since_ns;
  unsigned int percent_of_windows;
};

/* Records of a program that notes its rounds, and in how many of a hundred windows it came round.
 * Each look lasts a window; the regions have found their places before what counts begins. */
static struct watched watch(int session, pid_t child) {
  struct tmprof_params params = region_params(session);
  struct watched watched;
  __u64 windows_before = progress->windows, until_ns = 0;

  while (progress->windows == windows_before) usleep(1000);
  params.regions.monitoring_ns = WINDOW_NS;
  params.regions.aggregation_ns = 10 * WINDOW_NS;
  add_target(session, child);
  set_params(session, &params);
  start(session);
  wait_for_aggregations(session, 10);
  watched.since_ns = now_ns();
  windows_before = progress->windows;
  while (until_ns < watched.since_ns + 2 * SECOND || progress->windows < windows_before + 20) {
    until_ns = now_ns();
    EXPECT(until_ns < watched.since_ns + 60 * SECOND);
    usleep(10000);
  }
  stop(session);
  watched.percent_of_windows =
      100 * (progress->windows - windows_before) * WINDOW_NS / (until_ns - watched.since_ns);
  watched.count = read_some(session, MOST_RECORDS).count;
  return watched;
}

static void hot_memory_is_accessed_more_often_than_the_rest(void) {
  int session = open_session();
  pid_t child = start_program(), switcher = start_switcher(1);
  __u64 start_vpn = (unsigned long)memory / PAGE;
  struct watched watched = watch(session, child);
  unsigned int hot, cold;

  hot = percent_accessed(watched.count, start_vpn + HOT_FIRST, HOT_PAGES, watched.since_ns);
  cold = percent_accessed(watched.count, start_vpn + HOT_FIRST + HOT_PAGES,
                          PAGES - HOT_FIRST - HOT_PAGES, watched.since_ns);
  printf("   hot %u %%, cold %u %%, rounds in %u %% of the windows\n", hot, cold,
         watched.percent_of_windows);
  EXPECT(hot >= watched.percent_of_windows / 2);
  EXPECT(cold <= hot / 4);
  end_program(switcher);
  end_program(child);
  close(session);
}

/* One page in sixteen is left of the memory, and all that is left is hot. */
static void holes_do_not_thin_out_what_is_hot_between_them(void) {
  int session = open_session();
  pid_t child = fork(), switcher;
  struct watched watched;
  unsigned int accessed;

  EXPECT(child >= 0);
  if (child == 0) {
    unsigned long page;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    run_on_cpu(1);
    for (page = 0; page < PAGES; page += 16)
      EXPECT(munmap((char*)memory + (page + 1) * PAGE, 15 * PAGE) == 0);
    for (;;) {
      touch(memory, PAGES, 16);
      note_round();
    }
  }
  switcher = start_switcher(1);
  watched = watch(session, child);
  accessed = percent_accessed(watched.count, (unsigned long)memory / PAGE, PAGES, watched.since_ns);
  printf("   %u %%, rounds in %u %% of the windows\n", accessed, watched.percent_of_windows);
  EXPECT(accessed >= watched.percent_of_windows / 2);
  end_program(switcher);
  end_program(child);
  close(session);
}

static void clears_stay_within_what_the_target_may_lose(void) {
  int session = open_session();
  struct tmprof_params params = region_params(session);
  pid_t child = start_program();
  struct tmprof_stats stats;
  __u64 began_ns;

  add_target(session, child);
  params.region_clears = 500;
  set_params(session, &params);
  began_ns = now_ns();
  start(session);
  wait_for_aggregations(session, 2);
  stop(session);
  stats = stats_of(session);
  /* The program has one thread; a tenth of a second is there to begin with, and the latest step
   * may owe. */
  EXPECT(stats.cleared_bits <= 500 * (now_ns() - began_ns) / SECOND + 50 + 200);
  end_program(child);
  close(session);
}

/* It begins with a second's worth, and a step that has begun is read. One that a busy host holds up
 * takes longer, and the following ones make up for it. */
static void the_budget_bounds_the_scans_time(void) {
  const __u64 budget_ns = 5 * MS;
  int session = open_session();
  struct tmprof_params params = region_params(session);
  pid_t child = start_program();
  __u64 began_ns, now;

  add_target(session, child);
  params.scan_budget_ns = budget_ns;
  set_params(session, &params);
  began_ns = now_ns();
  start(session);
  usleep(3000000);
  do {
    usleep(1000000);
    now = now_ns();
    EXPECT(now < began_ns + 60 * SECOND);
  } while (stats_of(session).scan_ns > budget_ns * (now - began_ns + SECOND) / SECOND + 20 * MS);
  stop(session);
  EXPECT(stats_of(session).region_steps > 0);
  end_program(child);
  close(session);
}

static void of_an_idle_target_nothing_is_said(void) {
  int session = open_session();
  struct tmprof_params params = region_params(session);
  pid_t child = fork();
  __u64 checks;

  EXPECT(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  add_target(session, child);
  set_params(session, &params);
  start(session);
  usleep(500000);
  checks = stats_of(session).region_checks;
  usleep(500000);
  EXPECT_EQ(stats_of(session).region_checks, checks);
  EXPECT_EQ(stats_of(session).region_aggregations, 0);
  EXPECT_EQ(read_some(session, MOST_RECORDS).count, 0);
  end_program(child);
  close(session);
}

static void a_pause_stops_it_and_it_goes_on(void) {
  int session = open_session();
  struct tmprof_params params = region_params(session);
  pid_t child = start_program();
  __u64 checks, aggregations;

  add_target(session, child);
  set_params(session, &params);
  start(session);
  wait_for_aggregations(session, 2);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_PAUSE) == 0);
  checks = stats_of(session).region_checks;
  aggregations = stats_of(session).region_aggregations;
  usleep(300000);
  EXPECT_EQ(stats_of(session).region_checks, checks);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_RESUME) == 0);
  wait_for_aggregations(session, aggregations + 2);
  end_program(child);
  close(session);
}

static void a_full_log_loses_the_oldest_and_says_so(void) {
  int session = open_session();
  struct tmprof_params params = region_params(session);
  pid_t child = start_program();
  struct tmprof_read_regions last;
  __u32 target = add_target(session, child), i;

  params.region_log = 64;
  set_params(session, &params);
  start(session);
  wait_for_aggregations(session, 20);
  stop(session);
  last = read_some(session, 5);
  EXPECT_EQ(last.count, 5);
  EXPECT(last.overwritten > 0);
  last = read_some(session, MOST_RECORDS);
  EXPECT_EQ(last.count, 59);
  for (i = 0; i < last.count; i++) EXPECT_EQ(records[i].target_id, target);
  EXPECT_EQ(read_some(session, MOST_RECORDS).count, 0);
  end_program(child);
  close(session);
}

static void another_program_has_regions_of_its_own(void) {
  int session = open_session();
  struct tmprof_params params = region_params(session);
  pid_t child = fork();
  __u32 count, before, i;

  EXPECT(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    touch(memory, PAGES, 1);
    usleep(1500000);
    for (i = 0; i < 200; i++) touch(memory, PAGES, 1);
    execl("/proc/self/exe", "region_scan_test", "spin", NULL);
    _exit(1);
  }
  add_target(session, child);
  set_params(session, &params);
  start(session);
  usleep(20000);
  before = 0;
  do {
    wait_for_aggregations(session, stats_of(session).region_aggregations + 1);
    count = read_some(session, MOST_RECORDS).count;
    EXPECT(count > 0);
    if (!before) before = records[0].address_space;
  } while (records[count - 1].address_space == before);
  for (i = count - records[count - 1].regions; i < count; i++)
    EXPECT(records[i].end_vpn <= (unsigned long)memory / PAGE ||
           records[i].start_vpn >= (unsigned long)memory / PAGE + PAGES ||
           records[i].references == 0);
  end_program(child);
  close(session);
}

/* A page that was only read is the zero page, which has no accessed bit of its own. */
static void pages_without_memory_of_their_own_are_not_looked_at(void) {
  const size_t bytes = PAGES * PAGE;
  volatile char* unwritten =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  __u64 first = (unsigned long)unwritten / PAGE, end = first + PAGES, inside = 0;
  int session = open_session();
  struct tmprof_params params = region_params(session);
  pid_t child = fork();
  __u32 count, i;

  EXPECT(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
      for (i = 0; i < PAGES; i++) (void)unwritten[i * PAGE];
  }
  usleep(500000);
  add_target(session, child);
  set_params(session, &params);
  start(session);
  wait_for_aggregations(session, 10);
  stop(session);
  count = read_some(session, MOST_RECORDS).count;
  for (i = 0; i < count; i++) {
    if (records[i].start_vpn < first || records[i].end_vpn > end) continue;
    inside++;
    EXPECT_EQ(records[i].looks, 0);
    EXPECT_EQ(records[i].references, 0);
  }
  EXPECT(inside > 0);
  EXPECT(stats_of(session).region_checks_lost > 0);
  end_program(child);
  EXPECT(munmap((void*)unwritten, bytes) == 0);
  close(session);
}

static pid_t start_small_program(void) {
  pid_t child = fork();

  EXPECT(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) touch(memory, 1024, 1);
  }
  return child;
}

/* While steps are under way, with one of three targets dying, leaving or being joined each time. */
static void targets_come_and_go(void) {
  int session = open_session(), i;
  struct tmprof_params params = region_params(session);
  struct tmprof_target_request request = {.head = HEAD(struct tmprof_target_request)};
  pid_t stays = start_small_program();

  params.regions.monitoring_ns = MS;
  params.regions.aggregation_ns = 20 * MS;
  set_params(session, &params);
  add_target(session, stays);
  start(session);
  for (i = 0; i < 12; i++) {
    pid_t child = start_small_program();

    request.target_id = add_target(session, child);
    usleep(30000 + 7000 * i);
    if (i % 3 == 0) {
      EXPECT(ioctl(session, TMPROF_IOC_REMOVE_TARGET, &request) == 0);
      end_program(child);
    } else {
      end_program(child);
      if (i % 3 == 1) EXPECT(ioctl(session, TMPROF_IOC_REMOVE_TARGET, &request) == 0);
    }
    if (i % 4 == 3) {
      stop(session);
      start(session);
    }
  }
  wait_for_aggregations(session, stats_of(session).region_aggregations + 2);
  end_program(stays);
  close(session);
}

/* Mappings come and go, and huge pages with them, faster than the regions can follow. */
static void mappings_change_under_it(void) {
  int session = open_session();
  struct tmprof_params params = region_params(session);
  pid_t child = fork();
  __u32 target, count, first;

  EXPECT(child >= 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
      volatile char* piece = map_aligned(2048 * PAGE, MADV_HUGEPAGE);

      touch(piece, 2048, 1);
      munmap((char*)piece + 300 * PAGE, 1000 * PAGE);
      touch(memory, PAGES, 3);
      munmap((char*)piece, 2048 * PAGE);
      madvise((char*)memory, 1000 * PAGE, MADV_DONTNEED);
    }
  }
  params.regions.monitoring_ns = MS;
  params.regions.aggregation_ns = 20 * MS;
  params.regions.update_ns = 20 * MS;
  set_params(session, &params);
  target = add_target(session, child);
  start(session);
  wait_for_aggregations(session, 40);
  stop(session);
  count = read_some(session, MOST_RECORDS).count;
  for (first = 0; first < count; first += records[first].regions)
    check_aggregation(first, count, target);
  EXPECT_EQ(first, count);
  end_program(child);
  close(session);
}

/* In the middle of memory that is cold alike, where no split is likely to fall. That it is accessed
 * keeps the page from being joined with that memory before it is told. */
static void a_sampled_page_becomes_a_region(void) {
  int session = open_session(), found = 0;
  pid_t switcher = start_switcher(1);
  struct tmprof_params params = region_params(session);
  unsigned long vpn = (unsigned long)memory / PAGE + PAGES - 1000;
  __u64 deadline_ns = now_ns() + 30 * SECOND;
  __u32 count, i;

  params.sample_event.type = fake_type;
  params.sample_event.flags = TMPROF_EVENT_PRESENT | TMPROF_EVENT_DATA_SRC;
  params.sample_period = 1000;
  set_params(session, &params);
  run_on_cpu(1);
  touch(memory, PAGES, 1);
  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_START) == 0);
  while (!found) {
    struct script_record sample = {KIND_SAMPLE, vpn * PAGE, FROM_MEMORY(LOAD), 0};

    EXPECT(now_ns() < deadline_ns);
    write_script(&sample, 1);
    touch(memory + vpn % 7 * PAGE, 3000, 1);
    count = read_some(session, MOST_RECORDS).count;
    for (i = 0; i < count; i++)
      found |= records[i].start_vpn == vpn || records[i].end_vpn == vpn + 1;
    memory[(vpn - (unsigned long)memory / PAGE) * PAGE] = 1;
  }
  end_program(switcher);
  close(session);
}

int main(int count, char** arguments) {
  if (count > 1 && !strcmp(arguments[1], "spin")) {
    volatile char* own = map_aligned(1024 * PAGE, MADV_NOHUGEPAGE);

    for (;;) touch(own, 1024, 1);
  }
  memory = map_aligned(PAGES * PAGE, MADV_NOHUGEPAGE);
  progress = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(progress != MAP_FAILED);
  RUN(what_cannot_go_together_is_refused);
  RUN(there_is_nothing_to_read_before_a_scan_by_regions_keeps_a_log);
  RUN(regions_cover_the_memory_and_stay_within_their_bounds);
  RUN(hot_memory_is_accessed_more_often_than_the_rest);
  RUN(holes_do_not_thin_out_what_is_hot_between_them);
  RUN(clears_stay_within_what_the_target_may_lose);
  RUN(the_budget_bounds_the_scans_time);
  RUN(of_an_idle_target_nothing_is_said);
  RUN(a_pause_stops_it_and_it_goes_on);
  RUN(a_full_log_loses_the_oldest_and_says_so);
  RUN(another_program_has_regions_of_its_own);
  RUN(pages_without_memory_of_their_own_are_not_looked_at);
  RUN(targets_come_and_go);
  RUN(mappings_change_under_it);
  load_fake_sampler();
  RUN(a_sampled_page_becomes_a_region);
  unload_fake_sampler();
  return 0;
}
