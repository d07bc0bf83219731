// SPDX-License-Identifier: Apache-2.0
/* Scans while address spaces change as fast as they can: what is counted stays plausible. */

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

#include "tests/driver/guest/guest.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define REGION_PAGES (8 * PAGES_PER_HUGE)
#define MOST_RECORDS 65536

static __u64 storm_ns = 4000000000ULL; /* length of each storm */

struct storm {
  const char* name;
  void (*blow)(volatile char* region); /* one round; the region is the process's own */
};

static unsigned int seed = 1;

static size_t pick(size_t below) { return (size_t)rand_r(&seed) % below; }

static void map_and_unmap(volatile char* region) {
  size_t pages = 1 + pick(600), at = pick(REGION_PAGES - pages);
  char* start = (char*)region + at * PAGE;

  EXPECT(munmap(start, pages * PAGE) == 0);
  EXPECT(mmap(start, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
              -1, 0) == start);
  touch(start, pages, 1 + pick(8));
}

/* Moving leaves no hole, which the other thread's next mapping could fill. */
static void remap(volatile char* region) {
  size_t pages = PAGES_PER_HUGE;
  char* start = (char*)region + pick(REGION_PAGES / pages) * pages * PAGE;
  char* away = mmap(NULL, pages * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  EXPECT(away != MAP_FAILED);
  touch(start, pages, 3);
  EXPECT(mremap(start, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
                away) == away);
  touch(away, pages, 5);
  EXPECT(munmap(away, pages * PAGE) == 0);
}

static void advise(volatile char* region) {
  const int advices[] = {MADV_DONTNEED, MADV_FREE, MADV_COLD, MADV_PAGEOUT};
  size_t pages = 1 + pick(700), at = pick(REGION_PAGES - pages);

  /* COLD and PAGEOUT refuse what they cannot do. */
  madvise((char*)region + at * PAGE, pages * PAGE, advices[pick(4)]);
  touch(region + at * PAGE, pages, 1 + pick(4));
}

static void split_and_collapse(volatile char* region) {
  char* huge = (char*)region + pick(REGION_PAGES / PAGES_PER_HUGE) * PAGES_PER_HUGE * PAGE;

  EXPECT(madvise(huge, PAGES_PER_HUGE * PAGE, MADV_HUGEPAGE) == 0);
  touch(huge, PAGES_PER_HUGE, 1 + pick(64));
  /* Refused where there is no huge page to be had. */
  madvise(huge, PAGES_PER_HUGE * PAGE, MADV_COLLAPSE);
  if (pick(2)) {
    EXPECT(madvise(huge + pick(PAGES_PER_HUGE) * PAGE, PAGE, MADV_DONTNEED) == 0);
  } else {
    char* page = huge + pick(PAGES_PER_HUGE) * PAGE;

    EXPECT(mprotect(page, PAGE, PROT_READ) == 0);
    EXPECT(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
  }
  touch(huge, PAGES_PER_HUGE, 7);
}

/* Huge pages of hugetlb's pool, which the runner fills: those of both threads' regions fit. */
static void map_and_unmap_hugetlb(volatile char* region) {
  const int kinds[] = {MAP_PRIVATE, MAP_SHARED};
  size_t bytes = PAGES_PER_HUGE * PAGE;
  char* start = (char*)region + pick(REGION_PAGES / PAGES_PER_HUGE) * bytes;
  int hugetlb = pick(3) ? MAP_HUGETLB : 0;

  EXPECT(mmap(start, bytes, PROT_READ | PROT_WRITE,
              kinds[pick(2)] | MAP_ANONYMOUS | MAP_FIXED | hugetlb, -1, 0) == start);
  touch(start, PAGES_PER_HUGE, 1 + pick(64));
  if (hugetlb && pick(2)) EXPECT(madvise(start, bytes, MADV_DONTNEED) == 0);
}

static void fork_and_exit(volatile char* region) {
  pid_t child = fork();

  EXPECT(child >= 0);
  if (child == 0) {
    touch(region, REGION_PAGES, 1 + pick(9));
    _exit(0);
  }
  touch(region, REGION_PAGES, 11);
  EXPECT(waitpid(child, NULL, 0) == child);
}

static const struct storm storms[] = {
    {"map and unmap", map_and_unmap},
    {"remap", remap},
    {"advise", advise},
    {"split and collapse", split_and_collapse},
    {"map and unmap hugetlb", map_and_unmap_hugetlb},
    {"fork and exit", fork_and_exit},
};

/* Two threads of the target change its address space, each in a region of its own. */
static void* blow(void* argument) {
  const struct storm* storm = argument;
  volatile char* region = map_aligned(REGION_PAGES * PAGE, MADV_NOHUGEPAGE);

  for (;;) storm->blow(region);
  return NULL;
}

/* The region whose scans are checked: of the target, told to the parent. */
struct shared {
  volatile char* volatile region;
  volatile unsigned long rounds;
};
static struct shared* shared;

static void be_target(const struct storm* storm) {
  pthread_t other;
  volatile char* volatile region;

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  region = map_aligned(REGION_PAGES * PAGE, MADV_NOHUGEPAGE);
  touch(region, REGION_PAGES, 1);
  shared->region = region;
  if (storm->blow != fork_and_exit) EXPECT(pthread_create(&other, NULL, blow, (void*)storm) == 0);
  for (;;) {
    storm->blow(region);
    shared->rounds++;
  }
}

struct view {
  __u64 present[REGION_PAGES / 64];
  __u64 accessed[REGION_PAGES / 64];
  __u64 frames[REGION_PAGES];
  __u16 nodes[REGION_PAGES];
  struct tmprof_scan_leaf leaves[REGION_PAGES / PAGES_PER_HUGE + 1];
};
static struct view view;

static void check_view(const struct tmprof_scan_range* request, __u64 frames_end) {
  size_t i, present = 0, accessed = 0;

  for (i = 0; i < REGION_PAGES; i++) {
    int here = bit(view.present, i);

    present += here;
    accessed += bit(view.accessed, i);
    EXPECT(here || !bit(view.accessed, i));
    EXPECT_EQ(view.frames[i] != TMPROF_UNKNOWN, here);
    EXPECT_EQ(view.nodes[i], here ? 0 : TMPROF_NO_NODE);
    EXPECT(!here || (view.frames[i] > 0 && view.frames[i] < frames_end));
  }
  EXPECT_EQ(request->present_pages, present);
  EXPECT_EQ(request->accessed_pages, accessed);
  EXPECT(request->cleared_bits <= accessed);
  EXPECT(request->races <= REGION_PAGES / PAGES_PER_HUGE);
  for (i = 0; i < request->leaf_count; i++) {
    EXPECT_EQ(view.leaves[i].span_pages, PAGES_PER_HUGE);
    EXPECT_EQ(view.leaves[i].vpn % PAGES_PER_HUGE, 0);
    EXPECT(i == 0 || view.leaves[i].vpn > view.leaves[i - 1].vpn);
  }
}

static void scan_region(int session, __u32 target, __u32 flags, __u64 frames_end) {
  struct tmprof_scan_range request = {
      .head = {sizeof(request), TMPROF_ABI_VERSION, flags, 0},
      .target_id = target,
      .start_vpn = (unsigned long)shared->region / PAGE,
      .pages = REGION_PAGES,
      .leaf_capacity = sizeof(view.leaves) / sizeof(view.leaves[0]),
      .present = (unsigned long)view.present,
      .accessed = (unsigned long)view.accessed,
      .frames = (unsigned long)view.frames,
      .nodes = (unsigned long)view.nodes,
      .leaves = (unsigned long)view.leaves,
  };

  if (ioctl(session, TMPROF_IOC_SCAN_RANGE, &request)) {
    EXPECT(errno == EAGAIN && flags & TMPROF_SCAN_TRYLOCK);
    return;
  }
  check_view(&request, frames_end);
}

static struct tmprof_page_record records[MOST_RECORDS];

/* Ends the epoch; returns the references of its records, each of which is checked. A pass meets a
 * page once; twice, where base pages were collapsed behind it and the huge page reaches ahead of
 * it; and without end if the target executes programs, with each of which the pass begins anew. */
static __u64 take_epoch(int session, __u64 most_per_pass, __u64* pages) {
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  __u64 references = 0, left;
  size_t i;

  EXPECT(ioctl(session, TMPROF_IOC_EPOCH_END, &epoch) == 0);
  for (left = epoch.records; left;) {
    ssize_t bytes = read(session, records, sizeof(records));

    EXPECT(bytes > 0 && bytes % sizeof(records[0]) == 0);
    for (i = 0; i < bytes / sizeof(records[0]); i++) {
      const struct tmprof_page_record* record = &records[i];

      EXPECT(record->span_pages == 1 || record->span_pages == PAGES_PER_HUGE);
      EXPECT(record->vpn < 1UL << (56 - 12)); /* an exec builds its stack at the top */
      EXPECT_EQ(record->node, 0);
      EXPECT(record->references > 0 && record->references <= (epoch.passes + 1) * most_per_pass);
      EXPECT_EQ(record->page_flags, 0);
      EXPECT_EQ(record->load_samples + record->store_samples, 0);
      references += record->references;
    }
    left -= bytes / sizeof(records[0]);
    *pages += bytes / sizeof(records[0]);
  }
  EXPECT_EQ(read(session, records, sizeof(records)), 0);
  return references;
}

static int open_scanning(void) {
  int session = open_session();
  struct tmprof_params params = params_of(session);

  params.scan_interval_ns = 1000000;
  params.scan_budget_ns = 1000000000;
  params.scan_chunk_entries = 1024;
  params.flush_policy = TMPROF_FLUSH_EVERY_NTH;
  params.flush_every = 4;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  return session;
}

/* Memory ends below this frame: with a hole below 4 GiB, at most 4 GiB above its size. */
static __u64 end_of_frames(void) { return (1UL << 20) + sysconf(_SC_PHYS_PAGES) + (1UL << 16); }

/* On a busy host either may be late. */
static int have_met(int session) {
  struct tmprof_stats stats = stats_of(session);

  return stats.passes >= 3 && stats.references > 0 && shared->rounds > 0;
}

static void scans_of_a_storm_stay_plausible(const struct storm* storm) {
  const __u32 flags[] = {0, TMPROF_SCAN_CLEAR, TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH,
                         TMPROF_SCAN_CLEAR | TMPROF_SCAN_TRYLOCK};
  __u64 frames_end = end_of_frames(), until_ns, references = 0, pages = 0, calls = 0;
  int session = open_scanning();
  struct tmprof_stats stats;
  pid_t child;
  __u32 target;

  *shared = (struct shared){0};
  child = fork();
  if (child == 0) be_target(storm);
  while (!shared->region) sched_yield();
  target = add_target(session, child);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  for (until_ns = now_ns() + storm_ns; now_ns() < until_ns || !have_met(session);) {
    scan_region(session, target, flags[calls++ % 4], frames_end);
    if (calls % 64 == 0) references += take_epoch(session, 2, &pages);
  }
  EXPECT_EQ(waitpid(child, NULL, WNOHANG), 0);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  references += take_epoch(session, 2, &pages);
  stats = stats_of(session);
  /* Each leaf that was found accessed is in one record, and nothing else is. */
  EXPECT_EQ(stats.pages_refused, 0);
  EXPECT_EQ(references, stats.references);
  EXPECT(stats.references <= stats.leaves && stats.leaves <= stats.present_pages);
  EXPECT(pages > 0);
  EXPECT_EQ(stats.memory_bytes, 0);
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
  close(session);
  printf(
      "ok scans_of_a_storm_stay_plausible: %s, %lu rounds, %llu passes, %llu calls, %llu races\n",
      storm->name, shared->rounds, stats.passes, calls, stats.races);
  fflush(stdout);
}

/* Executes itself again and again, each time with memory anew. */
static void execute_again(int rounds) {
  char count[16];

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  touch(map_aligned(64 * PAGE, MADV_NOHUGEPAGE), 64, 1);
  snprintf(count, sizeof(count), "%d", rounds);
  execl("/proc/self/exe", "storm_test", "execute", count, NULL);
  _exit(127);
}

static void a_target_that_executes_on_and_on_stays_one_target(void) {
  int session = open_scanning();
  struct tmprof_target_request request = {.head = HEAD(struct tmprof_target_request)};
  __u64 until_ns, pages = 0, references = 0;
  struct tmprof_stats stats;
  pid_t child = fork();

  if (child == 0) execute_again(0);
  request.target_id = add_target(session, child);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  for (until_ns = now_ns() + storm_ns; now_ns() < until_ns || request.address_space < 3;) {
    EXPECT(ioctl(session, TMPROF_IOC_GET_TARGET, &request) == 0);
    EXPECT_EQ(request.state, TMPROF_TARGET_ALIVE);
    EXPECT_EQ(request.pid, child);
    references += take_epoch(session, 1U << 31, &pages);
  }
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  references += take_epoch(session, 1U << 31, &pages);
  stats = stats_of(session);
  EXPECT_EQ(references, stats.references);
  EXPECT_EQ(stats.targets_gone, 0);
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
  close(session);
}

/* Targets that come and go faster than a pass takes. */
static void targets_that_exit_at_once_are_counted_gone(void) {
  int session = open_scanning();
  __u64 until_ns, added = 0, pages = 0;
  struct tmprof_stats stats;

  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  for (until_ns = now_ns() + storm_ns; now_ns() < until_ns;) {
    struct tmprof_target_request request = {.head = HEAD(struct tmprof_target_request)};
    pid_t child = fork();

    if (child == 0) _exit(0);
    request.pid = child;
    if (ioctl(session, TMPROF_IOC_ADD_TARGET, &request) == 0) {
      added++;
      if (pick(2)) sched_yield();
      EXPECT(waitpid(child, NULL, 0) == child);
      EXPECT(ioctl(session, TMPROF_IOC_REMOVE_TARGET, &request) == 0);
      EXPECT_ERRNO(ioctl(session, TMPROF_IOC_GET_TARGET, &request), ENOENT);
    } else {
      EXPECT_EQ(errno, ESRCH);
      EXPECT(waitpid(child, NULL, 0) == child);
    }
    if (added % 256 == 255) take_epoch(session, 2, &pages);
  }
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_STOP) == 0);
  stats = stats_of(session);
  EXPECT(added > 0);
  EXPECT(stats.targets_gone <= added);
  EXPECT_EQ(stats.targets_gone, stats.passes_failed);
  take_epoch(session, 2, &pages);
  EXPECT_EQ(stats_of(session).memory_bytes, 0);
  close(session);
}

int main(int argc, char** argv) {
  size_t i;

  if (argc == 3) execute_again(atoi(argv[2]) + 1);
  if (is_debug_kernel()) storm_ns = 1500000000ULL;
  shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  EXPECT(shared != MAP_FAILED);
  for (i = 0; i < sizeof(storms) / sizeof(storms[0]); i++)
    scans_of_a_storm_stay_plausible(&storms[i]);
  RUN(a_target_that_executes_on_and_on_stays_one_target);
  RUN(targets_that_exit_at_once_are_counted_gone);
  return 0;
}
