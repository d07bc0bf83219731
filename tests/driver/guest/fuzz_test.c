// SPDX-License-Identifier: Apache-2.0
/*
 * Random calls from several threads, on sessions that they share: each ends with 0 or an errno that
 * the interface knows, and when all is over a session counts as exactly as ever.
 *
 * Usage: fuzz_test [SEED]; the seed is printed first. Which call meets which state still depends on
 * how the threads' turns fall.
 */

#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "tests/driver/guest/fake_sampler.h"

#define THREADS 4
#define SESSIONS 3
#define BUFFER_BYTES (1 << 18)
#define CHILDREN 3
#define LOWEST_MAPPED 65536 /* vm.mmap_min_addr */

static unsigned long wanted_calls = 120000;

struct fuzzer {
  __u64 state;
  unsigned long calls;
  unsigned long taken; /* those calls that succeeded */
  char* buffer;        /* BUFFER_BYTES, and behind it nothing is mapped */
};

static int sessions[SESSIONS];
static pthread_rwlock_t sessions_lock = PTHREAD_RWLOCK_INITIALIZER;
static pid_t children[CHILDREN];
static char* read_only;
static volatile char* touched;
static volatile int over;

/* xorshift64*, Vigna 2016. */
static __u64 next(struct fuzzer* fuzzer) {
  fuzzer->state ^= fuzzer->state >> 12;
  fuzzer->state ^= fuzzer->state << 25;
  fuzzer->state ^= fuzzer->state >> 27;
  return fuzzer->state * 2685821657736338717ULL;
}

static __u64 below(struct fuzzer* fuzzer, __u64 end) { return next(fuzzer) % end; }

static int once_in(struct fuzzer* fuzzer, __u64 n) { return below(fuzzer, n) == 0; }

/* Small, near a power of two, or anything. */
static __u64 number(struct fuzzer* fuzzer) {
  switch (below(fuzzer, 4)) {
    case 0:
      return below(fuzzer, 8);
    case 1:
      return (1ULL << below(fuzzer, 64)) - 1 + below(fuzzer, 3);
    case 2:
      return next(fuzzer) >> below(fuzzer, 64);
    default:
      return ~0ULL - below(fuzzer, 3);
  }
}

static __u64 pointer(struct fuzzer* fuzzer) {
  __u64 anything;

  switch (below(fuzzer, 12)) {
    case 0:
      return 0;
    case 1:
      return (unsigned long)read_only;
    case 2:
      return (unsigned long)fuzzer->buffer + BUFFER_BYTES - below(fuzzer, 64); /* runs out */
    case 3:
      return 0xffff888000000000ULL + below(fuzzer, 1 << 20);
    case 4:
      anything = number(fuzzer);
      /* But for the program's own memory, where what is written would be its end. */
      return anything < LOWEST_MAPPED ? anything : anything | 1ULL << 63;
    default:
      return (unsigned long)fuzzer->buffer;
  }
}

static struct tmprof_head head(struct fuzzer* fuzzer, size_t bytes) {
  struct tmprof_head good = {.size = bytes, .version = TMPROF_ABI_VERSION};

  if (once_in(fuzzer, 100)) good.size = number(fuzzer);
  if (once_in(fuzzer, 100)) good.version = number(fuzzer);
  if (once_in(fuzzer, 100)) good.flags = number(fuzzer);
  if (once_in(fuzzer, 100)) good.reserved = number(fuzzer);
  return good;
}

static struct tmprof_event event(struct fuzzer* fuzzer) {
  struct tmprof_event made = {0};

  if (once_in(fuzzer, 4)) return made;
  made.flags = TMPROF_EVENT_PRESENT;
  if (once_in(fuzzer, 2)) {
    made.type = fake_type;
    made.config = below(fuzzer, 3);
  } else {
    made.type = PERF_TYPE_SOFTWARE;
    made.config = below(fuzzer, PERF_COUNT_SW_PAGE_FAULTS + 1); /* the clocks come first */
  }
  if (once_in(fuzzer, 3)) made.flags |= TMPROF_EVENT_DATA_SRC;
  if (once_in(fuzzer, 6)) made.flags |= TMPROF_EVENT_DATA_SRC | TMPROF_EVENT_ONLY_MISSES;
  if (once_in(fuzzer, 10)) made.flags |= number(fuzzer);
  if (once_in(fuzzer, 20)) made.type = number(fuzzer);
  if (once_in(fuzzer, 20)) made.config = number(fuzzer);
  return made;
}

static void random_params(struct fuzzer* fuzzer, int session, struct tmprof_params* params) {
  __u64* words = (__u64*)params;

  memset(params, 0, sizeof(*params));
  params->head = (struct tmprof_head)HEAD(struct tmprof_params);
  ioctl(session, TMPROF_IOC_GET_PARAMS, params);
  params->head = head(fuzzer, sizeof(*params));
  params->scan_interval_ns = 1000000ULL << below(fuzzer, 12);
  params->scan_budget_ns = once_in(fuzzer, 2) ? 1000000000 : 1 + below(fuzzer, 100000000);
  params->scan_chunk_entries = 1 + below(fuzzer, 8192);
  params->flush_policy = below(fuzzer, 3);
  params->flush_every = params->flush_policy == TMPROF_FLUSH_EVERY_NTH ? 1 + below(fuzzer, 4) : 0;
  params->epoch_ns = once_in(fuzzer, 2) ? 0 : 1000000ULL << below(fuzzer, 10);
  params->memory_limit_bytes = 65536ULL << below(fuzzer, 10);
  params->sample_event = event(fuzzer);
  /* Every 10 ms at most, should it be the clock: a flood is not what is tried here. */
  params->sample_period =
      params->sample_event.flags & TMPROF_EVENT_PRESENT ? 10000000 + below(fuzzer, 10000000) : 0;
  params->ring_samples = 16U << below(fuzzer, 8);
  params->log_samples = below(fuzzer, 1000);
  params->abit_mode = below(fuzzer, 2);
  if (params->abit_mode == TMPROF_ABIT_REGIONS) {
    params->flush_policy = TMPROF_FLUSH_NEVER;
    params->flush_every = 0;
    params->regions.monitoring_ns = 100000ULL << below(fuzzer, 6);
    params->regions.aggregation_ns = (10 + below(fuzzer, 10)) * params->regions.monitoring_ns;
    params->regions.update_ns = (1 + below(fuzzer, 4)) * params->regions.aggregation_ns;
    params->regions.min_regions = 3 + below(fuzzer, 30);
    params->regions.max_regions = params->regions.min_regions + below(fuzzer, 500);
    params->region_clears = once_in(fuzzer, 2) ? 0 : below(fuzzer, 100000);
    params->region_log = below(fuzzer, 3000);
  }
  params->gate_period_ns = 1000000ULL << below(fuzzer, 10);
  params->gate[below(fuzzer, 2)] = (struct tmprof_gate){
      .mode = below(fuzzer, 3), .threshold_permille = below(fuzzer, 1001), .event = event(fuzzer)};
  if (once_in(fuzzer, 4)) words[below(fuzzer, sizeof(*params) / 8)] = number(fuzzer);
  if (params->sample_period < 10000000) params->sample_period = 0;
}

static void random_range(struct fuzzer* fuzzer, struct tmprof_scan_range* range) {
  *range = (struct tmprof_scan_range){
      .head = head(fuzzer, sizeof(*range)),
      .target_id = 1 + below(fuzzer, 6),
      .start_vpn = (unsigned long)touched / PAGE + below(fuzzer, 512),
      .pages = 1 + below(fuzzer, 1024),
      .present = pointer(fuzzer),
      .accessed = pointer(fuzzer),
  };
  range->head.flags |= below(fuzzer, 16);
  if (range->head.flags & TMPROF_SCAN_SELECT) range->select = pointer(fuzzer);
  if (once_in(fuzzer, 3)) range->frames = pointer(fuzzer);
  if (once_in(fuzzer, 3)) range->nodes = pointer(fuzzer);
  if (once_in(fuzzer, 3)) {
    range->leaves = pointer(fuzzer);
    range->leaf_capacity = number(fuzzer);
  }
  if (once_in(fuzzer, 20)) range->start_vpn = number(fuzzer);
  if (once_in(fuzzer, 20)) range->pages = number(fuzzer);
}

static int in(int value, const int* list) {
  for (; *list; list++) {
    if (*list == value) return 1;
  }
  return 0;
}

/* One call, by its number; its errnos are those that uapi/tmprof.h names, those of every call, and
 * ENOMEM. */
static int call(struct fuzzer* fuzzer, int session, unsigned int command, void* request,
                const int* errors) {
  static const int of_every[] = {EPROTO, EINVAL, EFAULT, ENOMEM, EINTR, 0};
  void* argument = once_in(fuzzer, 50) ? (void*)(unsigned long)pointer(fuzzer) : request;
  int result = ioctl(session, command, argument);

  if (result != 0 && !(result == -1 && (in(errno, of_every) || in(errno, errors))))
    FAIL("command %#x: result %d, errno %d (%s)", command, result, errno, strerror(errno));
  return result == 0;
}

static int random_target_call(struct fuzzer* fuzzer, int session) {
  static const int add_errors[] = {ESRCH, EEXIST, ENOSPC, 0}, other_errors[] = {ENOENT, 0};
  struct tmprof_target_request request = {.head = head(fuzzer, sizeof(request))};
  unsigned int kind = below(fuzzer, 4);

  request.pid = once_in(fuzzer, 4) ? (__s32)number(fuzzer) : children[below(fuzzer, CHILDREN)];
  if (once_in(fuzzer, 4)) request.pid = getpid();
  request.start_time_ticks = once_in(fuzzer, 10) ? number(fuzzer) : 0;
  request.target_id = 1 + below(fuzzer, 6);
  if (once_in(fuzzer, 20)) request.reserved[0] = number(fuzzer);
  if (once_in(fuzzer, 20)) request.target_flags = (__u32)number(fuzzer);
  if (kind < 2) return call(fuzzer, session, TMPROF_IOC_ADD_TARGET, &request, add_errors);
  /* Ids go up to where the targets that are there have theirs. */
  if (kind == 2 && !once_in(fuzzer, 4)) kind = 3;
  return call(fuzzer, session, kind == 2 ? TMPROF_IOC_REMOVE_TARGET : TMPROF_IOC_GET_TARGET,
              &request, other_errors);
}

static int random_call(struct fuzzer* fuzzer, int session) {
  static const int none[] = {0}, params_errors[] = {EBUSY, EDQUOT, EOPNOTSUPP, 0},
                   range_errors[] = {ENOENT, ESRCH, EAGAIN, ENOSPC, EOPNOTSUPP, 0},
                   epoch_errors[] = {ENODATA, 0}, samples_errors[] = {ENXIO, 0},
                   /* and perf's own */
      control_errors[] = {ENXIO,  EALREADY, ENODEV, ENOENT, EOPNOTSUPP, EBUSY,
                          EACCES, ENOSPC,   E2BIG,  EPERM,  0};
  union {
    struct tmprof_info info;
    struct tmprof_params params;
    struct tmprof_control control;
    struct tmprof_epoch epoch;
    struct tmprof_scan_range range;
    struct tmprof_read_samples samples;
    struct tmprof_read_regions regions;
    struct tmprof_stats stats;
    struct tmprof_lock_holds holds;
    char bytes[1024];
  } request;

  memset(&request, 0, sizeof(request));
  switch (below(fuzzer, 15)) {
    case 0:
      request.info.head = head(fuzzer, sizeof(request.info));
      return call(fuzzer, session, TMPROF_IOC_INFO, &request, none);
    case 1:
    case 2:
      return random_target_call(fuzzer, session);
    case 3:
      request.params.head = head(fuzzer, sizeof(request.params));
      return call(fuzzer, session, TMPROF_IOC_GET_PARAMS, &request, none);
    case 4:
      random_params(fuzzer, session, &request.params);
      return call(fuzzer, session, TMPROF_IOC_SET_PARAMS, &request, params_errors);
    case 5:
      request.control.head = head(fuzzer, sizeof(request.control));
      request.control.sources = below(fuzzer, 4);
      request.control.command = below(fuzzer, 6);
      return call(fuzzer, session, TMPROF_IOC_CONTROL, &request, control_errors);
    case 6:
      request.epoch.head = head(fuzzer, sizeof(request.epoch));
      return call(fuzzer, session, once_in(fuzzer, 2) ? TMPROF_IOC_EPOCH_END : TMPROF_IOC_GET_EPOCH,
                  &request, epoch_errors);
    case 7:
      request.samples.head = head(fuzzer, sizeof(request.samples));
      request.samples.samples = pointer(fuzzer);
      request.samples.capacity = number(fuzzer);
      return call(fuzzer, session, TMPROF_IOC_READ_SAMPLES, &request, samples_errors);
    case 8:
      request.stats.head = head(fuzzer, sizeof(request.stats));
      return call(fuzzer, session, TMPROF_IOC_STATS, &request, none);
    case 9:
      request.holds.head = head(fuzzer, sizeof(request.holds));
      return call(fuzzer, session, TMPROF_IOC_LOCK_HOLDS, &request, none);
    case 10: {
      static const int unknown[] = {ENOTTY, ENODATA, ENXIO, 0};
      size_t i;

      for (i = 0; i < sizeof(request); i++) request.bytes[i] = next(fuzzer);
      return call(
          fuzzer, session,
          _IOC(below(fuzzer, 4), TMPROF_IOC_MAGIC, 0x38 + below(fuzzer, 0x20), below(fuzzer, 1024)),
          &request, unknown);
    }
    case 11: {
      size_t bytes = once_in(fuzzer, 4) ? number(fuzzer) : below(fuzzer, BUFFER_BYTES);
      ssize_t result = read(session, (void*)(unsigned long)pointer(fuzzer), bytes);

      EXPECT(result >= 0 || errno == EINVAL || errno == EFAULT || errno == ENODATA);
      return result > 0;
    }
    case 12: {
      struct pollfd wait = {.fd = session, .events = POLLIN};
      int ready = poll(&wait, 1, below(fuzzer, 2));

      EXPECT(ready == 0 || (ready == 1 && wait.revents == POLLIN));
      return ready;
    }
    case 13:
      request.regions.head = head(fuzzer, sizeof(request.regions));
      request.regions.regions = pointer(fuzzer);
      request.regions.capacity = number(fuzzer);
      return call(fuzzer, session, TMPROF_IOC_READ_REGIONS, &request, samples_errors);
    default:
      random_range(fuzzer, &request.range);
      return call(fuzzer, session, TMPROF_IOC_SCAN_RANGE, &request, range_errors);
  }
}

/* While others wait to use it. */
static void renew_session(struct fuzzer* fuzzer) {
  size_t i = below(fuzzer, SESSIONS);

  EXPECT(pthread_rwlock_wrlock(&sessions_lock) == 0);
  close(sessions[i]);
  sessions[i] = open_session();
  pthread_rwlock_unlock(&sessions_lock);
}

static void* fuzz(void* argument) {
  struct fuzzer* fuzzer = argument;

  while (fuzzer->calls < wanted_calls / THREADS) {
    size_t batch = 1 + below(fuzzer, 200);

    if (once_in(fuzzer, 8)) renew_session(fuzzer);
    EXPECT(pthread_rwlock_rdlock(&sessions_lock) == 0);
    for (; batch; batch--) {
      touched[below(fuzzer, 1024) * PAGE] = 1;
      fuzzer->taken += random_call(fuzzer, sessions[below(fuzzer, SESSIONS)]);
      fuzzer->calls++;
    }
    pthread_rwlock_unlock(&sessions_lock);
  }
  return NULL;
}

/* Samples for whoever listens. */
static void* sample(void* argument) {
  const struct script_record record = {
      .kind = KIND_SAMPLE, .value = (unsigned long)touched, .data_source = FROM_MEMORY(LOAD)};

  while (!over) {
    write_script(&record, 1);
    usleep(1000);
  }
  return argument;
}

static void start_children(void) {
  size_t i;

  for (i = 0; i < CHILDREN; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;; usleep(2000)) touch(touched, 1024, 5);
    }
  }
}

static char* map_with_end(size_t bytes, int protection) {
  char* start = mmap(NULL, bytes + PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  EXPECT(start != MAP_FAILED);
  EXPECT(munmap(start + bytes, PAGE) == 0);
  return start;
}

static void expect_exact_scan(void) {
  __u64 accessed[1024 / 64];
  struct tmprof_scan_range request = {
      .head = {sizeof(request), TMPROF_ABI_VERSION, TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH, 0},
      .start_vpn = (unsigned long)touched / PAGE,
      .pages = 1024,
      .accessed = (unsigned long)accessed,
  };
  int session = open_session();
  size_t i;

  request.target_id = add_target(session, getpid());
  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &request) == 0);
  touch(touched, 1024, 7);
  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &request) == 0);
  for (i = 0; i < 1024; i++) EXPECT_EQ(bit(accessed, i), i % 7 == 0);
  close(session);
}

/* The kernel rewrites its page fault path when the first counter of page faults begins and when the
 * last one ends. QEMU 7.2 can keep what it translated amid that: each fault then traps for ever.
 * While one counter is there nothing is rewritten. */
static int hold_page_fault_counter(void) {
  struct perf_event_attr attr = {
      .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_PAGE_FAULTS};
  int counter = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);

  EXPECT(counter >= 0);
  return counter;
}

int main(int argc, char** argv) {
  __u64 seed = argc > 1 ? strtoull(argv[1], NULL, 0) : now_ns() ^ (__u64)time(NULL) << 32;
  struct fuzzer fuzzers[THREADS];
  pthread_t threads[THREADS], sampler;
  int page_faults = hold_page_fault_counter();
  unsigned long calls = 0, taken = 0;
  size_t i;

  if (is_debug_kernel()) wanted_calls /= 3;
  printf("seed %#llx\n", seed);
  fflush(stdout);
  load_fake_sampler();
  touched = map_aligned(1024 * PAGE, MADV_NOHUGEPAGE);
  touch(touched, 1024, 1);
  read_only = map_with_end(BUFFER_BYTES, PROT_READ);
  start_children();
  for (i = 0; i < SESSIONS; i++) sessions[i] = open_session();
  EXPECT(pthread_create(&sampler, NULL, sample, NULL) == 0);
  for (i = 0; i < THREADS; i++) {
    fuzzers[i] = (struct fuzzer){.state = (seed + i) * 0x9e3779b97f4a7c15ULL | 1,
                                 .buffer = map_with_end(BUFFER_BYTES, PROT_READ | PROT_WRITE)};
    EXPECT(pthread_create(&threads[i], NULL, fuzz, &fuzzers[i]) == 0);
  }
  for (i = 0; i < THREADS; i++) {
    EXPECT(pthread_join(threads[i], NULL) == 0);
    calls += fuzzers[i].calls;
    taken += fuzzers[i].taken;
  }
  over = 1;
  EXPECT(pthread_join(sampler, NULL) == 0);
  for (i = 0; i < SESSIONS; i++) close(sessions[i]);
  for (i = 0; i < CHILDREN; i++) {
    EXPECT(kill(children[i], SIGKILL) == 0);
    EXPECT(waitpid(children[i], NULL, 0) == children[i]);
  }
  EXPECT(calls >= wanted_calls);
  /* A fuzzer that is always turned away at the door tries nothing. */
  EXPECT(taken > calls / 5);
  expect_exact_scan();
  unload_fake_sampler();
  close(page_faults);
  printf("ok %lu random calls, %lu of them taken\n", calls, taken);
  return 0;
}
