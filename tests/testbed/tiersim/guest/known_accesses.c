// SPDX-License-Identifier: Apache-2.0
/*
 * Accesses that are known by hand, for tiersim_live_test.py; runs in the virtual machine. Its first
 * argument says what it does:
 *
 * - pattern: fixed counts on PATTERN_PAGES pages; prints the first page's number
 * - threads: two threads on one page and on one page each; prints the same
 * - stop: ends its own tracing while a thread of it runs on another CPU; prints the first page's
 *   number: 1000 loads from it before, 1000 from the second after; the thread loads from the third
 *   until then, and 1000 times from the fourth
 * - walk NODE: random loads from memory of that node; prints what they took in ns
 * - move PAGES: moves so many pages from node 0 to node 1; prints what the call took in ns
 * - sample EVENT PERIOD: has itself sampled while another process runs; prints what came
 * - flood: has itself sampled faster than samples are taken away
 * - refused: prints errno of events that are none
 */

#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  PAGE_BYTES = 4096,
  LINE_BYTES = 64,
  PATTERN_PAGES = 96,
  THREAD_LOADS = 100000,
  WALK_PAGES = 8192,
  WALK_LOADS = 400000,
  RING_PAGES = 256,
};

static void fail(const char* what) {
  perror(what);
  exit(1);
}

static char* map(size_t pages) {
  char* memory = mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  return memory;
}

/* One access each, whatever the compiler thinks. */
static inline uint64_t load(const char* at) {
  uint64_t value;
  __asm__ volatile("movq (%1), %0" : "=r"(value) : "r"(at) : "memory");
  return value;
}
static inline void store(char* at) { __asm__ volatile("movq %0, (%0)" : : "r"(at) : "memory"); }
static inline void increment(char* at) { __asm__ volatile("incq (%0)" : : "r"(at) : "memory"); }
static inline void load_16(const char* at) {
  __asm__ volatile("movdqa (%0), %%xmm0" : : "r"(at) : "xmm0", "memory");
}

static int pattern(void) {
  char* memory = map(PATTERN_PAGES);
  /* Pages 0 to 7: page + 1 loads, 2 * page stores. */
  for (int page = 0; page < 8; ++page) {
    for (int i = 0; i < page + 1; ++i) load(memory + page * PAGE_BYTES);
    for (int i = 0; i < 2 * page; ++i) store(memory + page * PAGE_BYTES + 8);
  }
  for (int i = 0; i < 1000; ++i) increment(memory + 8 * PAGE_BYTES);
  /* The load crosses from page 9 into page 10. */
  for (int i = 0; i < 100; ++i) load(memory + 10 * PAGE_BYTES - 4);
  for (int i = 0; i < 50; ++i) load_16(memory + 11 * PAGE_BYTES);
  /* Pages 16 to 23, every line ten times. */
  for (int round = 0; round < 10; ++round) {
    for (int at = 16 * PAGE_BYTES; at < 24 * PAGE_BYTES; at += LINE_BYTES) load(memory + at);
  }
  /* Pages 32 to 95, every line once. */
  for (int at = 32 * PAGE_BYTES; at < 96 * PAGE_BYTES; at += LINE_BYTES) load(memory + at);
  printf("%lu\n", (unsigned long)memory / PAGE_BYTES);
  return 0;
}

static char* shared_page;

static void* load_both(void* own) {
  for (int i = 0; i < THREAD_LOADS; ++i) {
    load(shared_page);
    load((const char*)own);
  }
  return NULL;
}

static int threads(void) {
  pthread_t other;
  shared_page = map(3);
  if (pthread_create(&other, NULL, load_both, shared_page + PAGE_BYTES)) fail("pthread_create");
  load_both(shared_page + 2 * PAGE_BYTES);
  pthread_join(other, NULL);
  printf("%lu\n", (unsigned long)shared_page / PAGE_BYTES);
  return 0;
}

static volatile int others_turn;

static void* load_until_stopped(void* pages) {
  const char* memory = pages;
  others_turn = 1;
  while (others_turn == 1) load(memory + 2 * PAGE_BYTES);
  for (int i = 0; i < 1000; ++i) load(memory + 3 * PAGE_BYTES);
  return NULL;
}

static int stop(void) {
  pthread_t other;
  char* memory = map(4);
  if (pthread_create(&other, NULL, load_until_stopped, memory)) fail("pthread_create");
  while (!others_turn) usleep(1000);
  for (int i = 0; i < 1000; ++i) load(memory);
  FILE* trace = fopen("/sys/kernel/debug/vpmu/trace", "w");
  if (!trace || fprintf(trace, "%d", -getpid()) < 0 || fclose(trace)) fail("trace");
  for (int i = 0; i < 1000; ++i) load(memory + PAGE_BYTES);
  others_turn = 2;
  pthread_join(other, NULL);
  printf("%lu\n", (unsigned long)memory / PAGE_BYTES);
  return 0;
}

/* Marsaglia, "Xorshift RNGs", 2003. */
static uint64_t next_random(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static void walk_over(const char* memory, size_t pages, int loads) {
  uint64_t state = 1;
  for (int i = 0; i < loads; ++i) {
    const uint64_t line = next_random(&state) % (pages * PAGE_BYTES / LINE_BYTES);
    load(memory + line * LINE_BYTES);
  }
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static char* map_on(int node, size_t pages) {
  unsigned long nodes = 1ul << node;
  char* memory =
      mmap(NULL, pages * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  if (syscall(SYS_mbind, memory, pages * PAGE_BYTES, MPOL_BIND, &nodes, 64, 0)) fail("mbind");
  madvise(memory, pages * PAGE_BYTES, MADV_NOHUGEPAGE);
  for (size_t page = 0; page < pages; ++page) store(memory + page * PAGE_BYTES);
  return memory;
}

static int walk(int node) {
  const char* memory = map_on(node, WALK_PAGES);
  const uint64_t start_ns = now_ns();
  walk_over(memory, WALK_PAGES, WALK_LOADS);
  printf("%lu\n", (unsigned long)(now_ns() - start_ns));
  return 0;
}

static int move(size_t count) {
  char* memory = map_on(0, count);
  void** pages = malloc(count * sizeof(*pages));
  int* nodes = malloc(count * sizeof(*nodes));
  int* status = malloc(count * sizeof(*status));
  if (!pages || !nodes || !status) fail("malloc");
  for (size_t i = 0; i < count; ++i) {
    pages[i] = memory + i * PAGE_BYTES;
    nodes[i] = 1;
    status[i] = -1;
  }
  const uint64_t start_ns = now_ns();
  if (syscall(SYS_move_pages, 0, count, pages, nodes, status, MPOL_MF_MOVE)) fail("move_pages");
  const uint64_t end_ns = now_ns();
  for (size_t i = 0; i < count; ++i) {
    if (status[i] != 1) return 1;
  }
  printf("%lu\n", (unsigned long)(end_ns - start_ns));
  return 0;
}

static unsigned int pmu_type(void) {
  unsigned int type;
  FILE* file = fopen("/sys/bus/event_source/devices/vibs_op/type", "r");
  if (!file || fscanf(file, "%u", &type) != 1) fail("vibs_op");
  fclose(file);
  return type;
}

static int open_event(uint64_t config, uint64_t period) {
  struct perf_event_attr attr = {
      .size = sizeof(attr),
      .type = pmu_type(),
      .config = config,
      .sample_period = period,
      .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
                     PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PHYS_ADDR,
      .use_clockid = 1,
      .clockid = CLOCK_MONOTONIC,
  };
  return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

/* In the order of PERF_RECORD_SAMPLE, perf_event_open(2). */
struct sample {
  struct perf_event_header header;
  uint64_t ip;
  uint32_t pid, tid;
  uint64_t time_ns, address, data_source, physical_address;
};

static uint64_t frame_of(const char* at) {
  uint64_t entry = 0;
  const int file = open("/proc/self/pagemap", O_RDONLY);
  if (pread(file, &entry, sizeof(entry), (off_t)((uintptr_t)at / PAGE_BYTES * sizeof(entry))) !=
      sizeof(entry))
    fail("pagemap");
  close(file);
  return entry & ((1ull << 55) - 1);
}

static int sample(uint64_t config, uint64_t period) {
  enum { PAGES = 1024 };
  char* memory = map(PAGES);
  const pid_t other = fork();
  if (!other) {
    for (;;) walk_over(memory, PAGES, 1000);
  }
  const int event = open_event(config, period);
  const int misses = open_event(2, 0);
  const int walks = open_event(4, 0);
  if (event < 0 || misses < 0 || walks < 0) fail("perf_event_open");
  struct perf_event_mmap_page* page =
      mmap(NULL, (RING_PAGES + 1) * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, event, 0);
  if (page == MAP_FAILED) fail("mmap of the event");
  const uint64_t start_ns = now_ns();
  walk_over(memory, PAGES, 2 * WALK_LOADS);
  const uint64_t end_ns = now_ns();
  if (ioctl(event, PERF_EVENT_IOC_DISABLE, 0)) fail("PERF_EVENT_IOC_DISABLE");
  uint64_t counted[3] = {0};
  if (read(event, &counted[0], 8) != 8 || read(misses, &counted[1], 8) != 8 ||
      read(walks, &counted[2], 8) != 8)
    fail("read");
  kill(other, SIGKILL);
  waitpid(other, NULL, 0);

  const char* ring = (const char*)page + PAGE_BYTES;
  int all = 0, own = 0, in_memory = 0, right_frame = 0, in_time = 0, beyond_llc = 0;
  for (uint64_t at = page->data_tail; at < page->data_head;) {
    struct sample one;
    for (size_t i = 0; i < sizeof(one); ++i)
      ((char*)&one)[i] = ring[(at + i) % (RING_PAGES * PAGE_BYTES)];
    at += one.header.size;
    if (one.header.type != PERF_RECORD_SAMPLE) continue;
    ++all;
    own += one.pid == (uint32_t)getpid();
    in_time += one.time_ns >= start_ns && one.time_ns <= end_ns;
    const uint64_t offset = one.address - (uintptr_t)memory;
    if (offset >= PAGES * PAGE_BYTES) continue;
    ++in_memory;
    right_frame += one.physical_address / PAGE_BYTES == frame_of(memory + offset);
    beyond_llc += (one.data_source >> PERF_MEM_LVLNUM_SHIFT & 0xf) == PERF_MEM_LVLNUM_RAM;
  }
  printf(
      "all=%d own=%d in_time=%d in_memory=%d right_frame=%d beyond_llc=%d events=%lu "
      "llc_load_misses=%lu dtlb_load_misses=%lu\n",
      all, own, in_time, in_memory, right_frame, beyond_llc, (unsigned long)counted[0],
      (unsigned long)counted[1], (unsigned long)counted[2]);
  return 0;
}

static int flood(void) {
  const int event = open_event(0, 16);
  if (event < 0) fail("perf_event_open");
  char* memory = map(1024);
  walk_over(memory, 1024, WALK_LOADS);
  return 0;
}

static int refused(void) {
  const struct {
    uint64_t config, period;
  } events[] = {{0, 17}, {5, 16}, {1, 8}};
  for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); ++i)
    printf("%d ", open_event(events[i].config, events[i].period) < 0 ? errno : 0);
  printf("\n");
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 3 && !strcmp(argv[1], "walk")) return walk(atoi(argv[2]));
  if (argc == 3 && !strcmp(argv[1], "move")) return move(strtoul(argv[2], NULL, 10));
  if (argc == 4 && !strcmp(argv[1], "sample"))
    return sample(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
  if (argc != 2) return 2;
  if (!strcmp(argv[1], "pattern")) return pattern();
  if (!strcmp(argv[1], "threads")) return threads();
  if (!strcmp(argv[1], "stop")) return stop();
  if (!strcmp(argv[1], "flood")) return flood();
  if (!strcmp(argv[1], "refused")) return refused();
  return 2;
}
