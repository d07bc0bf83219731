// SPDX-License-Identifier: Apache-2.0
/* SCAN_RANGE on memory whose touched pages are known. */

#include "driver/core/hold_buckets.h"
#include "tests/driver/guest/guest.h"

#define MOST_PAGES 16384

struct view {
  struct tmprof_scan_range request;
  __u64 present[MOST_PAGES / 64];
  __u64 accessed[MOST_PAGES / 64];
  __u64 frames[MOST_PAGES];
  __u16 nodes[MOST_PAGES];
  struct tmprof_scan_leaf leaves[64];
};

static struct view view;
static __u64 selection[MOST_PAGES / 64];

static struct tmprof_scan_range request_of(__u32 target, volatile char* start, size_t pages) {
  return (struct tmprof_scan_range){
      .head = HEAD(struct tmprof_scan_range),
      .target_id = target,
      .start_vpn = (unsigned long)start / PAGE,
      .pages = pages,
      .leaf_capacity = 64,
      .present = (unsigned long)view.present,
      .accessed = (unsigned long)view.accessed,
      .frames = (unsigned long)view.frames,
      .nodes = (unsigned long)view.nodes,
      .leaves = (unsigned long)view.leaves,
  };
}

static void scan(int session, __u32 target, volatile char* start, size_t pages, __u32 flags) {
  view.request = request_of(target, start, pages);
  view.request.head.flags = flags;
  view.request.select = flags & TMPROF_SCAN_SELECT ? (unsigned long)selection : 0;
  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &view.request) == 0);
  EXPECT(view.request.start_ns <= view.request.end_ns);
}

/* Every `stride`-th page was touched since a flushed clear, and no other. */
static void expect_touched(size_t pages, size_t stride) {
  size_t i;

  for (i = 0; i < pages; i++) {
    if (bit(view.accessed, i) != (i % stride == 0))
      FAIL("page %zu of %zu: accessed is %d, stride %zu", i, pages, bit(view.accessed, i), stride);
  }
  EXPECT_EQ(view.request.accessed_pages, (pages + stride - 1) / stride);
}

static void base_pages_show_exactly_what_was_touched(void) {
  size_t strides[] = {1, 3, 7, 512, 5000}, i, pages = 8192;
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  __u32 self = add_target(session, getpid());

  touch(memory, pages, 1);
  for (i = 0; i < sizeof(strides) / sizeof(strides[0]); i++) {
    scan(session, self, memory, pages, TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH);
    touch(memory, pages, strides[i]);
    scan(session, self, memory, pages, 0);
    EXPECT_EQ(view.request.present_pages, pages);
    EXPECT_EQ(view.request.leaf_count, 0);
    EXPECT_EQ(view.request.cleared_bits, 0);
    expect_touched(pages, strides[i]);
  }
  close(session);
}

static void reading_clears_nothing(void) {
  size_t pages = 512;
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  __u32 self = add_target(session, getpid());

  touch(memory, pages, 1);
  scan(session, self, memory, pages, 0);
  EXPECT_EQ(view.request.accessed_pages, pages);
  scan(session, self, memory, pages, TMPROF_SCAN_CLEAR);
  EXPECT_EQ(view.request.accessed_pages, pages);
  EXPECT_EQ(view.request.cleared_bits, pages);
  close(session);
}

static void a_selection_clears_only_its_pages(void) {
  size_t pages = 1000, i;
  volatile char* memory = map_aligned(pages * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  __u32 self = add_target(session, getpid());

  touch(memory, pages, 1);
  memset(selection, 0, sizeof(selection));
  for (i = 0; i < pages; i += 10) selection[i / 64] |= 1ULL << (i % 64);
  scan(session, self, memory, pages, TMPROF_SCAN_CLEAR | TMPROF_SCAN_SELECT | TMPROF_SCAN_FLUSH);
  EXPECT_EQ(view.request.cleared_bits, pages / 10);
  scan(session, self, memory, pages, 0);
  for (i = 0; i < pages; i++) EXPECT_EQ(bit(view.accessed, i), i % 10 != 0);
  close(session);
}

static void huge_pages_are_one_bit_each(volatile char* memory, size_t huge_pages, __u32 kind) {
  size_t pages = huge_pages * PAGES_PER_HUGE, i;
  int session = open_session();
  __u32 self = add_target(session, getpid());

  touch(memory, pages, PAGES_PER_HUGE);
  scan(session, self, memory, pages, TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH);
  EXPECT_EQ(view.request.leaf_count, huge_pages);
  EXPECT_EQ(view.request.present_pages, pages);
  EXPECT_EQ(view.request.cleared_bits, huge_pages);
  memory[PAGES_PER_HUGE * PAGE + 12345] = 1; /* the second */
  scan(session, self, memory, pages, 0);
  EXPECT_EQ(view.request.accessed_pages, PAGES_PER_HUGE);
  for (i = 0; i < huge_pages; i++) {
    const struct tmprof_scan_leaf* leaf = &view.leaves[i];

    EXPECT_EQ(leaf->vpn, (unsigned long)memory / PAGE + i * PAGES_PER_HUGE);
    EXPECT_EQ(leaf->span_pages, PAGES_PER_HUGE);
    EXPECT_EQ(leaf->leaf_flags, kind | (i == 1 ? TMPROF_LEAF_ACCESSED : 0));
  }
  /* A range that begins and ends inside of huge pages meets both whole. */
  scan(session, self, memory + 100 * PAGE, 700, TMPROF_SCAN_CLEAR);
  EXPECT_EQ(view.request.leaf_count, 2);
  EXPECT_EQ(view.request.present_pages, 700);
  EXPECT_EQ(view.request.accessed_pages, 700 - 412);
  EXPECT_EQ(view.leaves[0].vpn, (unsigned long)memory / PAGE);
  EXPECT_EQ(view.request.cleared_bits, 1);
  view.request = request_of(self, memory, pages);
  view.request.leaf_capacity = 1;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SCAN_RANGE, &view.request), ENOSPC);
  EXPECT_EQ(view.request.leaf_count, 1);
  close(session);
}

static void transparent_huge_pages_are_one_bit_each(void) {
  volatile char* memory = map_aligned(4 * PAGES_PER_HUGE * PAGE, MADV_HUGEPAGE);

  huge_pages_are_one_bit_each(memory, 4, 0);
}

static void hugetlb_pages_are_one_bit_each(void) {
  size_t bytes = 4 * PAGES_PER_HUGE * PAGE;
  int kinds[] = {MAP_PRIVATE, MAP_SHARED};
  size_t i;

  for (i = 0; i < 2; i++) {
    void* memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, kinds[i] | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

    EXPECT(memory != MAP_FAILED);
    huge_pages_are_one_bit_each(memory, 4, TMPROF_LEAF_HUGETLB);
    EXPECT(munmap(memory, bytes) == 0);
  }
}

/* Without a flush a page whose translation is in a TLB looks idle: how many do is the machine's
 * doing. That a page looks accessed which is not is nobody's. */
static void an_unflushed_clear_misses_pages_but_makes_up_none(void) {
  const char* names[] = {"base", "transparent huge", "hugetlb"};
  size_t units[] = {1, PAGES_PER_HUGE, PAGES_PER_HUGE}, kind, i;
  volatile char* memories[] = {
      map_aligned(4096 * PAGE, MADV_NOHUGEPAGE),
      map_aligned(16 * PAGES_PER_HUGE * PAGE, MADV_HUGEPAGE),
      mmap(NULL, 16 * PAGES_PER_HUGE * PAGE, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0),
  };
  int session = open_session();
  __u32 self = add_target(session, getpid());

  EXPECT(memories[2] != MAP_FAILED);
  for (kind = 0; kind < 3; kind++) {
    size_t unit = units[kind], pages = unit == 1 ? 4096 : 16 * unit, found = 0, touched = 0;

    touch(memories[kind], pages, unit);
    scan(session, self, memories[kind], pages, TMPROF_SCAN_CLEAR);
    EXPECT_EQ(view.request.cleared_bits, pages / unit);
    touch(memories[kind], pages, 2 * unit);
    scan(session, self, memories[kind], pages, 0);
    for (i = 0; i < pages; i += unit) {
      touched += i / unit % 2 == 0;
      found += bit(view.accessed, i);
      if (i / unit % 2) EXPECT_EQ(bit(view.accessed, i), 0);
    }
    printf("recall without a flush, %s pages: %.3f of %zu\n", names[kind], (double)found / touched,
           touched);
    /* The kernel flushes what loses a right. A scan would not: it flushes what it has cleared
     * itself. */
    EXPECT(mprotect((void*)memories[kind], pages * PAGE, PROT_READ) == 0);
    EXPECT(mprotect((void*)memories[kind], pages * PAGE, PROT_READ | PROT_WRITE) == 0);
    touch(memories[kind], pages, unit);
    scan(session, self, memories[kind], pages, TMPROF_SCAN_CLEAR | TMPROF_SCAN_FLUSH);
    EXPECT_EQ(view.request.accessed_pages, pages);
    touch(memories[kind], pages, 2 * unit);
    scan(session, self, memories[kind], pages, 0);
    for (i = 0; i < pages; i++) EXPECT_EQ(bit(view.accessed, i), i / unit % 2 == 0);
  }
  EXPECT(munmap((void*)memories[2], 16 * PAGES_PER_HUGE * PAGE) == 0);
  close(session);
}

static void zero_pages_and_holes_are_not_present(void) {
  volatile char* memory = map_aligned(1024 * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  __u32 self = add_target(session, getpid());
  char sum = 0;
  size_t i;

  for (i = 0; i < 512; i++) sum |= memory[i * PAGE]; /* maps the zero page */
  EXPECT_EQ(sum, 0);
  touch(memory + 600 * PAGE, 10, 1);
  EXPECT(munmap((void*)(memory + 800 * PAGE), 224 * PAGE) == 0);
  scan(session, self, memory, 1024, TMPROF_SCAN_CLEAR);
  EXPECT_EQ(view.request.present_pages, 10);
  EXPECT_EQ(view.request.mapped_end_vpn, (unsigned long)memory / PAGE + 800);
  for (i = 0; i < 1024; i++) EXPECT_EQ(bit(view.present, i), i >= 600 && i < 610);
  EXPECT_EQ(view.frames[0], TMPROF_UNKNOWN);
  EXPECT_EQ(view.nodes[0], TMPROF_NO_NODE);
  close(session);
}

static void frames_and_nodes_agree_with_pagemap(void) {
  volatile char* memory = map_aligned(600 * PAGE, MADV_NOHUGEPAGE);
  __u64 entries[600];
  int session = open_session(), pagemap = open("/proc/self/pagemap", O_RDONLY);
  __u32 self = add_target(session, getpid());
  size_t i;

  EXPECT(pagemap >= 0);
  touch(memory, 600, 1);
  EXPECT(mlock((void*)memory, 600 * PAGE) == 0);
  EXPECT_EQ(pread(pagemap, entries, sizeof(entries), (unsigned long)memory / PAGE * 8),
            sizeof(entries));
  scan(session, self, memory, 600, 0);
  for (i = 0; i < 600; i++) {
    EXPECT_EQ(view.frames[i], entries[i] & ((1ULL << 55) - 1));
    EXPECT(view.nodes[i] != TMPROF_NO_NODE);
  }
  close(pagemap);
  close(session);
}

/* Reserved and not touched, so it costs nothing. */
static volatile char* reserve(size_t bytes) {
  char* start =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

  EXPECT(start != MAP_FAILED);
  EXPECT(madvise(start, bytes, MADV_NOHUGEPAGE) == 0);
  return start;
}

/* Follows next_vpn through [start, start + bytes), up to `most` pages a call; returns the calls it
 * took. Every page of `touched`, ascending byte offsets, is met, and no other. */
static size_t follow(int session, __u32 target, volatile char* start, size_t bytes, size_t most,
                     const size_t* touched, size_t touched_count) {
  unsigned long at = (unsigned long)start / PAGE, end = at + bytes / PAGE;
  size_t calls = 0, met = 0, i;

  while (at < end) {
    size_t pages = end - at < most ? end - at : most;

    scan(session, target, (volatile char*)(at * PAGE), pages, 0);
    calls++;
    for (i = 0; i < pages; i++) {
      if (!bit(view.present, i)) continue;
      EXPECT(met < touched_count);
      EXPECT_EQ(at + i, (unsigned long)(start + touched[met]) / PAGE);
      met++;
    }
    EXPECT(view.request.next_vpn >= at + pages);
    at = view.request.next_vpn;
  }
  EXPECT_EQ(met, touched_count);
  return calls;
}

static void a_sparse_mapping_is_crossed_in_a_call_per_table_in_use(void) {
  const size_t gib = 1UL << 30;
  size_t touched[] = {0, 300 * gib + 5 * PAGE, 300 * gib + 300 * PAGE, 1023 * gib + 77 * PAGE};
  volatile char* memory = reserve(1024 * gib);
  int session = open_session();
  __u32 self = add_target(session, getpid());
  unsigned long vpn;
  size_t i;

  for (i = 0; i < 4; i++) memory[touched[i]] = 1;
  EXPECT_EQ(follow(session, self, memory, 1024 * gib, MOST_PAGES, touched, 4), 3);
  scan(session, self, memory, MOST_PAGES, 0);
  vpn = (unsigned long)(memory + touched[1]) / PAGE;
  EXPECT_EQ(view.request.next_vpn, vpn & -PAGES_PER_HUGE);
  /* In use from its first page on. */
  scan(session, self, memory + touched[1] - 700 * PAGE, 690, 0);
  EXPECT_EQ(view.request.next_vpn,
            (vpn & -PAGES_PER_HUGE) > vpn - 10 ? (vpn & -PAGES_PER_HUGE) : vpn - 10);
  close(session);
  EXPECT(munmap((void*)memory, 1024 * gib) == 0);
}

/* More mappings than one call looks at: each counts twice of 8192. (A kernel with DEBUG_VM checks
 * all mappings at each change.) */
static void many_empty_mappings_are_crossed_in_few_calls(void) {
  size_t calls, pages = 10000, bytes = pages * PAGE + 64 * PAGES_PER_HUGE * PAGE,
                touched = bytes - PAGE, i;
  volatile char* memory = reserve(bytes);
  int session = open_session();
  __u32 self = add_target(session, getpid());

  for (i = 0; i < pages; i += 2) EXPECT(mprotect((void*)(memory + i * PAGE), PAGE, PROT_NONE) == 0);
  memory[touched] = 1;
  calls = follow(session, self, memory, bytes, 64, &touched, 1);
  EXPECT(calls >= 3 && calls <= 3 + PAGES_PER_HUGE / 64 + 1); /* and through the table in use */
  close(session);
  EXPECT(munmap((void*)memory, bytes) == 0);
}

static void nothing_lies_behind_the_last_mapping(void) {
  int session = open_session();
  __u32 self = add_target(session, getpid());

  view.request = request_of(self, (volatile char*)((1UL << 47) - 16 * PAGE), 15);
  EXPECT(ioctl(session, TMPROF_IOC_SCAN_RANGE, &view.request) == 0);
  EXPECT_EQ(view.request.present_pages, 0);
  EXPECT_EQ(view.request.next_vpn, TMPROF_NO_VPN);
  close(session);
}

static void holds_of_the_mmap_lock_are_counted_by_length(void) {
  volatile char* memory = map_aligned(8192 * PAGE, MADV_NOHUGEPAGE);
  struct tmprof_lock_holds holds = {.head = HEAD(struct tmprof_lock_holds)};
  struct tmprof_stats stats = {.head = HEAD(struct tmprof_stats)};
  int session = open_session();
  __u32 self = add_target(session, getpid());
  __u64 longest = 0, total = 0;
  size_t i, last = 0;

  touch(memory, 8192, 1);
  for (i = 0; i < 50; i++) {
    scan(session, self, memory, i % 2 ? 8192 : 1, 0);
    if (view.request.lock_ns > longest) longest = view.request.lock_ns;
  }
  EXPECT(ioctl(session, TMPROF_IOC_LOCK_HOLDS, &holds) == 0);
  EXPECT(ioctl(session, TMPROF_IOC_STATS, &stats) == 0);
  EXPECT_EQ(stats.mmap_lock_max_ns, longest);
  for (i = 0; i < TMPROF_HOLD_BUCKETS; i++) {
    total += holds.holds[i];
    if (holds.holds[i]) last = i;
  }
  EXPECT_EQ(total, stats.mmap_lock_holds);
  EXPECT(total >= 50);
  EXPECT_EQ(last, tmprof_hold_bucket(longest));
  holds.reserved[1] = 1;
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_LOCK_HOLDS, &holds), EINVAL);
  close(session);
}

static void malformed_ranges_are_refused(void) {
  volatile char* memory = map_aligned(512 * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  __u32 self = add_target(session, getpid());
  struct tmprof_scan_range good = request_of(self, memory, 512), bad;

#define EXPECT_REFUSED(field, value, number)                           \
  do {                                                                 \
    bad = good;                                                        \
    bad.field = (value);                                               \
    EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SCAN_RANGE, &bad), number); \
  } while (0)
  EXPECT_REFUSED(target_id, self + 1, ENOENT);
  EXPECT_REFUSED(pages, 0, EINVAL);
  EXPECT_REFUSED(pages, MOST_PAGES + 1, EINVAL);
  EXPECT_REFUSED(start_vpn, ~0ULL, EINVAL);
  EXPECT_REFUSED(start_vpn, 1ULL << 52, EINVAL);
  EXPECT_REFUSED(head.flags, 1U << 31, EINVAL);
  EXPECT_REFUSED(head.flags, TMPROF_SCAN_FLUSH, EINVAL);
  EXPECT_REFUSED(head.flags, TMPROF_SCAN_CLEAR | TMPROF_SCAN_SELECT, EINVAL);
  EXPECT_REFUSED(select, (unsigned long)selection, EINVAL);
  EXPECT_REFUSED(leaves, 0, EINVAL);
  EXPECT_REFUSED(reserved[0], 1, EINVAL);
  EXPECT_REFUSED(frames, 8, EFAULT);
  close(session);
}

static void a_target_that_has_exited_has_no_range(void) {
  volatile char* memory = map_aligned(512 * PAGE, MADV_NOHUGEPAGE);
  int session = open_session();
  pid_t child = fork();
  __u32 id;

  if (child == 0)
    for (;;) pause();
  id = add_target(session, child);
  EXPECT(kill(child, SIGKILL) == 0);
  EXPECT(waitpid(child, NULL, 0) == child);
  view.request = request_of(id, memory, 512);
  EXPECT_ERRNO(ioctl(session, TMPROF_IOC_SCAN_RANGE, &view.request), ESRCH);
  close(session);
}

int main(void) {
  RUN(base_pages_show_exactly_what_was_touched);
  RUN(reading_clears_nothing);
  RUN(a_selection_clears_only_its_pages);
  RUN(transparent_huge_pages_are_one_bit_each);
  RUN(hugetlb_pages_are_one_bit_each);
  RUN(an_unflushed_clear_misses_pages_but_makes_up_none);
  RUN(zero_pages_and_holes_are_not_present);
  RUN(frames_and_nodes_agree_with_pagemap);
  RUN(a_sparse_mapping_is_crossed_in_a_call_per_table_in_use);
  RUN(many_empty_mappings_are_crossed_in_few_calls);
  RUN(nothing_lies_behind_the_last_mapping);
  RUN(holds_of_the_mmap_lock_are_counted_by_length);
  RUN(malformed_ranges_are_refused);
  RUN(a_target_that_has_exited_has_no_range);
  return 0;
}
