// SPDX-License-Identifier: Apache-2.0
/* The driver's own scan: what a pass counts, how epochs hand it out, and what bounds it. */

#include <poll.h>
#include <sched.h>

#include "tests/driver/guest/guest.h"

#define HOUR_NS 3600000000000ULL
#define MOST_RECORDS 65536

static struct tmprof_page_record records[MOST_RECORDS];
static size_t record_count;

/* One pass at each start, without a budget, flushed: what follows it is known exactly. */
static void set_single_passes(int session) {
  struct tmprof_params params = params_of(session);

  params.scan_interval_ns = HOUR_NS;
  params.scan_budget_ns = 1000000000;
  params.flush_policy = TMPROF_FLUSH_PASS_END;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
}

static void wait_for_passes(int session, __u64 passes) {
  while (stats_of(session).passes < passes) sched_yield();
}

static void pass_once(int session) {
  __u64 before = stats_of(session).passes;

  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  wait_for_passes(session, before + 1);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
}

static struct tmprof_epoch end_epoch(int session) {
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};

  EXPECT(ioctl(session, TMPROF_IOC_EPOCH_END, &epoch) == 0);
  return epoch;
}

/* In odd pieces, to see that they join. */
static void read_records(int session) {
  size_t pieces[] = {1, 2, 31, 32, 33, 1000}, i = 0;

  for (record_count = 0;;) {
    size_t room = MOST_RECORDS - record_count, piece = pieces[i++ % 6];
    ssize_t bytes = read(session, records + record_count,
                         (piece < room ? piece : room) * sizeof(records[0]) + 7);

    EXPECT(bytes >= 0);
    EXPECT_EQ(bytes % sizeof(records[0]), 0);
    if (!bytes) break;
    record_count += bytes / sizeof(records[0]);
  }
  for (i = 1; i < record_count; i++)
    EXPECT(
        records[i - 1].target_id < records[i].target_id ||
        (records[i - 1].target_id == records[i].target_id && records[i - 1].vpn < records[i].vpn));
}

static const struct tmprof_page_record* record_of(volatile char* address) {
  size_t i;

  for (i = 0; i < record_count; i++) {
    if (records[i].vpn == (unsigned long)address / PAGE) return &records[i];
  }
  return NULL;
}

static size_t records_within(volatile char* start, size_t pages) {
  unsigned long first = (unsigned long)start / PAGE;
  size_t i, count = 0;

  for (i = 0; i < record_count; i++)
    count += records[i].vpn >= first && records[i].vpn < first + pages;
  return count;
}

static int wait_to_be_killed(void* unused) {
  (void)unused;
  for (;;) pause();
  return 0;
}

/* Two processes with one address space are one set of pages. */
static void bits_of_a_shared_address_space_are_counted_once(void) {
  static char stack[4 * PAGE] __attribute__((aligned(16)));
  const size_t pages = 4096;
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  struct tmprof_target_request removal = {.head = HEAD(struct tmprof_target_request)};
  int session = open_session();
  struct tmprof_params params;
  __u32 self = add_target(session, getpid()), other;
  pid_t child = clone(wait_to_be_killed, stack + sizeof(stack), CLONE_VM | SIGCHLD, NULL);
  size_t i, of_other = 0, references = 0;
  __u64 passes;

  EXPECT(child >= 0);
  other = add_target(session, child);
  EXPECT_EQ(query(session, self).shares_with, 0);
  EXPECT_EQ(query(session, other).shares_with, self);
  set_single_passes(session);
  params = params_of(session);
  params.scan_interval_ns = 10000000;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  touch(memory, pages, 1);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  wait_for_passes(session, 6);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  EXPECT_EQ(query(session, other).passes, 0);
  EXPECT_EQ(query(session, self).passes, stats_of(session).passes);
  end_epoch(session);
  read_records(session);
  for (i = 0; i < record_count; i++) {
    of_other += records[i].target_id == other;
    if (records[i].vpn >= (unsigned long)memory / PAGE &&
        records[i].vpn < (unsigned long)memory / PAGE + pages)
      references += records[i].references;
  }
  EXPECT_EQ(of_other, 0);
  EXPECT_EQ(references, pages);

  /* The other one takes over what the first leaves. */
  removal.target_id = self;
  EXPECT(ioctl(session, TMPROF_IOC_REMOVE_TARGET, &removal) == 0);
  EXPECT_EQ(query(session, other).shares_with, 0);
  passes = stats_of(session).passes;
  touch(memory, pages, 1);
  pass_once(session);
  EXPECT_EQ(query(session, other).passes, stats_of(session).passes - passes);
  end_epoch(session);
  read_records(session);
  EXPECT_EQ(records_within(memory, pages), pages);
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
  close(session);
}

/* A chunk of one entry is spent on the mapping before any page is looked at. */
static void a_pass_in_the_smallest_chunks_comes_to_its_end(void) {
  volatile char* memory = map_aligned(16 * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  struct tmprof_params params;

  set_single_passes(session);
  params = params_of(session);
  params.scan_chunk_entries = 1;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, getpid());
  touch(memory, 16, 1);
  pass_once(session);
  end_epoch(session);
  read_records(session);
  EXPECT_EQ(records_within(memory, 16), 16);
  close(session);
}

static void a_pass_counts_exactly_what_was_touched(void) {
  size_t pages = 4096, i;
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  __u32 self = add_target(session, getpid());
  struct tmprof_epoch epoch;

  set_single_passes(session);
  touch(memory, pages, 1);
  pass_once(session);
  end_epoch(session);
  touch(memory, pages, 5);
  pass_once(session);
  epoch = end_epoch(session);
  EXPECT_EQ(epoch.epoch, 2);
  EXPECT_EQ(epoch.passes, 1);
  EXPECT_EQ(epoch.samples, 0);
  EXPECT(epoch.active_ns[TMPROF_ABIT] > 0);
  EXPECT(epoch.start_ns < epoch.end_ns);
  read_records(session);
  EXPECT_EQ(record_count, epoch.records);
  EXPECT_EQ(epoch.references, epoch.records);
  EXPECT_EQ(records_within(memory, pages), (pages + 4) / 5);
  for (i = 0; i < pages; i += 5) {
    const struct tmprof_page_record* record = record_of(memory + i * PAGE);

    EXPECT(record != NULL);
    EXPECT_EQ(record->target_id, self);
    EXPECT_EQ(record->references, 1);
    EXPECT_EQ(record->span_pages, 1);
    EXPECT_EQ(record->load_samples + record->store_samples, 0);
    EXPECT(record->node != TMPROF_NO_NODE);
  }
  close(session);
}

static void each_pass_of_an_epoch_adds_a_reference(void) {
  size_t pages = 64, i;
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();

  add_target(session, getpid());
  set_single_passes(session);
  for (i = 0; i < 7; i++) {
    touch(memory, pages, i < 3 ? 1 : 2);
    pass_once(session);
  }
  EXPECT_EQ(end_epoch(session).passes, 7);
  read_records(session);
  for (i = 0; i < pages; i++) EXPECT_EQ(record_of(memory + i * PAGE)->references, i % 2 ? 3 : 7);
  close(session);
}

/* In one piece the pass took 8 ms of an emulated CPU. */
static void holds_of_the_mmap_lock_are_short_whatever_the_chunk(void) {
  const size_t pages = 131072;
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  struct tmprof_params params;
  struct tmprof_stats stats;

  if (is_debug_kernel()) return; /* it has less memory, and is slower still */
  set_single_passes(session);
  params = params_of(session);
  params.scan_chunk_entries = 1 << 18;
  params.memory_limit_bytes = 1 << 20;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, getpid());
  touch(memory, pages, 1);
  pass_once(session);
  stats = stats_of(session);
  EXPECT(stats.present_pages >= pages);
  printf("   %llu holds, %llu us each on average, at most %llu us\n", stats.mmap_lock_holds,
         stats.mmap_lock_ns / stats.mmap_lock_holds / 1000, stats.mmap_lock_max_ns / 1000);
  EXPECT(stats.mmap_lock_ns / stats.mmap_lock_holds < 2000000);
  close(session);
  EXPECT(munmap((void*)memory, pages * PAGE) == 0);
}

static void huge_pages_are_one_record_each(void) {
  size_t bytes = 3 * PAGES_PER_HUGE * PAGE, kind;
  volatile char* memories[] = {
      map_aligned(bytes, MADV_HUGEPAGE),
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0),
  };
  int session = open_session();

  EXPECT(memories[1] != MAP_FAILED);
  add_target(session, getpid());
  set_single_passes(session);
  for (kind = 0; kind < 2; kind++) touch(memories[kind], 3 * PAGES_PER_HUGE, PAGES_PER_HUGE);
  pass_once(session);
  end_epoch(session);
  for (kind = 0; kind < 2; kind++) memories[kind][2 * PAGES_PER_HUGE * PAGE + 777] = 1;
  pass_once(session);
  end_epoch(session);
  read_records(session);
  for (kind = 0; kind < 2; kind++) {
    volatile char* third = memories[kind] + 2 * PAGES_PER_HUGE * PAGE;

    EXPECT_EQ(records_within(memories[kind], 3 * PAGES_PER_HUGE), 1);
    EXPECT_EQ(record_of(third)->span_pages, PAGES_PER_HUGE);
    EXPECT_EQ(record_of(third)->references, 1);
  }
  close(session);
}

static void an_epoch_in_the_drivers_time_wakes_its_reader(void) {
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  int session = open_session();
  struct tmprof_params params = params_of(session);
  struct pollfd wait = {.fd = session, .events = POLLIN};
  __u64 began_ns, latest = 0;

  EXPECT_ERRNO(read(session, records, sizeof(records)), ENODATA);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_GET_EPOCH, &epoch), ENODATA);
  EXPECT_EQ(poll(&wait, 1, 0), 0);
  add_target(session, getpid());
  params.scan_interval_ns = 5000000;
  params.scan_budget_ns = 1000000000;
  params.epoch_ns = 20000000;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  began_ns = now_ns();
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  while (latest < 5) {
    EXPECT_EQ(poll(&wait, 1, -1), 1);
    EXPECT_EQ(wait.revents, POLLIN);
    EXPECT(ioctl(session, TMPROF_IOC_GET_EPOCH, &epoch) == 0);
    /* One without records may be followed by another before this process comes to look. */
    EXPECT(epoch.epoch > latest);
    latest = epoch.epoch;
    /* Epochs keep the beat: one that is late makes the next one shorter. */
    EXPECT(epoch.end_ns >= began_ns + latest * params.epoch_ns);
    read_records(session);
    EXPECT(record_count >= epoch.records);
  }
  EXPECT_ERRNO(read(session, records, 31), EINVAL);
  close(session);
}

static void ending_an_epoch_over_unread_records_says_so(void) {
  int session = open_session();
  struct tmprof_epoch first, second;

  add_target(session, getpid());
  set_single_passes(session);
  touch(map_aligned(64 * PAGE, MADV_NOHUGEPAGE), 64, 1);
  pass_once(session);
  first = end_epoch(session);
  EXPECT(first.records > 1);
  EXPECT_EQ(read(session, records, sizeof(records[0])), sizeof(records[0]));
  second = end_epoch(session);
  EXPECT_EQ(second.epoch_flags & TMPROF_EPOCH_UNREAD_DROPPED, TMPROF_EPOCH_UNREAD_DROPPED);
  EXPECT_EQ(stats_of(session).records_dropped, first.records - 1);
  EXPECT_EQ(second.records, 0);
  EXPECT_EQ(read(session, records, sizeof(records)), 0);
  close(session);
}

static void pages_beyond_the_memory_limit_are_counted(void) {
  size_t pages = 16384;
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  struct tmprof_params params;
  struct tmprof_epoch epoch;
  struct tmprof_stats stats;

  add_target(session, getpid());
  set_single_passes(session);
  params = params_of(session);
  params.memory_limit_bytes = 65536;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  touch(memory, pages, 1);
  pass_once(session);
  stats = stats_of(session);
  EXPECT(stats.memory_peak_bytes <= 65536);
  EXPECT(stats.memory_bytes > 0);
  EXPECT_EQ(stats.pages + stats.pages_refused, stats.references);
  epoch = end_epoch(session);
  EXPECT(epoch.epoch_flags & TMPROF_EPOCH_MEMORY_LIMIT);
  EXPECT_EQ(epoch.records + stats.pages_refused, epoch.references);
  read_records(session);
  EXPECT_EQ(stats_of(session).memory_bytes, 0);
  close(session);
}

/* A reader who reads to the end never runs into the next epoch, however late it comes. */
static void the_end_of_an_epoch_is_told_before_the_next_one_begins(void) {
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  int session = open_session();
  struct tmprof_params params = params_of(session);
  struct pollfd wait = {.fd = session, .events = POLLIN};
  ssize_t bytes;

  add_target(session, getpid());
  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 1000000000;
  params.epoch_ns = 5000000;
  /* Or nothing that is in a TLB would be found again, and epochs stay empty. */
  params.flush_policy = TMPROF_FLUSH_PASS_END;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  do {
    EXPECT_EQ(poll(&wait, 1, -1), 1);
    EXPECT(ioctl(session, TMPROF_IOC_GET_EPOCH, &epoch) == 0);
  } while (!epoch.records);
  EXPECT(epoch.records <= MOST_RECORDS);
  bytes = epoch.records * sizeof(records[0]);
  EXPECT_EQ(read(session, records, bytes), bytes);
  while (stats_of(session).epochs < epoch.epoch + 1) sched_yield();
  EXPECT_EQ(read(session, records, sizeof(records)), 0);
  do bytes = read(session, records, sizeof(records));
  while (!bytes);
  EXPECT(bytes > 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  close(session);
}

/* The driver begins a chunk only while it has budget, so only its last one can go beyond it. How
 * long that may have taken is known from the longest step between two readings: on a loaded host,
 * any chunk may find its virtual CPU taken away. */
static void scanning_stays_within_its_budget(void) {
  size_t pages = 16384;
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  struct tmprof_params params = params_of(session);
  struct tmprof_stats stats;
  __u64 scanned_ns = 0, longest_ns = 0;

  add_target(session, getpid());
  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 5000000;
  params.scan_chunk_entries = 512;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  do {
    touch(memory, pages, 1);
    stats = stats_of(session);
    if (stats.scan_ns - scanned_ns > longest_ns) longest_ns = stats.scan_ns - scanned_ns;
    scanned_ns = stats.scan_ns;
  } while (stats.started_ns[TMPROF_ABIT] < 2000000000 || stats.chunks < 3);
  /* A second's worth was saved up. */
  EXPECT(stats.scan_ns <= params.scan_budget_ns +
                              stats.started_ns[TMPROF_ABIT] / 1000000000.0 * params.scan_budget_ns +
                              longest_ns);
  close(session);
}

static void parameters_are_taken_whole_or_not_at_all(void) {
  int session = open_session();
  struct tmprof_params before = params_of(session), params = before, after;

  params.scan_interval_ns = 123456789;
  params.reserved[1] = 1;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SET_PARAMS, &params), EINVAL);
  after = params_of(session);
  EXPECT_EQ(memcmp(&after, &before, sizeof(after)), 0);
  params.reserved[1] = 0;
  params.memory_limit_bytes = 1ULL << 40; /* beyond max_memory_bytes */
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SET_PARAMS, &params), EDQUOT);
  params.memory_limit_bytes = before.memory_limit_bytes;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  after = params_of(session);
  EXPECT_EQ(memcmp(&after, &params, sizeof(after)), 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SET_PARAMS, &before), EBUSY);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_PAUSE) == 0);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SET_PARAMS, &before), EBUSY);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &before) == 0);
  close(session);
}

static void commands_are_followed_only_where_they_make_sense(void) {
  int session = open_session();

  EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, 0), EINVAL);
  EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, 5), EINVAL);
  EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, TMPROF_STOP), ENODEV);
  EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, TMPROF_PAUSE), ENODEV);
  EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, TMPROF_RESUME), ENODEV);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, TMPROF_START), EALREADY);
  EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, TMPROF_RESUME), EALREADY);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_PAUSE) == 0);
  EXPECT_ERRNO(control(session, TMPROF_MASK_ABIT, TMPROF_PAUSE), EALREADY);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_RESUME) == 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  close(session);
}

static void a_paused_scan_counts_nothing(void) {
  int session = open_session();
  struct tmprof_params params = params_of(session);
  struct tmprof_stats before, after;

  add_target(session, getpid());
  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 1000000000;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  wait_for_passes(session, 2);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_PAUSE) == 0);
  before = stats_of(session);
  do after = stats_of(session);
  while (after.started_ns[TMPROF_ABIT] < before.started_ns[TMPROF_ABIT] + 50000000);
  EXPECT_EQ(after.chunks, before.chunks);
  EXPECT_EQ(after.active_ns[TMPROF_ABIT], before.active_ns[TMPROF_ABIT]);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_RESUME) == 0);
  wait_for_passes(session, before.passes + 2);
  close(session);
}

static void a_target_that_joins_a_started_scan_is_scanned_at_once(void) {
  int session = open_session();

  set_single_passes(session);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  add_target(session, getpid());
  wait_for_passes(session, 1);
  add_target(session, getppid());
  wait_for_passes(session, 2);
  close(session);
}

static void a_target_that_dies_under_the_scan_is_noticed(void) {
  int session = open_session();
  struct tmprof_params params = params_of(session);
  volatile char* running =
      mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t child;

  EXPECT(running != MAP_FAILED);
  child = fork();
  if (child == 0) {
    volatile char* memory = map_aligned(4096 * PAGE, MADV_NOHUGEPAGE);

    for (;;) {
      touch(memory, 4096, 1);
      *running = 1;
    }
  }
  while (!*running) sched_yield();
  add_target(session, child);
  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 1000000000;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  wait_for_passes(session, 3);
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
  while (!stats_of(session).targets_gone) sched_yield();
  EXPECT(end_epoch(session).records > 0);
  close(session); /* with its scan started */
}

static void a_target_that_has_gone_does_not_come_back_with_a_start(void) {
  int session = open_session();
  struct tmprof_params params = params_of(session);
  struct tmprof_stats stats;
  pid_t child = fork();

  if (child == 0) {
    for (;;) pause();
  }
  add_target(session, child);
  add_target(session, getpid());
  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 1000000000;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
  while (!stats_of(session).targets_gone) sched_yield();
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  stats = stats_of(session);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  wait_for_passes(session, stats.passes + 3);
  stats = stats_of(session);
  EXPECT_EQ(stats.targets_gone, 1);
  EXPECT_EQ(stats.passes_failed, 1);
  close(session);
}

static void a_flush_reaches_what_earlier_passes_cleared(void) {
  int session = open_session();
  struct tmprof_params params = params_of(session);
  struct tmprof_stats stats;
  pid_t child = fork();

  if (child == 0) {
    touch(map_aligned(64 * PAGE, MADV_NOHUGEPAGE), 64, 1);
    raise(SIGSTOP);
    _exit(0);
  }
  EXPECT(waitpid(child, NULL, WUNTRACED) == child);
  add_target(session, child);
  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 1000000000;
  params.flush_policy = TMPROF_FLUSH_EVERY_NTH;
  params.flush_every = 2;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  wait_for_passes(session, 6);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  stats = stats_of(session);
  /* The first pass clears, the second flushes for it, the others find nothing to do. */
  EXPECT(stats.references >= 64);
  EXPECT_EQ(stats.cleared_bits, stats.references);
  EXPECT_EQ(stats.flushes, 1);
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
  close(session);
}

static void debugfs_shows_the_totals(void) {
  char line[128], found = 0;
  int session = open_session();
  FILE* pipe;

  add_target(session, getpid());
  set_single_passes(session);
  pass_once(session);
  pipe = popen("cat /sys/kernel/debug/tmprof/*/stats", "r");
  EXPECT(pipe != NULL);
  while (fgets(line, sizeof(line), pipe)) found |= !strcmp(line, "passes 1\n");
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT(found);
  close(session);
}

int main(void) {
  RUN(a_pass_counts_exactly_what_was_touched);
  RUN(bits_of_a_shared_address_space_are_counted_once);
  RUN(a_pass_in_the_smallest_chunks_comes_to_its_end);
  RUN(each_pass_of_an_epoch_adds_a_reference);
  RUN(holds_of_the_mmap_lock_are_short_whatever_the_chunk);
  RUN(huge_pages_are_one_record_each);
  RUN(an_epoch_in_the_drivers_time_wakes_its_reader);
  RUN(the_end_of_an_epoch_is_told_before_the_next_one_begins);
  RUN(ending_an_epoch_over_unread_records_says_so);
  RUN(pages_beyond_the_memory_limit_are_counted);
  RUN(scanning_stays_within_its_budget);
  RUN(parameters_are_taken_whole_or_not_at_all);
  RUN(commands_are_followed_only_where_they_make_sense);
  RUN(a_paused_scan_counts_nothing);
  RUN(a_target_that_joins_a_started_scan_is_scanned_at_once);
  RUN(a_target_that_dies_under_the_scan_is_noticed);
  RUN(a_target_that_has_gone_does_not_come_back_with_a_start);
  RUN(a_flush_reaches_what_earlier_passes_cleared);
  RUN(debugfs_shows_the_totals);
  return 0;
}
