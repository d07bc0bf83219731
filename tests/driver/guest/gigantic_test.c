// SPDX-License-Identifier: Apache-2.0
/* Pages of 1 GiB; the machine's kernel sets one aside as it boots. */

#include <linux/mman.h>
#include <sched.h>

#include "tests/driver/guest/fake_sampler.h"

#define GIB_PAGES (1UL << 18)
#define RANGE_PAGES 16384

static volatile char* memory;

static struct tmprof_scan_leaf leaf;
static __u64 frames[RANGE_PAGES];

static struct tmprof_scan_range scan(int session, __u32 target, size_t first_page, __u32 flags) {
  struct tmprof_scan_range request = {
      .head = {sizeof(request), TMPROF_ABI_VERSION, flags, 0},
      .target_id = target,
      .start_vpn = (unsigned long)memory / PAGE + first_page,
      .pages = RANGE_PAGES,
      .leaf_capacity = 1,
      .frames = (unsigned long)frames,
      .leaves = (unsigned long)&leaf,
  };

  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &request) == 0);
  EXPECT_EQ(request.leaf_count, 1);
  EXPECT_EQ(request.present_pages, RANGE_PAGES);
  EXPECT_EQ(leaf.vpn, (unsigned long)memory / PAGE);
  EXPECT_EQ(leaf.span_pages, GIB_PAGES);
  return request;
}

static void a_page_of_1_gib_is_one_bit(void) {
  const __u32 flags = TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH;
  int session = open_session();
  __u32 self = add_target(session, getpid());
  __u64 first_frame;

  memory[0] = 1;
  EXPECT_EQ(scan(session, self, 0, flags).cleared_bits, 1);
  first_frame = frames[0];
  EXPECT_EQ(first_frame % GIB_PAGES, 0);
  EXPECT_EQ(scan(session, self, 0, 0).accessed_pages, 0);
  memory[777 * PAGE] = 1;
  EXPECT_EQ(scan(session, self, 200000, 0).accessed_pages, RANGE_PAGES);
  EXPECT_EQ(leaf.leaf_flags, TMPROF_LEAF_HUGETLB | TMPROF_LEAF_ACCESSED);
  EXPECT_EQ(frames[5], first_frame + 200000 + 5);
  close(session);
}

static void a_page_of_1_gib_is_one_record(void) {
  static struct tmprof_page_record records[4096];
  int session = open_session(), found = 0;
  struct tmprof_params params = params_of(session);
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  ssize_t bytes, i;

  params.scan_interval_ns = 3600000000000ULL;
  params.scan_budget_ns = 1000000000;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, getpid());
  memory[GIB_PAGES / 2 * PAGE] = 1;
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  while (!stats_of(session).passes) sched_yield();
  EXPECT(ioctl(session, TMPROF_IOC_EPOCH_END, &epoch) == 0);
  bytes = read(session, records, sizeof(records));
  for (i = 0; i < bytes / (ssize_t)sizeof(records[0]); i++) {
    if (records[i].span_pages != GIB_PAGES) continue;
    EXPECT_EQ(records[i].vpn, (unsigned long)memory / PAGE);
    EXPECT_EQ(records[i].references, 1);
    found++;
  }
  EXPECT_EQ(found, 1);
  close(session);
}

/* A hundred samples at different addresses of the page. */
static void samples_of_a_page_of_1_gib_are_one_record(void) {
  static struct tmprof_page_record records[4096];
  struct script_record samples[100];
  int session = open_session(), found = 0, i;
  struct tmprof_params params = params_of(session);
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  ssize_t count;

  for (i = 0; i < 100; i++)
    samples[i] = (struct script_record){KIND_SAMPLE, (unsigned long)(memory + i * 1000 * PAGE),
                                        FROM_MEMORY(LOAD), 0};
  params.sample_event.type = fake_type;
  params.sample_event.flags = TMPROF_EVENT_PRESENT | TMPROF_EVENT_DATA_SRC;
  params.sample_period = 1000;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, getpid());
  memory[0] = 1;
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  write_script(samples, 100);
  EXPECT(ioctl(session, TMPROF_IOC_EPOCH_END, &epoch) == 0);
  count = read(session, records, sizeof(records)) / (ssize_t)sizeof(records[0]);
  for (i = 0; i < count; i++) {
    if (records[i].vpn < (unsigned long)memory / PAGE ||
        records[i].vpn >= (unsigned long)memory / PAGE + GIB_PAGES)
      continue;
    EXPECT_EQ(records[i].span_pages, GIB_PAGES);
    EXPECT_EQ(records[i].load_samples, 100);
    EXPECT(records[i].node != TMPROF_NO_NODE);
    found++;
  }
  EXPECT_EQ(found, 1);
  close(session);
}

int main(void) {
  const int kinds[] = {MAP_PRIVATE, MAP_SHARED};
  size_t i;

  load_fake_sampler();
  for (i = 0; i < 2; i++) {
    memory = mmap(NULL, GIB_PAGES * PAGE, PROT_READ | PROT_WRITE,
                  kinds[i] | MAP_ANONYMOUS | MAP_HUGETLB | MAP_HUGE_1GB, -1, 0);
    if (memory == MAP_FAILED) {
      printf("skipped: no page of 1 GiB: %s\n", strerror(errno));
      break;
    }
    printf("%s memory\n", kinds[i] == MAP_PRIVATE ? "private" : "shared");
    RUN(a_page_of_1_gib_is_one_bit);
    RUN(a_page_of_1_gib_is_one_record);
    RUN(samples_of_a_page_of_1_gib_are_one_record);
    EXPECT(munmap((void*)memory, GIB_PAGES * PAGE) == 0);
  }
  unload_fake_sampler();
  return 0;
}
