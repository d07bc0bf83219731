// SPDX-License-Identifier: Apache-2.0
/* hugetlb lets processes that map the same whole GiB of a file share the tables under it. A bit
 * cleared there is cleared for all of them, so the driver leaves such mappings out, and says so. */

#include <sys/syscall.h>

#include "tests/driver/guest/guest.h"

#define GIB (1UL << 30)
#define HUGE_BYTES (PAGES_PER_HUGE * PAGE)
#define RANGE_PAGES 16384
#define TOUCHED 4

/* `bytes` of the file at a whole GiB. Only what is touched takes pages from the pool. */
static volatile char* map_shared(int file, size_t bytes) {
  char* room = mmap(NULL, bytes + GIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* start = (char*)(((unsigned long)room + GIB - 1) & -GIB);

  EXPECT(room != MAP_FAILED);
  EXPECT(mmap(start, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file,
              0) == start);
  return start;
}

static int make_file(size_t bytes) {
  int file = syscall(SYS_memfd_create, "shared", MFD_HUGETLB | MFD_CLOEXEC);

  EXPECT(file >= 0);
  EXPECT(ftruncate(file, bytes) == 0);
  return file;
}

static struct tmprof_scan_range scan(int session, __u32 target, volatile char* start) {
  struct tmprof_scan_range request = {
      .head = HEAD(struct tmprof_scan_range),
      .target_id = target,
      .start_vpn = (unsigned long)start / PAGE,
      .pages = RANGE_PAGES,
  };

  request.head.flags = TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH;
  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &request) == 0);
  return request;
}

/* Another process with the same tables, until its end of the pipe is closed. */
static pid_t share(volatile char* memory, int* release) {
  int ready[2], held[2];
  char byte;
  pid_t child;

  EXPECT(pipe(ready) == 0 && pipe(held) == 0);
  child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    close(held[1]);
    touch(memory, TOUCHED * PAGES_PER_HUGE, PAGES_PER_HUGE);
    EXPECT(write(ready[1], "x", 1) == 1);
    _exit(read(held[0], &byte, 1));
  }
  EXPECT(read(ready[0], &byte, 1) == 1);
  close(ready[0]);
  close(ready[1]);
  close(held[0]);
  *release = held[1];
  return child;
}

static void whole_gibs_of_a_shared_file_are_left_out_and_counted(void) {
  int file = make_file(2 * GIB), session = open_session(), release;
  volatile char* memory = map_shared(file, 2 * GIB);
  __u32 self = add_target(session, getpid()), other;
  struct tmprof_scan_range seen;
  struct tmprof_stats before;
  pid_t sharer;

  touch(memory, TOUCHED * PAGES_PER_HUGE, PAGES_PER_HUGE);
  sharer = share(memory, &release);
  other = add_target(session, sharer);
  before = stats_of(session);
  EXPECT_EQ(before.skipped_leaves, 0);
  seen = scan(session, self, memory);
  EXPECT_EQ(seen.present_pages + seen.accessed_pages + seen.cleared_bits, 0);
  EXPECT_EQ(seen.mapped_end_vpn, (unsigned long)(memory + 2 * GIB) / PAGE);
  /* The next page in use lies beyond the whole range. */
  EXPECT(seen.next_vpn >= (unsigned long)(memory + 2 * GIB) / PAGE);
  EXPECT_EQ(stats_of(session).skipped_leaves, RANGE_PAGES / PAGES_PER_HUGE);
  EXPECT_EQ(scan(session, other, memory + GIB).present_pages, 0);
  EXPECT_EQ(stats_of(session).skipped_leaves, 2 * RANGE_PAGES / PAGES_PER_HUGE);
  EXPECT_EQ(stats_of(session).cleared_bits, 0);
  close(release);
  EXPECT(waitpid(sharer, NULL, 0) == sharer);
  close(session);
  EXPECT(munmap((void*)memory, 2 * GIB) == 0);
  close(file);
}

static void less_than_a_whole_gib_of_it_is_scanned(void) {
  int file = make_file(2 * GIB), session = open_session(), release;
  volatile char* memory = map_shared(file, GIB - HUGE_BYTES);
  __u32 self = add_target(session, getpid());
  struct tmprof_scan_range seen;
  pid_t sharer;

  touch(memory, TOUCHED * PAGES_PER_HUGE, PAGES_PER_HUGE);
  sharer = share(memory, &release);
  seen = scan(session, self, memory);
  EXPECT_EQ(seen.present_pages, TOUCHED * PAGES_PER_HUGE);
  EXPECT_EQ(seen.cleared_bits, TOUCHED);
  EXPECT_EQ(scan(session, self, memory).accessed_pages, 0);
  /* Bits cleared in the one process are still set in the other. */
  EXPECT_EQ(scan(session, add_target(session, sharer), memory).cleared_bits, TOUCHED);
  EXPECT_EQ(stats_of(session).skipped_leaves, 0);
  close(release);
  EXPECT(waitpid(sharer, NULL, 0) == sharer);
  close(session);
  EXPECT(munmap((void*)memory, GIB - HUGE_BYTES) == 0);
  close(file);
}

/* Reads what the driver says of regions, until enough aggregations were logged. */
static __u32 read_regions(int session, struct tmprof_region_record* records, __u32 capacity) {
  struct tmprof_read_regions request = {
      .head = HEAD(struct tmprof_read_regions),
      .regions = (unsigned long)records,
      .capacity = capacity,
  };

  while (stats_of(session).region_aggregations < 5) usleep(10000);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  EXPECT(ioctl(session, TMPROF_IOC_READ_REGIONS, &request) == 0);
  return request.count;
}

/* A process that accesses shared and private memory all the time. */
static pid_t start_program(volatile char* shared, volatile char* own, size_t own_pages) {
  pid_t child = fork();

  EXPECT(child >= 0);
  if (child == 0) {
    for (;;) {
      touch(shared, TOUCHED * PAGES_PER_HUGE, PAGES_PER_HUGE);
      touch(own, own_pages, 1);
    }
  }
  return child;
}

static void regions_say_nothing_of_whole_gibs_of_a_shared_file(void) {
  static struct tmprof_region_record records[65536];
  int file = make_file(2 * GIB), session = open_session();
  volatile char* memory = map_shared(file, 2 * GIB);
  volatile char* own = map_aligned(RANGE_PAGES * PAGE, MADV_NOHUGEPAGE);
  __u64 start = (unsigned long)memory / PAGE, end = start + 2 * GIB / PAGE;
  struct tmprof_params params = params_of(session);
  pid_t child = start_program(memory, own, RANGE_PAGES);
  __u64 looks = 0;
  __u32 count, i;

  params.abit_mode = TMPROF_ABIT_REGIONS;
  params.scan_budget_ns = 1000000000;
  params.regions.aggregation_ns = 20000000;
  params.regions.update_ns = 20000000;
  params.region_log = 65536;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, child);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  count = read_regions(session, records, 65536);
  for (i = 0; i < count; i++) {
    if (records[i].end_vpn <= start || records[i].start_vpn >= end) {
      looks += records[i].looks;
      continue;
    }
    EXPECT(records[i].start_vpn >= start && records[i].end_vpn <= end);
    EXPECT_EQ(records[i].looks, 0);
    EXPECT_EQ(records[i].references, 0);
  }
  EXPECT(looks > 0);
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
  close(session);
  EXPECT(munmap((void*)memory, 2 * GIB) == 0);
  close(file);
}

int main(void) {
  RUN(whole_gibs_of_a_shared_file_are_left_out_and_counted);
  RUN(less_than_a_whole_gib_of_it_is_scanned);
  RUN(regions_say_nothing_of_whole_gibs_of_a_shared_file);
  return 0;
}
