/* SPDX-License-Identifier: GPL-2.0-or-later OR Apache-2.0 */
/*
 * The truth stream: what a QEMU plugin writes to a file or a socket and tmprof reads: exact access
 * counts by page and epoch. C and C++.
 *
 *	stream = header, record*
 *	record = { type, bytes } and (bytes - 8) more bytes
 *
 * All integers are little-endian. Every length is a multiple of 8 and counts the whole header or
 * record with its padding, which is zero. One stream holds one process's counts, or those of every
 * traced process of one machine.
 *
 * An epoch is the records since the last TMPROF_TRUTH_EPOCH_END and that one itself. A stream may
 * be cut anywhere: what follows its last epoch end then never was. TMPROF_TRUTH_FINISH says that it
 * was not cut.
 *
 * Page entries come in any order. Several of one epoch may name the same page (one for each CPU,
 * or for each frame it lay in): the reader adds them up, and the last node known wins.
 *
 * Extending: a reader skips a record whose type it does not know, and takes from a longer header,
 * record or page entry the fields that it knows. A field is only ever added at an end; whatever
 * cannot be told that way takes a new TMPROF_TRUTH_VERSION, which a reader refuses by name.
 */
#ifndef TMPROF_TESTBED_TIERSIM_FORMAT_TRUTH_STREAM_H
#define TMPROF_TESTBED_TIERSIM_FORMAT_TRUTH_STREAM_H

#include <stddef.h>
#include <stdint.h>

#define TMPROF_TRUTH_MAGIC "TMPTRUTH" /* 8 bytes, without the terminating 0 */
#define TMPROF_TRUTH_VERSION 1u

/* No record is longer, so that a damaged length takes no more memory. */
#define TMPROF_TRUTH_MOST_RECORD_BYTES (128u << 20)

enum tmprof_truth_clock {
  TMPROF_TRUTH_CLOCK_HOST = 1,  /* CLOCK_MONOTONIC of the machine that the plugin runs on */
  TMPROF_TRUTH_CLOCK_GUEST = 2, /* CLOCK_MONOTONIC of the virtual machine */
};

enum tmprof_truth_maker {
  TMPROF_TRUTH_MAKER_EXACT = 1,   /* the exact tracer: one program under user-mode QEMU */
  TMPROF_TRUTH_MAKER_TIERSIM = 2, /* tiersim: a whole virtual machine */
};

/* tmprof_truth_header.flags */
enum {
  TMPROF_TRUTH_COUNTS_INSTRUCTIONS = 1u << 0, /* else `instructions` is 0 everywhere: unknown */
};

struct tmprof_truth_header {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;
  uint32_t page_bytes; /* 4096 */
  uint32_t maker;      /* enum tmprof_truth_maker */
  uint32_t clock;      /* enum tmprof_truth_clock, of every time in the stream */
  uint32_t flags;
  /*
   * The models that misses come from, for people: "1 MiB, 16 ways, 64 B lines, LRU". 0-terminated.
   * An empty one says that there was no such model: the misses are then unknown, not 0.
   */
  char llc_model[64];
  char dtlb_model[64];
  /* Further models. Older streams end here: TMPROF_TRUTH_LEAST_HEADER_BYTES. */
  char l2_model[64];         /* a private cache before the LLC */
  char prefetcher_model[64]; /* empty: hidden_misses are unknown */
  char stall_model[64];      /* empty: stall_ns are unknown */
};

#define TMPROF_TRUTH_LEAST_HEADER_BYTES offsetof(struct tmprof_truth_header, l2_model)

enum tmprof_truth_record_type {
  TMPROF_TRUTH_TARGET = 1,
  TMPROF_TRUTH_PAGES = 3,
  TMPROF_TRUTH_EPOCH_END = 4,
  TMPROF_TRUTH_FINISH = 5,
  TMPROF_TRUTH_NOT_FOLLOWED = 6,
};

struct tmprof_truth_record {
  uint32_t type;  /* enum tmprof_truth_record_type */
  uint32_t bytes; /* distance from here to the next record */
};

enum {
  TMPROF_TRUTH_TARGET_KNOWS_PID = 1u << 0,
  TMPROF_TRUTH_TARGET_KNOWS_START = 1u << 1,
  TMPROF_TRUTH_TARGET_EXITED = 1u << 2,
};

/*
 * One process. It comes before the first page of that target, and again when it changes (exec,
 * exit): the last one of an epoch or before counts. One whose tracing was ended has exited as far
 * as this stream goes: nothing is known of it any more. One that has exited may have pages in the
 * epoch after, too, which another CPU had not handed in; the first epoch without any is its end.
 * command_bytes bytes of text follow, not terminated: the arguments joined by spaces.
 */
struct tmprof_truth_target {
  struct tmprof_truth_record record;
  uint32_t target; /* any number that names it in this stream */
  uint32_t flags;
  uint32_t pid;
  uint32_t command_bytes;
  uint64_t start_time_ticks; /* /proc/PID/stat field 22 */
  char name[16];             /* /proc/PID/comm, 0-terminated */
};

/* `count` entries of `entry_bytes` bytes each follow. */
struct tmprof_truth_pages {
  struct tmprof_truth_record record;
  uint32_t count;
  uint32_t entry_bytes;
};

enum {
  TMPROF_TRUTH_PAGE_KNOWS_PFN = 1u << 0,
  TMPROF_TRUTH_PAGE_KNOWS_NODE = 1u << 1,
};

/* Counts that the open epoch adds to one page. An access that crosses into the next page counts
 * once, for the page of its first byte. A read-modify-write is one load and one store. */
struct tmprof_truth_page {
  uint64_t vpn; /* virtual address >> 12 */
  uint64_t pfn; /* physical address >> 12 */
  uint32_t target;
  uint16_t node; /* NUMA node of pfn */
  uint16_t flags;
  uint64_t loads;
  uint64_t stores;
  uint64_t llc_misses;
  uint64_t dtlb_misses;
  /* Only in entries of more than TMPROF_TRUTH_LEAST_PAGE_BYTES. A shorter entry leaves both
   * unknown, as the header's empty model does. */
  uint64_t hidden_misses; /* those of llc_misses whose line a prefetcher had asked for */
  uint64_t stall_ns;      /* time that the program waited for memory */
};

#define TMPROF_TRUTH_LEAST_PAGE_BYTES offsetof(struct tmprof_truth_page, hidden_misses)

/* Entries that a record has room for. */
#define TMPROF_TRUTH_MOST_PAGES                                           \
  ((TMPROF_TRUTH_MOST_RECORD_BYTES - sizeof(struct tmprof_truth_pages)) / \
   sizeof(struct tmprof_truth_page))

/* Ends an epoch. Its sums are those of its page entries: a reader refuses others. hidden_misses and
 * stall_ns have no sums. */
struct tmprof_truth_epoch_end {
  struct tmprof_truth_record record;
  uint64_t index; /* ascending; a gap is an epoch in which nothing ran or that was lost */
  uint64_t start_ns;
  uint64_t end_ns; /* >= start_ns; the next epoch does not start earlier */
  uint64_t instructions;
  uint64_t loads;
  uint64_t stores;
  uint64_t llc_misses;
  uint64_t dtlb_misses;
  uint64_t lost_accesses; /* seen, but of no page that there was room for */
};

/* Ends a stream, with the sums of its epochs. */
struct tmprof_truth_finish {
  struct tmprof_truth_record record;
  uint64_t epochs;
  uint64_t instructions;
  uint64_t loads;
  uint64_t stores;
  uint64_t llc_misses;
  uint64_t dtlb_misses;
  uint64_t lost_accesses;
};

/* Processes that came from a followed one and whose accesses are not in any stream: since the
 * record of this kind before. text_bytes bytes follow: why, and what they are. */
struct tmprof_truth_not_followed {
  struct tmprof_truth_record record;
  uint32_t processes;
  uint32_t text_bytes;
};

static inline uint32_t tmprof_truth_padded(uint32_t bytes) { return (bytes + 7u) & ~7u; }

#endif /* TMPROF_TESTBED_TIERSIM_FORMAT_TRUTH_STREAM_H */
