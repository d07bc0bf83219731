// SPDX-License-Identifier: Apache-2.0
/*
 * Each call with its nth allocation, or nth access to user memory, made to fail, for every n that
 * it has: it says so by an errno, and the session works as before. Leaks are kmemleak's to find,
 * after the last test.
 */

#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>

#include "tests/driver/guest/guest.h"

#define PAGES 1024
#define MOST_FAULTS 2000

static volatile char* memory;
static int session;
static __u32 self;

static void write_file(const char* file, const char* text) {
  int fd = open(file, O_WRONLY);

  if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
    FAIL("%s: writing '%s': %s", file, text, strerror(errno));
  close(fd);
}

/* The next `nth` thing of this thread that can be made to fail does; 0: none. */
static int fail_nth_file;

static void fail_nth(int nth) {
  char text[16];
  int bytes = snprintf(text, sizeof(text), "%d", nth);

  /* A failure left over from the number before may strike here. */
  while (pwrite(fail_nth_file, text, bytes, 0) != bytes) EXPECT(errno == EFAULT || errno == ENOMEM);
}

/* True if the number was larger than the count of calls that can fail: then it strikes here, or is
 * left. */
static int not_reached(void) {
  char text[16] = "";

  return pread(fail_nth_file, text, sizeof(text) - 1, 0) <= 0 || atoi(text) > 0;
}

/* None may look at accessed bits meanwhile: what it clears between the two, the second misses. */
static void expect_working_session(void) {
  __u64 accessed[PAGES / 64];
  struct tmprof_scan_range request = {
      .head = {sizeof(request), TMPROF_ABI_VERSION, TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH, 0},
      .target_id = self,
      .start_vpn = (unsigned long)memory / PAGE,
      .pages = PAGES,
      .accessed = (unsigned long)accessed,
  };

  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &request) == 0);
  touch(memory, PAGES, 3);
  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &request) == 0);
  EXPECT_EQ(request.accessed_pages, (PAGES + 2) / 3);
}

/* An attempt: 0, or -1 with an errno. `undo` follows each success. */
struct attempt {
  const char* name;
  int (*call)(void);
  void (*undo)(void);
};

static int opened = -1;

static int open_one(void) {
  opened = open(TMPROF_DEVICE_PATH, O_RDWR);
  return opened < 0 ? -1 : 0;
}

static void close_one(void) { EXPECT(close(opened) == 0); }

static int get_info(void) {
  struct tmprof_info request = {.head = HEAD(struct tmprof_info)};

  return ioctl(session, TMPROF_IOC_INFO, &request);
}

static struct tmprof_target_request added = {.head = HEAD(struct tmprof_target_request)};

static int add_one(void) { return ioctl(session, TMPROF_IOC_ADD_TARGET, &added); }

static void remove_one(void) { EXPECT(ioctl(session, TMPROF_IOC_REMOVE_TARGET, &added) == 0); }

static int get_target(void) {
  struct tmprof_target_request request = {.head = HEAD(struct tmprof_target_request),
                                          .target_id = self};

  return ioctl(session, TMPROF_IOC_GET_TARGET, &request);
}

static struct tmprof_params params;

static int get_params(void) {
  struct tmprof_params request = {.head = HEAD(struct tmprof_params)};

  return ioctl(session, TMPROF_IOC_GET_PARAMS, &request);
}

static int set_params(void) { return ioctl(session, TMPROF_IOC_SET_PARAMS, &params); }

static int start_all(void) { return control(session, TMPROF_MASK_ALL, TMPROF_START); }

static void stop_all(void) { EXPECT(control(session, TMPROF_MASK_ALL, TMPROF_STOP) == 0); }

static int end_epoch(void) {
  struct tmprof_epoch request = {.head = HEAD(struct tmprof_epoch)};

  return ioctl(session, TMPROF_IOC_EPOCH_END, &request);
}

static int get_epoch(void) {
  struct tmprof_epoch request = {.head = HEAD(struct tmprof_epoch)};

  return ioctl(session, TMPROF_IOC_GET_EPOCH, &request);
}

static int read_records(void) {
  static struct tmprof_page_record records[64];

  return read(session, records, sizeof(records)) < 0 ? -1 : 0;
}

static int poll_once(void) {
  struct pollfd wait = {.fd = session, .events = POLLIN};

  return poll(&wait, 1, 0) < 0 ? -1 : 0;
}

static int scan_with(int fd) {
  static __u64 select[PAGES / 64], present[PAGES / 64], frames[PAGES];
  static __u16 nodes[PAGES];
  static struct tmprof_scan_leaf leaves[4];
  struct tmprof_scan_range request = {
      .head = {sizeof(request), TMPROF_ABI_VERSION, TMPROF_SCAN_CLEAR | TMPROF_SCAN_SELECT, 0},
      .target_id = 1,
      .start_vpn = (unsigned long)memory / PAGE,
      .pages = PAGES,
      .leaf_capacity = 4,
      .select = (unsigned long)select,
      .present = (unsigned long)present,
      .frames = (unsigned long)frames,
      .nodes = (unsigned long)nodes,
      .leaves = (unsigned long)leaves,
  };

  return ioctl(fd, TMPROF_IOC_SCAN_RANGE, &request);
}

static int scan(void) { return scan_with(session); }

/* The first of a session, which takes memory. */
static int fresh = -1;

static void open_fresh(void) {
  fresh = open_session();
  add_target(fresh, getpid());
}

static int scan_first(void) { return scan_with(fresh); }

static void renew(void) {
  close(fresh);
  open_fresh();
}

static int get_stats(void) {
  struct tmprof_stats request = {.head = HEAD(struct tmprof_stats)};

  return ioctl(session, TMPROF_IOC_STATS, &request);
}

static int get_lock_holds(void) {
  struct tmprof_lock_holds request = {.head = HEAD(struct tmprof_lock_holds)};

  return ioctl(session, TMPROF_IOC_LOCK_HOLDS, &request);
}

static int read_samples(void) {
  static struct tmprof_sample samples[8];
  struct tmprof_read_samples request = {
      .head = HEAD(struct tmprof_read_samples), .samples = (unsigned long)samples, .capacity = 8};

  return ioctl(session, TMPROF_IOC_READ_SAMPLES, &request);
}

/* A session that looks at regions; started, it takes memory for their log. */
static int by_regions = -1;

static void open_by_regions(void) {
  struct tmprof_params regions = {.head = HEAD(struct tmprof_params)};

  by_regions = open_session();
  add_target(by_regions, getpid());
  EXPECT(ioctl(by_regions, TMPROF_IOC_GET_PARAMS, &regions) == 0);
  regions.abit_mode = TMPROF_ABIT_REGIONS;
  EXPECT(ioctl(by_regions, TMPROF_IOC_SET_PARAMS, &regions) == 0);
}

static int start_regions(void) { return control(by_regions, TMPROF_MASK_ABIT, TMPROF_START); }

static void stop_regions(void) { EXPECT(control(by_regions, TMPROF_MASK_ABIT, TMPROF_STOP) == 0); }

static int read_regions(void) {
  static struct tmprof_region_record records[8];
  struct tmprof_read_regions request = {
      .head = HEAD(struct tmprof_read_regions), .regions = (unsigned long)records, .capacity = 8};

  return ioctl(by_regions, TMPROF_IOC_READ_REGIONS, &request);
}

static void nothing(void) {}

/* Tries every n; returns how many of them failed. */
static int fail_each(const struct attempt* attempt) {
  int nth, failures = 0;

  for (nth = 1;; nth++) {
    int result, error, rest;

    EXPECT(nth < MOST_FAULTS);
    fail_nth(nth);
    result = attempt->call();
    error = errno;
    rest = not_reached();
    fail_nth(0);
    if (result == 0) {
      attempt->undo();
    } else {
      if (error != ENOMEM && error != EFAULT)
        FAIL("%s: fault %d: errno %d (%s)", attempt->name, nth, error, strerror(error));
      failures++;
    }
    if (rest) {
      EXPECT(result == 0);
      break;
    }
  }
  printf("%s: %d faults, %d of them errors\n", attempt->name, nth - 1, failures);
  return failures;
}

static void every_call_survives_each_fault(void) {
  /* Attempts that need a source at work come last. */
  const struct attempt attempts[] = {
      {"open", open_one, close_one},
      {"INFO", get_info, nothing},
      {"ADD_TARGET", add_one, remove_one},
      {"GET_TARGET", get_target, nothing},
      {"GET_PARAMS", get_params, nothing},
      {"SET_PARAMS", set_params, nothing},
      {"CONTROL start", start_all, stop_all},
      {"CONTROL start of regions", start_regions, stop_regions},
      {"EPOCH_END", end_epoch, nothing},
      {"GET_EPOCH", get_epoch, nothing},
      {"read", read_records, nothing},
      {"poll", poll_once, nothing},
      {"SCAN_RANGE", scan, nothing},
      {"the first SCAN_RANGE", scan_first, renew},
      {"STATS", get_stats, nothing},
      {"LOCK_HOLDS", get_lock_holds, nothing},
  };
  const struct attempt sampled = {"READ_SAMPLES", read_samples, nothing};
  const struct attempt regions = {"READ_REGIONS", read_regions, nothing};
  size_t i;

  open_fresh();
  open_by_regions();
  added.pid = fork();
  if (added.pid == 0) {
    for (;;) pause();
  }
  EXPECT(end_epoch() == 0);
  for (i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++) {
    /* Each copies from the caller at least, but for read() without records, and poll(). */
    int failures = fail_each(&attempts[i]);

    expect_working_session();
    EXPECT(failures > 0 || attempts[i].call == read_records || attempts[i].call == poll_once);
  }
  EXPECT(start_all() == 0);
  fail_each(&sampled);
  stop_all();
  expect_working_session();
  EXPECT(start_regions() == 0);
  EXPECT(fail_each(&regions) > 0);
  stop_regions();
  expect_working_session();
  close(by_regions);
  kill(added.pid, SIGKILL);
  EXPECT(waitpid(added.pid, NULL, 0) == added.pid);
  close(fresh);
}

/* The scan's thread allocates for its counters: with a third of that failing, no page goes untold.
 * (Not each second one: kmemleak allocates once for each allocation, and would get them all.) */
static void pages_without_memory_to_count_them_are_told(void) {
  const char* folder = "/sys/kernel/debug/failslab/";
  char file[128], text[32];
  unsigned long start = 0, bytes = 0;
  FILE* stream;
  static struct tmprof_page_record records[1024];
  struct tmprof_stats before, after;
  __u64 references = 0;
  ssize_t count, j;
  volatile char* many = map_aligned(4096 * PAGE, MADV_NOHUGEPAGE);
  struct {
    const char *name, *value;
  } const settings[] = {
      {"stacktrace-depth", "32"}, {"interval", "3"}, {"probability", "100"}, {"times", "-1"}};
  size_t i;

  stream = fopen("/sys/module/tmprof/sections/.text", "r");
  EXPECT(stream != NULL && fscanf(stream, "%lx", &start) == 1 && start);
  fclose(stream);
  stream = fopen("/sys/module/tmprof/coresize", "r");
  EXPECT(stream != NULL && fscanf(stream, "%lu", &bytes) == 1 && bytes);
  fclose(stream);
  touch(many, 4096, 1);
  snprintf(file, sizeof(file), "%srequire-start", folder);
  snprintf(text, sizeof(text), "%#lx", start);
  write_file(file, text);
  snprintf(file, sizeof(file), "%srequire-end", folder);
  snprintf(text, sizeof(text), "%#lx", start + bytes);
  write_file(file, text);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_PAUSE) == 0);
  EXPECT(end_epoch() == 0);
  before = stats_of(session);
  for (i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
    snprintf(file, sizeof(file), "%s%s", folder, settings[i].name);
    write_file(file, settings[i].value);
  }
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_RESUME) == 0);
  do {
    touch(many, 4096, 1);
    after = stats_of(session);
  } while (after.pages_refused == before.pages_refused || after.passes < before.passes + 2);
  write_file("/sys/kernel/debug/failslab/probability", "0");
  write_file("/sys/kernel/debug/failslab/interval", "1");
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  after = stats_of(session);
  EXPECT(end_epoch() == 0);
  while ((count = read(session, records, sizeof(records))) > 0) {
    for (j = 0; j < count / (ssize_t)sizeof(records[0]); j++) references += records[j].references;
  }
  EXPECT_EQ(references + after.pages_refused - before.pages_refused,
            after.references - before.references);
  expect_working_session();
}

int main(void) {
  fail_nth_file = open("/proc/thread-self/fail-nth", O_RDWR);
  if (fail_nth_file < 0) {
    printf("skipped: this kernel has no fault injection\n");
    return 0;
  }
  write_file("/sys/kernel/debug/failslab/ignore-gfp-wait", "N");
  write_file("/sys/kernel/debug/failslab/verbose", "0");
  write_file("/sys/kernel/debug/fail_page_alloc/ignore-gfp-wait", "N");
  write_file("/sys/kernel/debug/fail_page_alloc/ignore-gfp-highmem", "N");
  write_file("/sys/kernel/debug/fail_page_alloc/min-order", "0");
  write_file("/sys/kernel/debug/fail_page_alloc/verbose", "0");
  write_file("/sys/kernel/debug/fail_usercopy/verbose", "0");

  memory = map_aligned(PAGES * PAGE, MADV_NOHUGEPAGE);
  touch(memory, PAGES, 1);
  session = open_session();
  self = add_target(session, getpid());
  params = params_of(session);
  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 1000000000;
  params.sample_event.type = PERF_TYPE_SOFTWARE;
  params.sample_event.config = PERF_COUNT_SW_CPU_CLOCK;
  params.sample_event.flags = TMPROF_EVENT_PRESENT;
  params.sample_period = 100000000;
  params.log_samples = 64;
  params.gate[TMPROF_ABIT].mode = TMPROF_GATE_COUNTED;
  /* Above none: a period that the worker ended late, on a busy host, would be the largest for good,
   * and close the gate on all that follow. */
  params.gate[TMPROF_ABIT].threshold_permille = 0;
  params.gate[TMPROF_ABIT].event = params.sample_event;
  EXPECT(set_params() == 0);
  RUN(every_call_survives_each_fault);
  RUN(pages_without_memory_to_count_them_are_told);
  close(session);
  return 0;
}
