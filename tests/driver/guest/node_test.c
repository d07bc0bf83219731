// SPDX-License-Identifier: Apache-2.0
/* Which node a page is on: scans and samples say of each what move_pages(2) says of it. For a
 * machine with memory of two nodes and no NUMA balancing. */

#include <sys/syscall.h>

#include "tests/driver/guest/fake_sampler.h"

#define LEAVES 8
#define BASE_PAGES 64
#define MOST_PAGES (LEAVES * PAGES_PER_HUGE)
#define HOUR_NS 3600000000000ULL
#ifndef MPOL_MF_MOVE
#define MPOL_MF_MOVE 2
#endif

/* Leaves of `span` pages each; every other one is moved to node 1. */
struct memory {
  const char* name;
  volatile char* start;
  size_t span, leaves;
};

/* The node of leaf `index`, in a pattern that a mistake by one or by the span would not keep. */
static int wanted_node(size_t index) { return index % 3 == 1 || index % 4 == 2; }

static volatile char* leaf(const struct memory* memory, size_t index) {
  return memory->start + index * memory->span * PAGE;
}

static void move_some(const struct memory* memory) {
  void* pages[BASE_PAGES];
  int nodes[BASE_PAGES], now[BASE_PAGES];
  size_t i;

  for (i = 0; i < memory->leaves; i++) {
    pages[i] = (void*)leaf(memory, i);
    nodes[i] = wanted_node(i);
  }
  EXPECT_EQ(syscall(SYS_move_pages, 0, memory->leaves, pages, nodes, now, MPOL_MF_MOVE), 0);
  EXPECT_EQ(syscall(SYS_move_pages, 0, memory->leaves, pages, NULL, now, 0), 0);
  for (i = 0; i < memory->leaves; i++)
    if (now[i] != nodes[i]) FAIL("%s, leaf %zu is on %d", memory->name, i, now[i]);
}

static struct tmprof_page_record records[4096];

/* The records of the epoch that ends now, one for each leaf, each with its node. */
static void expect_records(int session, const struct memory* memory, __u32 references,
                           __u32 samples) {
  struct tmprof_epoch epoch = {.head = HEAD(struct tmprof_epoch)};
  unsigned long first = (unsigned long)memory->start / PAGE;
  size_t i, found = 0;

  EXPECT(ioctl(session, TMPROF_IOC_EPOCH_END, &epoch) == 0);
  EXPECT_EQ(read(session, records, sizeof(records)), epoch.records * sizeof(records[0]));
  for (i = 0; i < epoch.records; i++) {
    size_t index = (records[i].vpn - first) / memory->span;

    if (records[i].vpn < first || index >= memory->leaves) continue;
    EXPECT_EQ(records[i].span_pages, memory->span);
    EXPECT_EQ(records[i].node, wanted_node(index));
    EXPECT_EQ(records[i].references, references);
    EXPECT_EQ(records[i].load_samples, samples);
    found++;
  }
  EXPECT_EQ(found, memory->leaves);
}

static void a_pass_finds_each_leaf_on_its_node(const struct memory* memory) {
  int session = open_session();
  struct tmprof_params params = params_of(session);

  params.scan_interval_ns = HOUR_NS;
  params.scan_budget_ns = 1000000000;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, getpid());
  touch(memory->start, memory->span * memory->leaves, memory->span);
  EXPECT(control(session, TMPROF_MASK_ABIT, TMPROF_START) == 0);
  while (!stats_of(session).passes) sched_yield();
  expect_records(session, memory, 1, 0);
  close(session);
}

static void a_range_says_each_pages_node(const struct memory* memory) {
  static __u16 nodes[MOST_PAGES];
  static struct tmprof_scan_leaf leaves[LEAVES];
  struct tmprof_scan_range request = {
      .head = HEAD(struct tmprof_scan_range),
      .start_vpn = (unsigned long)memory->start / PAGE,
      .pages = memory->span * memory->leaves,
      .leaf_capacity = LEAVES,
      .nodes = (unsigned long)nodes,
      .leaves = (unsigned long)leaves,
  };
  int session = open_session();
  size_t i;

  request.target_id = add_target(session, getpid());
  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &request) == 0);
  EXPECT_EQ(request.present_pages, request.pages);
  for (i = 0; i < request.pages; i++) EXPECT_EQ(nodes[i], wanted_node(i / memory->span));
  EXPECT_EQ(request.leaf_count, memory->span == 1 ? 0 : memory->leaves);
  for (i = 0; i < request.leaf_count; i++) EXPECT_EQ(leaves[i].node, wanted_node(i));
  close(session);
}

/* The PMU reports no physical address: the driver looks it up. */
static void samples_are_of_the_node_of_their_leaf(const struct memory* memory) {
  int session = open_session();
  struct tmprof_params params = params_of(session);
  size_t i;

  params.sample_event.type = fake_type;
  params.sample_event.flags = TMPROF_EVENT_PRESENT;
  params.sample_period = 1000;
  EXPECT(ioctl(session, TMPROF_IOC_SET_PARAMS, &params) == 0);
  add_target(session, getpid());
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_START) == 0);
  for (i = 0; i < memory->leaves; i++) {
    /* Not the first page of a huge one. */
    struct script_record record = {
        .kind = KIND_SAMPLE, .value = (unsigned long)leaf(memory, i) + memory->span / 2 * PAGE + 8};

    write_script(&record, 1);
  }
  EXPECT(control(session, TMPROF_MASK_SAMPLER, TMPROF_STOP) == 0);
  expect_records(session, memory, 0, 1);
  close(session);
}

int main(void) {
  size_t bytes = MOST_PAGES * PAGE, i;
  struct memory memories[] = {
      {"base pages", map_aligned(BASE_PAGES * PAGE, MADV_NOHUGEPAGE), 1, BASE_PAGES},
      {"transparent huge pages", map_aligned(bytes, MADV_HUGEPAGE), PAGES_PER_HUGE, LEAVES},
      {"hugetlb pages",
       mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0),
       PAGES_PER_HUGE, LEAVES},
  };

  EXPECT(memories[2].start != MAP_FAILED);
  load_fake_sampler();
  for (i = 0; i < 3; i++) {
    const struct memory* memory = &memories[i];

    touch(memory->start, memory->span * memory->leaves, memory->span);
    move_some(memory);
    a_pass_finds_each_leaf_on_its_node(memory);
    a_range_says_each_pages_node(memory);
    samples_are_of_the_node_of_their_leaf(memory);
    printf("ok nodes of %s: by pass, range and sample\n", memory->name);
  }
  unload_fake_sampler();
  return 0;
}
