// SPDX-License-Identifier: Apache-2.0
/*
 * Every call from a 32-bit program: the same layout, the same answers. Built without a C library,
 * of which a 32-bit one need not be installed: gcc -m32 -ffreestanding -nostdlib -static.
 */

#include <linux/errno.h>
#include <linux/types.h>

#include "driver/uapi/tmprof.h"

/* The i386 numbers: arch/x86/entry/syscalls/syscall_32.tbl. */
enum {
  SYS_EXIT = 1,
  SYS_READ = 3,
  SYS_WRITE = 4,
  SYS_OPEN = 5,
  SYS_CLOSE = 6,
  SYS_GETPID = 20,
  SYS_IOCTL = 54,
  SYS_POLL = 168,
  SYS_SCHED_YIELD = 158,
};

#define O_RDWR 2
#define POLLIN 1
#define PAGE 4096
#define PAGES 256
#define HEAD(t) {sizeof(t), TMPROF_ABI_VERSION, 0, 0}

static long invoke(long number, long a, long b, long c) {
  long result;

  __asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(a), "c"(b), "d"(c) : "memory");
  return result;
}

/* gcc calls these for structures that it copies or clears. */
void* memcpy(void* to, const void* from, __SIZE_TYPE__ bytes) {
  volatile char* target = to;
  const char* source = from;

  while (bytes--) *target++ = *source++;
  return to;
}

void* memset(void* to, int value, __SIZE_TYPE__ bytes) {
  volatile char* target = to;

  while (bytes--) *target++ = value;
  return to;
}

static void say(const char* text) {
  long bytes = 0;

  while (text[bytes]) bytes++;
  invoke(SYS_WRITE, 1, (long)text, bytes);
}

static void say_number(long number) {
  char digits[16];
  int at = sizeof(digits);
  unsigned long rest = number < 0 ? -number : number;

  digits[--at] = 0;
  do digits[--at] = '0' + rest % 10;
  while (rest /= 10);
  if (number < 0) digits[--at] = '-';
  say(digits + at);
}

static __attribute__((noreturn)) void leave(int status) {
  invoke(SYS_EXIT, status, 0, 0);
  for (;;) {
  }
}

#define EXPECT_EQ(actual, wanted)                                       \
  do {                                                                  \
    long actual_ = (long)(actual), wanted_ = (long)(wanted);            \
    if (actual_ != wanted_) {                                           \
      say("tests/driver/guest/compat32_test.c:"), say_number(__LINE__); \
      say(": " #actual " is "), say_number(actual_);                    \
      say(", expected " #wanted " = "), say_number(wanted_), say("\n"); \
      leave(1);                                                         \
    }                                                                   \
  } while (0)

#define EXPECT(condition) EXPECT_EQ(!!(condition), 1)

static long session;

static long call(unsigned long command, void* request) {
  return invoke(SYS_IOCTL, session, (long)command, (long)request);
}

static __attribute__((aligned(PAGE))) char memory[PAGES * PAGE];

static void touch(int stride) {
  int i;

  for (i = 0; i < PAGES; i += stride) ((volatile char*)memory)[i * PAGE] = 1;
}

static __u32 target;

static void targets_and_info(void) {
  static struct tmprof_info info = {.head = HEAD(struct tmprof_info)};
  static struct tmprof_target_request request = {.head = HEAD(struct tmprof_target_request)};

  EXPECT_EQ(call(TMPROF_IOC_INFO, &info), 0);
  EXPECT_EQ(info.page_record_bytes, 32);
  request.pid = invoke(SYS_GETPID, 0, 0, 0);
  EXPECT_EQ(call(TMPROF_IOC_ADD_TARGET, &request), 0);
  target = request.target_id;
  EXPECT_EQ(call(TMPROF_IOC_GET_TARGET, &request), 0);
  EXPECT_EQ(request.state, TMPROF_TARGET_ALIVE);
}

static void ranges(void) {
  static __u64 present[PAGES / 64], accessed[PAGES / 64], frames[PAGES], select[PAGES / 64];
  static __u16 nodes[PAGES];
  static struct tmprof_scan_leaf leaves[2];
  static struct tmprof_scan_range range = {
      .head = HEAD(struct tmprof_scan_range), .pages = PAGES, .leaf_capacity = 2};
  int i;

  touch(1);
  range.head.flags = TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH | TMPROF_SCAN_SELECT;
  range.target_id = target;
  range.start_vpn = (unsigned long)memory / PAGE;
  range.select = (unsigned long)select;
  range.present = (unsigned long)present;
  range.accessed = (unsigned long)accessed;
  range.frames = (unsigned long)frames;
  range.nodes = (unsigned long)nodes;
  range.leaves = (unsigned long)leaves;
  for (i = 0; i < PAGES / 64; i++) select[i] = ~0ULL;
  EXPECT_EQ(call(TMPROF_IOC_SCAN_RANGE, &range), 0);
  EXPECT_EQ(range.present_pages, PAGES);
  EXPECT_EQ(range.cleared_bits, PAGES);
  touch(3);
  EXPECT_EQ(call(TMPROF_IOC_SCAN_RANGE, &range), 0);
  for (i = 0; i < PAGES; i++) {
    EXPECT_EQ(accessed[i / 64] >> (i % 64) & 1, i % 3 == 0);
    EXPECT_EQ(present[i / 64] >> (i % 64) & 1, 1);
    EXPECT(frames[i] != TMPROF_UNKNOWN && frames[i] != 0);
    EXPECT_EQ(nodes[i], 0);
  }
  /* No address of a 64-bit program's is meant by a pointer with its upper half set. */
  range.accessed |= 1ULL << 32;
  EXPECT_EQ(call(TMPROF_IOC_SCAN_RANGE, &range), -EFAULT);
}

static void scan_and_epochs(void) {
  static struct tmprof_params params = {.head = HEAD(struct tmprof_params)};
  static struct tmprof_control control = {.head = HEAD(struct tmprof_control),
                                          .sources = TMPROF_MASK_ABIT};
  static struct tmprof_stats stats = {.head = HEAD(struct tmprof_stats)};
  static struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  static struct tmprof_page_record records[4 * PAGES];
  struct {
    int fd;
    short events, revents;
  } wait = {.fd = session, .events = POLLIN};
  unsigned long first = (unsigned long)memory / PAGE;
  long bytes, i, mine = 0;

  EXPECT_EQ(call(TMPROF_IOC_GET_PARAMS, &params), 0);
  params.scan_interval_ns = 3600000000000ULL;
  params.scan_budget_ns = 1000000000;
  EXPECT_EQ(call(TMPROF_IOC_SET_PARAMS, &params), 0);
  EXPECT_EQ(invoke(SYS_READ, session, (long)records, sizeof(records)), -ENODATA);
  EXPECT_EQ(call(TMPROF_IOC_GET_EPOCH, &epoch), -ENODATA);
  touch(1);
  control.command = TMPROF_START;
  EXPECT_EQ(call(TMPROF_IOC_CONTROL, &control), 0);
  do {
    EXPECT_EQ(call(TMPROF_IOC_STATS, &stats), 0);
    invoke(SYS_SCHED_YIELD, 0, 0, 0);
  } while (!stats.passes);
  control.command = TMPROF_STOP;
  EXPECT_EQ(call(TMPROF_IOC_CONTROL, &control), 0);
  EXPECT_EQ(call(TMPROF_IOC_EPOCH_END, &epoch), 0);
  EXPECT_EQ(call(TMPROF_IOC_GET_EPOCH, &epoch), 0);
  EXPECT_EQ(epoch.epoch, 1);
  EXPECT_EQ(invoke(SYS_POLL, (long)&wait, 1, 0), 1);
  EXPECT_EQ(wait.revents, POLLIN);
  bytes = invoke(SYS_READ, session, (long)records, sizeof(records));
  EXPECT_EQ(bytes, epoch.records * sizeof(records[0]));
  for (i = 0; i < (long)(bytes / sizeof(records[0])); i++)
    mine += records[i].vpn >= first && records[i].vpn < first + PAGES && records[i].references == 1;
  EXPECT_EQ(mine, PAGES);
}

static void regions(void) {
  static struct tmprof_params params = {.head = HEAD(struct tmprof_params)};
  static struct tmprof_control control = {.head = HEAD(struct tmprof_control),
                                          .sources = TMPROF_MASK_ABIT};
  static struct tmprof_region_record records[64];
  static struct tmprof_read_regions read = {.head = HEAD(struct tmprof_read_regions),
                                            .capacity = 64};
  __u32 i;

  EXPECT_EQ(call(TMPROF_IOC_GET_PARAMS, &params), 0);
  params.abit_mode = TMPROF_ABIT_REGIONS;
  params.regions.max_regions = 64;
  EXPECT_EQ(call(TMPROF_IOC_SET_PARAMS, &params), 0);
  control.command = TMPROF_START;
  EXPECT_EQ(call(TMPROF_IOC_CONTROL, &control), 0);
  read.regions = (unsigned long)records;
  do {
    touch(1);
    EXPECT_EQ(call(TMPROF_IOC_READ_REGIONS, &read), 0);
  } while (!read.count);
  control.command = TMPROF_STOP;
  EXPECT_EQ(call(TMPROF_IOC_CONTROL, &control), 0);
  for (i = 0; i < read.count; i++) {
    EXPECT_EQ(records[i].target_id, target);
    EXPECT(records[i].start_vpn < records[i].end_vpn);
  }
}

static void the_rest(void) {
  static struct tmprof_lock_holds holds = {.head = HEAD(struct tmprof_lock_holds)};
  static struct tmprof_read_samples samples = {.head = HEAD(struct tmprof_read_samples)};
  static struct tmprof_target_request request = {.head = HEAD(struct tmprof_target_request)};
  __u64 total = 0;
  int i;

  EXPECT_EQ(call(TMPROF_IOC_LOCK_HOLDS, &holds), 0);
  for (i = 0; i < TMPROF_HOLD_BUCKETS; i++) total += holds.holds[i];
  EXPECT(total >= 3);
  EXPECT_EQ(call(TMPROF_IOC_READ_SAMPLES, &samples), -ENXIO);
  request.target_id = target;
  EXPECT_EQ(call(TMPROF_IOC_REMOVE_TARGET, &request), 0);
  EXPECT_EQ(call(TMPROF_IOC_GET_TARGET, &request), -ENOENT);
}

/* The stack is aligned for calls only. */
__attribute__((force_align_arg_pointer)) void _start(void) {
  session = invoke(SYS_OPEN, (long)TMPROF_DEVICE_PATH, O_RDWR, 0);
  EXPECT(session >= 0);
  targets_and_info();
  ranges();
  scan_and_epochs();
  regions();
  the_rest();
  EXPECT_EQ(invoke(SYS_CLOSE, session, 0, 0), 0);
  say("ok every_call_from_32_bits\n");
  leave(0);
}
