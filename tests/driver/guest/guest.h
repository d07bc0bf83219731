/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For programs that test /dev/tmprof from inside the virtual machine: plain C, linked statically.
 * Each is one list of tests; the first expectation that fails ends its program with status 1.
 */
#ifndef TMPROF_TESTS_DRIVER_GUEST_GUEST_H
#define TMPROF_TESTS_DRIVER_GUEST_GUEST_H

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "driver/uapi/tmprof.h"

#define PAGE 4096UL
#define PAGES_PER_HUGE 512UL

/* A test's output comes before its failure, or before the kernel's end. */
__attribute__((constructor)) static void print_by_line(void) { setvbuf(stdout, NULL, _IOLBF, 0); }

#define FAIL(...)                                   \
  do {                                              \
    fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
    fprintf(stderr, __VA_ARGS__);                   \
    fputc('\n', stderr);                            \
    exit(1);                                        \
  } while (0)

#define EXPECT(condition)                                                                     \
  do {                                                                                        \
    if (!(condition)) FAIL("expected %s (errno %d, %s)", #condition, errno, strerror(errno)); \
  } while (0)

#define EXPECT_EQ(actual, wanted)                                           \
  do {                                                                      \
    long long actual_ = (long long)(actual), wanted_ = (long long)(wanted); \
    if (actual_ != wanted_)                                                 \
      FAIL("%s is %lld (%#llx), expected %s = %lld", #actual, actual_,      \
           (unsigned long long)actual_, #wanted, wanted_);                  \
  } while (0)

/* The call fails with that errno. */
#define EXPECT_ERRNO(call, number)                                                    \
  do {                                                                                \
    errno = 0;                                                                        \
    if ((call) != -1 || errno != (number))                                            \
      FAIL("%s: errno %d (%s), expected %s", #call, errno, strerror(errno), #number); \
  } while (0)

/* With KASAN, lockdep and kmemleak everything takes ten times as long: some tests make do with less
 * there, as what they look for is a splat. */
static inline int is_debug_kernel(void) { return access("/sys/kernel/debug/kmemleak", F_OK) == 0; }

/* The clock of the driver's times. */
static inline __u64 now_ns(void) {
  struct timespec now;

  EXPECT(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
  return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

#define RUN(test)                                                         \
  do {                                                                    \
    __u64 began_ns_ = now_ns();                                           \
    test();                                                               \
    printf("ok %s (%llu ms)\n", #test, (now_ns() - began_ns_) / 1000000); \
    fflush(stdout);                                                       \
  } while (0)

#define HEAD(type) {.size = sizeof(type), .version = TMPROF_ABI_VERSION}

static inline int open_session(void) {
  int fd = open(TMPROF_DEVICE_PATH, O_RDWR | O_CLOEXEC);

  EXPECT(fd >= 0);
  return fd;
}

static inline __u32 add_target(int session, pid_t pid) {
  struct tmprof_target_request request = {
      .head = HEAD(struct tmprof_target_request),
      .pid = pid,
  };

  EXPECT(ioctl(session, TMPROF_IOC_ADD_TARGET, &request) == 0);
  return request.target_id;
}

static inline struct tmprof_target_request query(int session, __u32 id) {
  struct tmprof_target_request request = {
      .head = HEAD(struct tmprof_target_request),
      .target_id = id,
  };

  EXPECT(ioctl(session, TMPROF_IOC_GET_TARGET, &request) == 0);
  return request;
}

static inline struct tmprof_params params_of(int session) {
  struct tmprof_params params = {.head = HEAD(struct tmprof_params)};

  EXPECT(ioctl(session, TMPROF_IOC_GET_PARAMS, &params) == 0);
  return params;
}

static inline struct tmprof_stats stats_of(int session) {
  struct tmprof_stats stats = {.head = HEAD(struct tmprof_stats)};

  EXPECT(ioctl(session, TMPROF_IOC_STATS, &stats) == 0);
  return stats;
}

static inline int control(int session, __u32 sources, __u32 command) {
  struct tmprof_control request = {
      .head = HEAD(struct tmprof_control), .sources = sources, .command = command};

  return ioctl(session, TMPROF_IOC_CONTROL, &request);
}

/* Anonymous memory of base pages or, after touching it, transparent huge pages; aligned to 2 MiB.
 */
static inline volatile char* map_aligned(size_t bytes, int advice) {
  size_t huge = PAGES_PER_HUGE * PAGE;
  char* start =
      mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  EXPECT(start != MAP_FAILED);
  start = (char*)(((unsigned long)start + huge - 1) & -huge);
  EXPECT(madvise(start, bytes, advice) == 0);
  return start;
}

/* Writes only: a read would map the zero page first. */
static inline void touch(volatile char* start, size_t pages, size_t stride_pages) {
  size_t i;

  for (i = 0; i < pages; i += stride_pages) start[i * PAGE] = 1;
}

static inline int bit(const __u64* bitmap, size_t index) {
  return bitmap[index / 64] >> (index % 64) & 1;
}

/* A line of a /proc file that starts with `name`, as a number; -1: there is none. */
static inline long proc_number(const char* file, const char* name) {
  char line[256];
  long value = -1;
  FILE* stream = fopen(file, "r");

  EXPECT(stream != NULL);
  while (fgets(line, sizeof(line), stream)) {
    if (!strncmp(line, name, strlen(name))) value = strtol(line + strlen(name), NULL, 10);
  }
  fclose(stream);
  return value;
}

static inline void set_second_cpu_online(int online) {
  int file = open("/sys/devices/system/cpu/cpu1/online", O_WRONLY);

  EXPECT(file >= 0);
  EXPECT_EQ(write(file, online ? "1" : "0", 1), 1);
  close(file);
}

static inline void run_on_cpu(int cpu) {
  cpu_set_t only;

  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  EXPECT(sched_setaffinity(0, sizeof(only), &only) == 0);
}

#endif /* TMPROF_TESTS_DRIVER_GUEST_GUEST_H */
