// SPDX-License-Identifier: Apache-2.0
/* Others of the kernel that look at accessed bits: what a scan takes, it gives back to them. */

#include "tests/driver/guest/guest.h"

#define ADMIN "/sys/kernel/mm/damon/admin/kdamonds"
#define CONTEXT ADMIN "/0/contexts/0"
#define IDLE_FLAG 25 /* include/uapi/linux/kernel-page-flags.h: KPF_IDLE */
#define PAGES 4096UL

static volatile char* memory;
static __u64 frames[PAGES];

static int put(const char* file, const char* text) {
  int fd = open(file, O_WRONLY);
  ssize_t written;

  if (fd < 0) return -1;
  written = write(fd, text, strlen(text));
  close(fd);
  return written == (ssize_t)strlen(text) ? 0 : -1;
}

static void find_frames(void) {
  int pagemap = open("/proc/self/pagemap", O_RDONLY);
  size_t i;

  EXPECT(pagemap >= 0);
  EXPECT_EQ(pread(pagemap, frames, sizeof(frames), (unsigned long)memory / PAGE * 8),
            sizeof(frames));
  for (i = 0; i < PAGES; i++) frames[i] &= (1ULL << 55) - 1;
  close(pagemap);
}

/* Pages of the memory that the kernel holds for idle. */
static size_t idle_pages(void) {
  int flags = open("/proc/kpageflags", O_RDONLY);
  size_t idle = 0, i;
  __u64 word;

  EXPECT(flags >= 0);
  for (i = 0; i < PAGES; i++) {
    EXPECT_EQ(pread(flags, &word, 8, frames[i] * 8), 8);
    idle += word >> IDLE_FLAG & 1;
  }
  close(flags);
  return idle;
}

/* DAMON marks a page of each region as idle at once, and comes back in a minute. */
static void start_damon(void) {
  char pid[16];

  snprintf(pid, sizeof(pid), "%d", getpid());
  EXPECT(put(ADMIN "/nr_kdamonds", "1") == 0);
  EXPECT(put(ADMIN "/0/contexts/nr_contexts", "1") == 0);
  EXPECT(put(CONTEXT "/operations", "vaddr") == 0);
  EXPECT(put(CONTEXT "/targets/nr_targets", "1") == 0);
  EXPECT(put(CONTEXT "/targets/0/pid_target", pid) == 0);
  EXPECT(put(CONTEXT "/monitoring_attrs/intervals/aggr_us", "600000000") == 0);
  EXPECT(put(CONTEXT "/monitoring_attrs/intervals/update_us", "600000000") == 0);
  EXPECT(put(CONTEXT "/monitoring_attrs/intervals/sample_us", "60000000") == 0);
  EXPECT(put(CONTEXT "/monitoring_attrs/nr_regions/max", "4000") == 0);
  EXPECT(put(CONTEXT "/monitoring_attrs/nr_regions/min", "3000") == 0);
  EXPECT(put(ADMIN "/0/state", "on") == 0);
}

static void damon_sees_the_accesses_that_a_scan_has_taken(void) {
  struct tmprof_info info = {.head = HEAD(struct tmprof_info)};
  struct tmprof_scan_range range = {
      .head = HEAD(struct tmprof_scan_range),
      .start_vpn = (unsigned long)memory / PAGE,
      .pages = PAGES,
  };
  __u64 until_ns = now_ns() + 30000000000ULL;
  int session = open_session();
  size_t idle;

  EXPECT(ioctl(session, TMPROF_IOC_INFO, &info) == 0);
  if (!(info.features & TMPROF_FEATURE_KEEPS_YOUNG) || access(ADMIN, F_OK)) {
    printf("skipped %s: this kernel has no idle flag, or no DAMON\n", __func__);
    close(session);
    return;
  }
  touch(memory, PAGES, 1);
  find_frames();
  EXPECT_EQ(idle_pages(), 0);
  start_damon();
  while (!idle_pages()) EXPECT(now_ns() < until_ns);
  usleep(500000);
  idle = idle_pages();
  printf("   DAMON marked %zu of %lu pages as idle\n", idle, PAGES);
  /* The kernel flushes translations whose right to write is taken; DAMON does not flush. */
  EXPECT(mprotect((void*)memory, PAGES * PAGE, PROT_READ) == 0);
  EXPECT(mprotect((void*)memory, PAGES * PAGE, PROT_READ | PROT_WRITE) == 0);
  /* The accesses alone do not reach the flag: whoever finds the bit sets it. */
  touch(memory, PAGES, 1);
  EXPECT_EQ(idle_pages(), idle);
  range.target_id = add_target(session, getpid());
  range.head.flags = TMPROF_SCAN_CLEAR;
  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &range) == 0);
  EXPECT_EQ(range.present_pages, PAGES);
  EXPECT_EQ(range.cleared_bits, PAGES);
  EXPECT_EQ(idle_pages(), 0);
  EXPECT(put(ADMIN "/0/state", "off") == 0);
  EXPECT(put(ADMIN "/nr_kdamonds", "0") == 0);
  close(session);
}

int main(void) {
  memory = map_aligned(PAGES * PAGE, MADV_NOHUGEPAGE);
  EXPECT(mlock((void*)memory, PAGES * PAGE) == 0);
  RUN(damon_sees_the_accesses_that_a_scan_has_taken);
  return 0;
}
