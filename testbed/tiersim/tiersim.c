// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tiersim: a QEMU plugin that gives a virtual machine an LLC, a dTLB, a PMU that samples, slow
 * memory and the exact truth about every page. vpmu, in the guest's kernel, tells it by shared
 * memory what to trace (format/shared_page.h); the truth goes to a file (format/truth_stream.h).
 *
 * It sees the data accesses of user-mode code in traced address spaces. Each access passes an L1 of
 * virtual lines, direct-mapped; only misses are looked up in dTLB and LLC. That makes it fast, and
 * counts in L1 become exact page counts when a line is settled: on eviction, on any flush, at an
 * epoch's end.
 *
 * Threads: each vCPU's thread owns its `struct vcpu` and its part of the shared memory. `llc_lock`
 * guards the LLC, if there is more than one vCPU; `truth_lock` what goes to the file; `blocks_lock`
 * the list of translated blocks.
 */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/sources/exact/plugin/cache_model.h"
#include "profiler/sources/exact/plugin/format/truth_stream.h"
#include "profiler/sources/exact/plugin/qemu_plugin_abi.h"
#include "profiler/sources/exact/plugin/stream_prefetcher.h"
#include "testbed/tiersim/format/shared_page.h"
#include "testbed/tiersim/kernel_code.h"
#include "testbed/tiersim/page_counts.h"
#include "testbed/tiersim/pointer_hook.h"
#include "testbed/tiersim/sample_countdown.h"

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_API;

#define PAGE_SHIFT 12
#define PAGE_BYTES (1u << PAGE_SHIFT)
#define HUGE_PAGE_BYTES (1u << 21)
#define REGISTERS 16
#define MAX_LATENCIES 16

/* QEMU's timers look at the clock again after this much time was charged: a timer is late by no
 * more. */
#define KICK_INTERVAL_NS 50000

/* The address in CR3 of the top page table (Intel SDM vol. 3, 4.5). */
#define CR3_FRAME 0x000ffffffffff000ull

/* The pointers to icount_get() in QEMU 10.0's class of accelerator operations: get_virtual_clock
 * and get_elapsed_ticks (accel/tcg/tcg-accel-ops.c, tcg_accel_ops_init()). */
#define CLOCK_POINTERS 2

/* A block's instructions are added to a vCPU's countdown when it is entered; samples are due when
 * it gets here. */
#define DUE (1ull << 63)

struct options {
  const char* shared;
  const char* truth;
  const char*
      thp; /* the guest's transparent huge pages, for people: none has an entry of its own */
  uint64_t llc_bytes;
  uint32_t llc_ways;
  enum tiersim_policy llc_policy;
  uint32_t dtlb_entries;
  uint32_t dtlb_ways;
  enum tiersim_policy dtlb_policy;
  uint64_t l1_bytes;
  uint32_t line_shift;     /* log2 of the bytes of a line, of L1 and LLC */
  uint32_t prefetch_lines; /* 0: no prefetcher */
  uint32_t ring_samples;   /* that a vCPU's ring takes */
  uint32_t walk_ns;
  uint32_t latency_ns[TIERSIM_MAX_CPUS][MAX_LATENCIES]; /* index: vCPU and node */
  bool charge; /* to the guest's clock, which icount makes possible */
};

static struct options options = {
    .thp = "unknown",
    .llc_bytes = 1 << 20,
    .llc_ways = 16,
    .llc_policy = TIERSIM_LRU,
    .dtlb_entries = 1536,
    .dtlb_ways = 12,
    .dtlb_policy = TIERSIM_LRU,
    .l1_bytes = 32 << 10,
    .line_shift = 6, /* 64 bytes, as in every x86 of today */
    .ring_samples = TIERSIM_RING_SAMPLES,
    .walk_ns = 20,
    .charge = true,
};

struct line {
  uint64_t tag; /* virtual line + 1, 0 empty */
  uint64_t pfn;
  uint64_t loads;
  uint64_t stores;
  uint32_t llc_misses;
  uint32_t dtlb_misses;
};

struct vcpu {
  bool active;    /* a traced address space is loaded; else L1 and dTLB are empty */
  uint32_t armed; /* slots whose instruction was chosen and has not come yet */
  struct line* l1;
  uint32_t target;
  uint32_t pid;
  uint64_t base; /* the countdown when it was read last */
  uint64_t folded;
  uint64_t told_ns; /* the guest's time when it told it last, and what stood then at */
  uint64_t told_instructions;
  uint64_t told_charged_ns;
  uint64_t instructions;  /* since the last fold */
  uint64_t lost_accesses; /* since the last fold */
  struct tiersim_cpu* side;
  struct tiersim_sample* ring;
  struct tiersim_cache dtlb;
  struct tiersim_prefetcher prefetcher;
  struct tiersim_pages pages;
  struct tiersim_random random;
  uint32_t generation[TIERSIM_SLOTS];
  struct {
    uint64_t pc;
    uint64_t block;   /* start of the instruction's block */
    uint64_t last_pc; /* PC of the last access in it since it was entered; 0 none yet */
    bool last_stored;
  } chosen[TIERSIM_SLOTS];
  struct qemu_plugin_register* general[REGISTERS];
  struct qemu_plugin_register* cr3_register;
} __attribute__((aligned(64)));

/* Addresses of a block's instructions, for the sample that falls into it. */
struct block {
  struct block* next;
  uint32_t count;
  uint64_t pc[];
};

static struct vcpu vcpus[TIERSIM_MAX_CPUS];
static unsigned int vcpu_count;
static uint64_t l1_mask;
static struct tiersim_cache llc;
static pthread_spinlock_t llc_lock;
static struct tiersim_shared* shared;
static struct qemu_plugin_scoreboard* countdowns; /* uint64_t each */

static struct block* blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static struct truth {
  FILE* file;
  uint64_t closed;
  struct tmprof_truth_page* pages; /* handed over and not yet written */
  size_t page_count;
  size_t page_capacity;
  uint64_t instructions;
  uint64_t lost_accesses;
  struct tmprof_truth_finish sums;
  uint32_t told[TIERSIM_MAX_SPACES]; /* state of the space in its last target record, 0 none */
} truth;
static pthread_mutex_t truth_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic uint64_t charged_ns;
static uint64_t kicked_ns;
static const void* time_control;
static int64_t (*icount_get)(void);

static qemu_plugin_gbytearray* (*byte_array_new)(void);
static qemu_plugin_gbytearray* (*byte_array_set_size)(qemu_plugin_gbytearray*, unsigned int);
static char* (*array_free)(qemu_plugin_garray*, int);

__attribute__((format(printf, 1, 2))) static void say(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("tiersim: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

/* ---- time ---- */

static int64_t charged_clock(void) {
  return icount_get() + (int64_t)atomic_load_explicit(&charged_ns, memory_order_relaxed);
}

/* The public way to set the clock, qemu_plugin_update_ns(), does nothing under TCG, so the pointers
 * that QEMU reads it through are replaced. Found by name and value: no layout of QEMU's is relied
 * on. */
static bool hook_clock(void) {
  void* (*class_by_name)(const char*) =
      (void* (*)(const char*))dlsym(RTLD_DEFAULT, "object_class_by_name");
  icount_get = (int64_t (*)(void))dlsym(RTLD_DEFAULT, "icount_get");
  void** const operations =
      class_by_name && icount_get ? (void**)class_by_name("tcg-accel-ops") : NULL;
  if (!operations) {
    say("refused: this QEMU does not show its clock, so that nothing can be charged to it");
    return false;
  }
  size_t found;
  if (!tiersim_replace_pointers(operations, malloc_usable_size(operations) / sizeof(void*),
                                (void*)icount_get, (void*)charged_clock, CLOCK_POINTERS, &found)) {
    say("refused: %zu pointers to QEMU's instruction clock, expected %d: charging time takes "
        "-icount "
        "and QEMU 10.0; clock=report charges none",
        found, CLOCK_POINTERS);
    return false;
  }
  time_control = qemu_plugin_request_time_control();
  if (!time_control) {
    say("refused: another plugin controls the time");
    return false;
  }
  return true;
}

static void charge(uint32_t ns) {
  const uint64_t now =
      atomic_fetch_add_explicit(&charged_ns, ns, memory_order_relaxed) + (uint64_t)ns;
  if (time_control && now - kicked_ns > KICK_INTERVAL_NS) { /* icount: one thread for all vCPUs */
    kicked_ns = now;
    qemu_plugin_update_ns(time_control, 0);
  }
}

/* ---- counts ---- */

static uint32_t node_index_of(uint64_t pfn) {
  for (uint32_t i = 0; i < shared->node_count; ++i) {
    if (pfn >= shared->nodes[i].start_pfn && pfn < shared->nodes[i].end_pfn) return i;
  }
  return TIERSIM_MAX_NODES;
}

static uint16_t node_of(uint64_t pfn) {
  const uint32_t index = node_index_of(pfn);
  return index < TIERSIM_MAX_NODES ? (uint16_t)shared->nodes[index].node : TIERSIM_NODE_UNKNOWN;
}

static void settle(struct vcpu* vcpu, struct line* line) {
  if (!(line->loads | line->stores)) return;
  const uint64_t vpn = (line->tag - 1) >> (PAGE_SHIFT - options.line_shift);
  struct tmprof_truth_page* const page =
      tiersim_pages_find(&vcpu->pages, vcpu->target, vpn, line->pfn);
  if (page) {
    if (!page->flags) {
      page->node = node_of(line->pfn);
      page->flags = TMPROF_TRUTH_PAGE_KNOWS_PFN;
      if (page->node != TIERSIM_NODE_UNKNOWN) page->flags |= TMPROF_TRUTH_PAGE_KNOWS_NODE;
    }
    page->loads += line->loads;
    page->stores += line->stores;
    page->llc_misses += line->llc_misses;
    page->dtlb_misses += line->dtlb_misses;
  } else {
    vcpu->lost_accesses += line->loads + line->stores;
  }
  line->loads = 0;
  line->stores = 0;
  line->llc_misses = 0;
  line->dtlb_misses = 0;
}

static void settle_all(struct vcpu* vcpu, bool empty) {
  for (uint64_t i = 0; i <= l1_mask; ++i) {
    settle(vcpu, &vcpu->l1[i]);
    if (empty) vcpu->l1[i].tag = 0;
  }
}

/* The kernel flushes a huge page by one address, its first (arch/x86/mm/tlb.c, flush_tlb_func(),
 * stride_shift): one that a huge page may begin at stands for all of it. */
static void flush_page(struct vcpu* vcpu, uint64_t address) {
  if (!vcpu->active) return;
  const uint64_t bytes = address % HUGE_PAGE_BYTES < PAGE_BYTES ? HUGE_PAGE_BYTES : PAGE_BYTES;
  const uint64_t start = address / PAGE_BYTES * PAGE_BYTES;
  for (uint64_t i = 0; i <= l1_mask; ++i) {
    struct line* const own = &vcpu->l1[i];
    if (!own->tag || ((own->tag - 1) << options.line_shift) - start >= bytes) continue;
    settle(vcpu, own);
    own->tag = 0;
  }
  for (uint64_t page = start; page < start + bytes; page += PAGE_BYTES)
    tiersim_cache_remove(&vcpu->dtlb, page);
}

static void flush_all(struct vcpu* vcpu) {
  if (!vcpu->active) return;
  settle_all(vcpu, true);
  tiersim_cache_flush(&vcpu->dtlb);
}

/* ---- samples ---- */

static uint64_t* countdown_of(unsigned int index) {
  return (uint64_t*)qemu_plugin_scoreboard_find(countdowns, index);
}

/* QEMU's own clock cannot be read in the middle of a block. With icount, what was charged and an
 * instruction for each ns have passed since the guest read its own; the kernel's are left out. */
static uint64_t time_ns_of(struct vcpu* vcpu) {
  if (!time_control) return vcpu->told_ns;
  const uint64_t elapsed = *countdown_of((unsigned int)(vcpu - vcpus)) - vcpu->base;
  return vcpu->told_ns + (vcpu->side->counters[TIERSIM_OPS] + elapsed - vcpu->told_instructions) +
         (atomic_load_explicit(&charged_ns, memory_order_relaxed) - vcpu->told_charged_ns);
}

static void put_sample(struct vcpu* vcpu, const struct tiersim_sample* sample) {
  struct tiersim_cpu* const side = vcpu->side;
  if (side->head - side->tail >= options.ring_samples) {
    ++side->slots[sample->slot].lost;
    return;
  }
  struct tiersim_sample* const place = &vcpu->ring[side->head % TIERSIM_RING_SAMPLES];
  *place = *sample;
  place->time_ns = time_ns_of(vcpu);
  ++side->head;
}

/* Counts one event; true when the slot's sample is due. */
static bool count_down(struct vcpu* vcpu, struct tiersim_slot* slot) {
  if (--slot->left) return false;
  slot->left = tiersim_next_interval(&vcpu->random, slot->period);
  return true;
}

static void count_event(struct vcpu* vcpu, enum tiersim_event event,
                        struct tiersim_sample* sample) {
  ++vcpu->side->counters[event];
  for (uint32_t i = 0; i < TIERSIM_SLOTS; ++i) {
    struct tiersim_slot* const slot = &vcpu->side->slots[i];
    if (!slot->period || slot->event != event || !count_down(vcpu, slot)) continue;
    sample->slot = (uint8_t)i;
    put_sample(vcpu, sample);
  }
}

/* Takes note of the instructions since the last time. Events that were due are left at 0. */
static void take_instructions(unsigned int index, struct vcpu* vcpu) {
  const uint64_t elapsed = *countdown_of(index) - vcpu->base;
  vcpu->base += elapsed;
  if (!vcpu->active) return;
  vcpu->instructions += elapsed;
  vcpu->side->counters[TIERSIM_OPS] += elapsed;
  for (uint32_t i = 0; i < TIERSIM_SLOTS; ++i) {
    struct tiersim_slot* const slot = &vcpu->side->slots[i];
    if (!slot->period || slot->event != TIERSIM_OPS) continue;
    slot->left = slot->left > elapsed ? slot->left - elapsed : 0;
  }
}

static void start_countdown(unsigned int index, struct vcpu* vcpu) {
  uint64_t nearest = DUE;
  for (uint32_t i = 0; vcpu->active && i < TIERSIM_SLOTS; ++i) {
    struct tiersim_slot* const slot = &vcpu->side->slots[i];
    if (slot->period && slot->event == TIERSIM_OPS && slot->left < nearest) nearest = slot->left;
  }
  vcpu->base = DUE - nearest;
  *countdown_of(index) = vcpu->base;
}

/* A sample falls into the block that is being entered, whose instructions are counted already. */
static void on_due(unsigned int index, void* data) {
  const struct block* const block = (const struct block*)data;
  struct vcpu* const vcpu = &vcpus[index];
  const uint64_t before = *countdown_of(index) - vcpu->base - block->count;
  for (uint32_t i = 0; i < TIERSIM_SLOTS; ++i) {
    struct tiersim_slot* const slot = &vcpu->side->slots[i];
    if (!slot->period || slot->event != TIERSIM_OPS) continue;
    if (slot->left > before + block->count) continue;
    const uint64_t at = slot->left > before ? slot->left - before - 1 : 0;
    vcpu->armed |= 1u << i;
    vcpu->chosen[i].pc = block->pc[at];
    vcpu->chosen[i].block = block->pc[0];
    vcpu->chosen[i].last_pc = 0;
    /* The rest of the block counts towards the next. */
    slot->left += tiersim_next_interval(&vcpu->random, slot->period);
  }
  take_instructions(index, vcpu);
  for (uint32_t i = 0; i < TIERSIM_SLOTS; ++i) {
    struct tiersim_slot* const slot = &vcpu->side->slots[i];
    if (!slot->left) slot->left = 1; /* a period shorter than a block */
  }
  start_countdown(index, vcpu);
}

/* True if the access is by an instruction of the block before the chosen one. Once their addresses
 * no longer ascend, the block was left and entered again: the chosen one accessed nothing. */
static bool comes_before_chosen(struct vcpu* vcpu, uint32_t slot, uint64_t pc, bool store) {
  const uint64_t last_pc = vcpu->chosen[slot].last_pc;
  const bool last_stored = vcpu->chosen[slot].last_stored;
  vcpu->chosen[slot].last_pc = pc;
  vcpu->chosen[slot].last_stored = store;
  /* A read-modify-write loads and stores at one address. */
  const bool ascends = pc > last_pc || (pc == last_pc && store && !last_stored);
  return pc >= vcpu->chosen[slot].block && pc < vcpu->chosen[slot].pc && ascends;
}

/* Call with each access while slots have chosen an instruction. A slot gets its sample from an
 * access by its instruction. If its instruction has passed without an access, it gets one without
 * an address. */
static void sample_chosen(struct vcpu* vcpu, struct tiersim_sample* sample) {
  for (uint32_t i = 0; i < TIERSIM_SLOTS; ++i) {
    if (!(vcpu->armed & 1u << i)) continue;
    const uint64_t chosen = vcpu->chosen[i].pc;
    const bool store = sample->flags & TIERSIM_SAMPLE_STORE;
    if (comes_before_chosen(vcpu, i, sample->pc, store)) continue;
    vcpu->armed &= ~(1u << i);
    struct tiersim_sample taken = *sample;
    taken.slot = (uint8_t)i;
    if (sample->pc != chosen) {
      taken.pc = chosen;
      taken.address = 0;
      taken.physical_address = 0;
      taken.latency_ns = 0;
      taken.node = TIERSIM_NODE_UNKNOWN;
      taken.level = TIERSIM_NO_ACCESS;
      taken.flags = 0;
    }
    put_sample(vcpu, &taken);
  }
}

/* ---- accesses ---- */

/* True for a hit. */
static bool look_up_llc(struct vcpu* vcpu, uint64_t address) {
  if (vcpu_count > 1) pthread_spin_lock(&llc_lock);
  const bool hit = tiersim_cache_access(&llc, address);
  if (options.prefetch_lines) {
    uint64_t line = 0;
    int64_t step = 0;
    for (uint32_t left = tiersim_prefetch(&vcpu->prefetcher, address, options.line_shift,
                                          options.prefetch_lines, &line, &step);
         left; --left, line += (uint64_t)step)
      tiersim_cache_access(&llc, line);
  }
  if (vcpu_count > 1) pthread_spin_unlock(&llc_lock);
  return hit;
}

static __attribute__((noinline)) void access_slowly(unsigned int index, qemu_plugin_meminfo_t info,
                                                    uint64_t address, uint64_t pc, bool store) {
  struct vcpu* const vcpu = &vcpus[index];
  struct qemu_plugin_hwaddr* const place = qemu_plugin_get_hwaddr(info, address);
  if (!place) {
    ++vcpu->lost_accesses;
    return;
  }
  if (qemu_plugin_hwaddr_is_io(place)) return;
  const uint64_t physical = qemu_plugin_hwaddr_phys_addr(place);
  const uint64_t tag = (address >> options.line_shift) + 1;
  struct line* const line = &vcpu->l1[(address >> options.line_shift) & l1_mask];
  struct tiersim_sample sample = {
      .pc = pc,
      .address = address,
      .physical_address = physical,
      .pid = vcpu->pid,
      .node = TIERSIM_NODE_UNKNOWN,
      .level = TIERSIM_L1,
      .flags = store ? TIERSIM_SAMPLE_STORE : 0,
  };
  bool llc_missed = false;
  bool dtlb_missed = false;
  if (line->tag != tag) {
    settle(vcpu, line);
    line->tag = tag;
    line->pfn = physical >> PAGE_SHIFT;
    dtlb_missed = !tiersim_cache_access(&vcpu->dtlb, address);
    llc_missed = !look_up_llc(vcpu, physical);
    sample.level = llc_missed ? TIERSIM_MEMORY : TIERSIM_LLC;
    if (llc_missed) {
      const uint32_t node = node_index_of(line->pfn);
      ++line->llc_misses;
      sample.latency_ns = options.latency_ns[index][node < MAX_LATENCIES ? node : 0];
    }
    if (dtlb_missed) {
      ++line->dtlb_misses;
      sample.flags |= TIERSIM_SAMPLE_DTLB_MISS;
      sample.latency_ns += options.walk_ns;
    }
  }
  if (store)
    ++line->stores;
  else
    ++line->loads;
  if (sample.latency_ns) charge(sample.latency_ns);
  if (llc_missed || vcpu->armed) sample.node = node_of(line->pfn);
  if (llc_missed) {
    count_event(vcpu, TIERSIM_LLC_MISSES, &sample);
    if (!store) count_event(vcpu, TIERSIM_LLC_LOAD_MISSES, &sample);
  }
  if (dtlb_missed) {
    count_event(vcpu, TIERSIM_DTLB_MISSES, &sample);
    if (!store) count_event(vcpu, TIERSIM_DTLB_LOAD_MISSES, &sample);
  }
  if (vcpu->armed) sample_chosen(vcpu, &sample);
}

static inline void see_access(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address,
                              uint64_t pc, bool store) {
  struct vcpu* const vcpu = &vcpus[index];
  if (!vcpu->active) return;
  struct line* const line = &vcpu->l1[(address >> options.line_shift) & l1_mask];
  if (__builtin_expect(line->tag == (address >> options.line_shift) + 1 && !vcpu->armed, 1)) {
    if (store)
      ++line->stores;
    else
      ++line->loads;
    return;
  }
  access_slowly(index, info, address, pc, store);
}

static void on_load(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void* pc) {
  see_access(index, info, address, (uint64_t)pc, false);
}

static void on_store(unsigned int index, qemu_plugin_meminfo_t info, uint64_t address, void* pc) {
  see_access(index, info, address, (uint64_t)pc, true);
}

/* ---- truth ---- */

static void write_bytes(const void* bytes, size_t size) {
  /* After an error nothing more, so that what a reader finds is whole up to a cut. */
  if (!size || shared->write_error) return;
  if (fwrite(bytes, size, 1, truth.file) != 1) shared->write_error = errno ? (uint32_t)errno : EIO;
}

/* Under truth_lock. */
static void fold(struct vcpu* vcpu) {
  settle_all(vcpu, false);
  const size_t count = truth.page_count + vcpu->pages.count;
  if (count > truth.page_capacity) {
    struct tmprof_truth_page* const pages = realloc(truth.pages, 2 * count * sizeof(*pages));
    if (pages) {
      truth.pages = pages;
      truth.page_capacity = 2 * count;
    }
  }
  if (count <= truth.page_capacity) {
    if (vcpu->pages.count)
      memcpy(truth.pages + truth.page_count, vcpu->pages.entries,
             vcpu->pages.count * sizeof(*truth.pages));
    truth.page_count = count;
  } else {
    for (uint32_t i = 0; i < vcpu->pages.count; ++i)
      truth.lost_accesses += vcpu->pages.entries[i].loads + vcpu->pages.entries[i].stores;
  }
  tiersim_pages_clear(&vcpu->pages);
  truth.instructions += vcpu->instructions;
  truth.lost_accesses += vcpu->lost_accesses;
  vcpu->instructions = 0;
  vcpu->lost_accesses = 0;
}

static void write_targets(void) {
  for (uint32_t i = 0; i < shared->space_count; ++i) {
    const struct tiersim_space* const space = &shared->spaces[i];
    const uint32_t state = space->state;
    /* One that was left for another is described by that one's record. */
    if (state == truth.told[i] || state == TIERSIM_SPACE_LEFT) continue;
    truth.told[i] = state;
    struct tmprof_truth_target record = {
        .record = {TMPROF_TRUTH_TARGET, sizeof(record)},
        .target = space->target,
        .flags = TMPROF_TRUTH_TARGET_KNOWS_PID | TMPROF_TRUTH_TARGET_KNOWS_START,
        .pid = space->pid,
        .start_time_ticks = space->start_time_ticks,
    };
    if (state == TIERSIM_SPACE_EXITED || state == TIERSIM_SPACE_STOPPED)
      record.flags |= TMPROF_TRUTH_TARGET_EXITED;
    memcpy(record.name, space->name, sizeof(record.name));
    write_bytes(&record, sizeof(record));
  }
}

/* Under truth_lock. */
static void write_epoch(void) {
  write_targets();
  struct tmprof_truth_epoch_end end = {
      .record = {TMPROF_TRUTH_EPOCH_END, sizeof(end)},
      .index = truth.sums.epochs,
      .start_ns = shared->epoch_start_ns,
      .end_ns = shared->epoch_end_ns,
      .instructions = truth.instructions,
      .lost_accesses = truth.lost_accesses,
  };
  for (size_t i = 0; i < truth.page_count; ++i) {
    end.loads += truth.pages[i].loads;
    end.stores += truth.pages[i].stores;
    end.llc_misses += truth.pages[i].llc_misses;
    end.dtlb_misses += truth.pages[i].dtlb_misses;
  }
  for (size_t done = 0; done < truth.page_count;) {
    const size_t left = truth.page_count - done;
    const size_t count = left < TMPROF_TRUTH_MOST_PAGES ? left : TMPROF_TRUTH_MOST_PAGES;
    const struct tmprof_truth_pages record = {
        .record = {TMPROF_TRUTH_PAGES, (uint32_t)(sizeof(record) + count * sizeof(*truth.pages))},
        .count = (uint32_t)count,
        .entry_bytes = sizeof(*truth.pages),
    };
    write_bytes(&record, sizeof(record));
    write_bytes(truth.pages + done, count * sizeof(*truth.pages));
    done += count;
  }
  write_bytes(&end, sizeof(end));
  ++truth.sums.epochs;
  truth.sums.instructions += end.instructions;
  truth.sums.loads += end.loads;
  truth.sums.stores += end.stores;
  truth.sums.llc_misses += end.llc_misses;
  truth.sums.dtlb_misses += end.dtlb_misses;
  truth.sums.lost_accesses += end.lost_accesses;
  truth.page_count = 0;
  truth.instructions = 0;
  truth.lost_accesses = 0;
  if (shared->finish) {
    truth.sums.record = (struct tmprof_truth_record){TMPROF_TRUTH_FINISH, sizeof(truth.sums)};
    write_bytes(&truth.sums, sizeof(truth.sums));
  }
  if (fflush(truth.file) && !shared->write_error) shared->write_error = (uint32_t)errno;
  shared->epochs_written = truth.sums.epochs;
}

/* ---- the guest's kernel ---- */

static uint64_t read_register(struct qemu_plugin_register* handle) {
  static __thread qemu_plugin_gbytearray* bytes;
  uint64_t value = 0;
  if (!bytes) bytes = byte_array_new();
  byte_array_set_size(bytes, 0);
  const int size = qemu_plugin_read_register(handle, bytes);
  if (size > 0) memcpy(&value, bytes->data, size > 8 ? 8 : (size_t)size);
  return value;
}

static const struct tiersim_space* space_at(uint64_t cr3) {
  for (uint32_t i = shared->space_count; i-- > 0;) {
    const struct tiersim_space* const space = &shared->spaces[i];
    if (space->cr3 == cr3 && space->state == TIERSIM_SPACE_LIVE) return space;
  }
  return NULL;
}

/* Instructions are to be taken note of before, and the countdown started after. `flushes`: whatever
 * stays loaded. */
static void enter_space(struct vcpu* vcpu, uint64_t cr3, bool flushes) {
  const struct tiersim_space* const space = space_at(cr3 & CR3_FRAME);
  const uint32_t target = space ? space->target : 0;
  const bool leaves = !space || vcpu->target != target;
  if (flushes || leaves) flush_all(vcpu);
  vcpu->active = space;
  vcpu->target = target;
  vcpu->pid = space ? space->pid : 0;
  /* An instruction that was taken and made no access any more, as IBS drops one. */
  if (leaves) vcpu->armed = 0;
}

static void do_as_told(struct vcpu* vcpu) {
  const uint64_t charged = atomic_load_explicit(&charged_ns, memory_order_relaxed);
  if (vcpu->side->now_ns != vcpu->told_ns) {
    vcpu->told_ns = vcpu->side->now_ns;
    vcpu->told_instructions = vcpu->side->counters[TIERSIM_OPS];
    vcpu->told_charged_ns = charged;
  }
  for (uint32_t i = 0; i < TIERSIM_SLOTS; ++i) {
    struct tiersim_slot* const slot = &vcpu->side->slots[i];
    if (slot->generation == vcpu->generation[i]) continue;
    vcpu->generation[i] = slot->generation;
    vcpu->armed &= ~(1u << i);
    slot->left = slot->first;
  }
  if (shared->fold != vcpu->folded) {
    vcpu->folded = shared->fold;
    pthread_mutex_lock(&truth_lock);
    fold(vcpu);
    pthread_mutex_unlock(&truth_lock);
  }
  if (shared->close != truth.closed) {
    pthread_mutex_lock(&truth_lock);
    if (shared->close != truth.closed) {
      truth.closed = shared->close;
      write_epoch();
    }
    pthread_mutex_unlock(&truth_lock);
  }
  shared->charged_ns = charged;
}

static void on_doorbell(unsigned int index, void* unused) {
  (void)unused;
  struct vcpu* const vcpu = &vcpus[index];
  take_instructions(index, vcpu);
  enter_space(vcpu, read_register(vcpu->cr3_register), false);
  do_as_told(vcpu);
  start_countdown(index, vcpu);
}

/* Before `mov %reg,%cr3` is executed. */
static void on_load_cr3(unsigned int index, void* reg) {
  struct vcpu* const vcpu = &vcpus[index];
  take_instructions(index, vcpu);
  enter_space(vcpu, read_register(vcpu->general[(uintptr_t)reg]), true);
  start_countdown(index, vcpu);
}

static void on_flush_page(unsigned int index, void* reg) {
  flush_page(&vcpus[index], read_register(vcpus[index].general[(uintptr_t)reg]));
}

static void on_flush_all(unsigned int index, void* unused) {
  (void)unused;
  flush_all(&vcpus[index]);
}

/* ---- QEMU ---- */

static void on_kernel_block(struct qemu_plugin_tb* tb) {
  static const qemu_plugin_vcpu_udata_cb_t callbacks[] = {
      [TIERSIM_CODE_DOORBELL] = on_doorbell,
      [TIERSIM_CODE_LOAD_CR3] = on_load_cr3,
      [TIERSIM_CODE_FLUSH_PAGE] = on_flush_page,
      [TIERSIM_CODE_FLUSH_ALL] = on_flush_all,
  };
  const size_t count = qemu_plugin_tb_n_insns(tb);
  for (size_t i = 0; i < count; ++i) {
    struct qemu_plugin_insn* const insn = qemu_plugin_tb_get_insn(tb, i);
    uint8_t bytes[16];
    const size_t size = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));
    const struct tiersim_kernel_insn decoded = tiersim_decode_kernel(bytes, size);
    if (decoded.code == TIERSIM_CODE_OTHER) continue;
    qemu_plugin_register_vcpu_insn_exec_cb(insn, callbacks[decoded.code], QEMU_PLUGIN_CB_R_REGS,
                                           (void*)(uintptr_t)decoded.reg);
  }
}

static void on_user_block(struct qemu_plugin_tb* tb) {
  const size_t count = qemu_plugin_tb_n_insns(tb);
  struct block* const block = malloc(sizeof(*block) + count * sizeof(block->pc[0]));
  if (!block) abort();
  block->count = (uint32_t)count;
  const qemu_plugin_u64 countdown = {countdowns, 0};
  qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, countdown,
                                                    count);
  qemu_plugin_register_vcpu_tb_exec_cond_cb(tb, on_due, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_COND_GE,
                                            countdown, DUE, block);
  for (size_t i = 0; i < count; ++i) {
    struct qemu_plugin_insn* const insn = qemu_plugin_tb_get_insn(tb, i);
    block->pc[i] = qemu_plugin_insn_vaddr(insn);
    void* const pc = (void*)block->pc[i];
    qemu_plugin_register_vcpu_mem_cb(insn, on_load, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R, pc);
    qemu_plugin_register_vcpu_mem_cb(insn, on_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, pc);
  }
  pthread_mutex_lock(&blocks_lock);
  block->next = blocks;
  blocks = block;
  pthread_mutex_unlock(&blocks_lock);
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb* tb) {
  (void)id;
  const bool kernel = (int64_t)qemu_plugin_tb_vaddr(tb) < 0;
  if (kernel)
    on_kernel_block(tb);
  else
    on_user_block(tb);
}

static void on_flush_of_blocks(qemu_plugin_id_t id) {
  (void)id;
  pthread_mutex_lock(&blocks_lock);
  while (blocks) {
    struct block* const block = blocks;
    blocks = block->next;
    free(block);
  }
  pthread_mutex_unlock(&blocks_lock);
}

static void on_vcpu_start(qemu_plugin_id_t id, unsigned int index) {
  (void)id;
  static const char* const names[REGISTERS] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp",
                                               "rsi", "rdi", "r8",  "r9",  "r10", "r11",
                                               "r12", "r13", "r14", "r15"};
  struct vcpu* const vcpu = &vcpus[index];
  qemu_plugin_garray* const registers = qemu_plugin_get_registers();
  const qemu_plugin_reg_descriptor* const descriptors = registers->data;
  unsigned int found = 0;
  for (unsigned int i = 0; i < registers->len; ++i) {
    if (!strcmp(descriptors[i].name, "cr3")) {
      vcpu->cr3_register = descriptors[i].handle;
      ++found;
    }
    for (unsigned int j = 0; j < REGISTERS; ++j) {
      if (strcmp(descriptors[i].name, names[j])) continue;
      vcpu->general[j] = descriptors[i].handle;
      ++found;
    }
  }
  array_free(registers, 1);
  if (found != REGISTERS + 1) {
    say("refused: this QEMU shows %u of the %d registers needed", found, REGISTERS + 1);
    exit(1);
  }
  /* QEMU has its accelerator by now. */
  if (!index && options.charge && !hook_clock()) exit(1);
}

/* ---- options ---- */

static bool parse_number(const char* text, uint64_t low, uint64_t high, uint64_t* value) {
  char* end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return !errno && end != text && !*end && *value >= low && *value <= high;
}

/* "80:250": for each node; with '/' between them, for each vCPU. The last given stands for the
 * rest. */
static bool parse_latencies(const char* text) {
  const char* at = text;
  unsigned int cpu = 0;
  unsigned int node = 0;
  for (;;) {
    char* end;
    const unsigned long value = strtoul(at, &end, 10);
    if (end == at || value > 1000000 || cpu >= TIERSIM_MAX_CPUS || node >= MAX_LATENCIES)
      return false;
    for (unsigned int c = cpu; c < TIERSIM_MAX_CPUS; ++c) {
      for (unsigned int n = node; n < MAX_LATENCIES; ++n)
        options.latency_ns[c][n] = (uint32_t)value;
    }
    if (!*end) return true;
    if (*end == ':') {
      ++node;
    } else if (*end == '/') {
      ++cpu;
      node = 0;
    } else {
      return false;
    }
    at = end + 1;
  }
}

static bool parse_policy(const char* text, enum tiersim_policy* policy) {
  for (size_t i = 0; i < TIERSIM_POLICIES; ++i) {
    if (strcmp(text, tiersim_policy_names[i].option)) continue;
    *policy = (enum tiersim_policy)i;
    return true;
  }
  return false;
}

static bool parse_option(char* argument) {
  char* const equals = strchr(argument, '=');
  if (!equals) return false;
  *equals = 0;
  const char* const name = argument;
  const char* const text = equals + 1;
  uint64_t number = 0;
  bool good = false;
  if (!strcmp(name, "shared")) {
    options.shared = text;
    good = true;
  } else if (!strcmp(name, "truth")) {
    options.truth = text;
    good = true;
  } else if (!strcmp(name, "thp")) {
    options.thp = text;
    good = true;
  } else if (!strcmp(name, "llc_kib")) {
    good = parse_number(text, 1, 1 << 20, &number);
    options.llc_bytes = number << 10;
  } else if (!strcmp(name, "llc_ways")) {
    good = parse_number(text, 1, TIERSIM_MAX_WAYS, &number);
    options.llc_ways = (uint32_t)number;
  } else if (!strcmp(name, "llc_policy")) {
    good = parse_policy(text, &options.llc_policy);
  } else if (!strcmp(name, "dtlb_entries")) {
    good = parse_number(text, 1, 1 << 20, &number);
    options.dtlb_entries = (uint32_t)number;
  } else if (!strcmp(name, "dtlb_ways")) {
    good = parse_number(text, 1, TIERSIM_MAX_WAYS, &number);
    options.dtlb_ways = (uint32_t)number;
  } else if (!strcmp(name, "dtlb_policy")) {
    good = parse_policy(text, &options.dtlb_policy);
  } else if (!strcmp(name, "l1_kib")) {
    good = parse_number(text, 1, 1 << 10, &number) && tiersim_log2(number) >= 0;
    options.l1_bytes = number << 10;
  } else if (!strcmp(name, "line_bytes")) {
    good = parse_number(text, 16, 1 << 10, &number) && tiersim_log2(number) >= 0;
    options.line_shift = good ? (uint32_t)tiersim_log2(number) : 0;
  } else if (!strcmp(name, "prefetch_lines")) {
    good = parse_number(text, 0, 64, &number);
    options.prefetch_lines = (uint32_t)number;
  } else if (!strcmp(name, "ring_samples")) {
    good = parse_number(text, 1, TIERSIM_RING_SAMPLES, &number);
    options.ring_samples = (uint32_t)number;
  } else if (!strcmp(name, "walk_ns")) {
    good = parse_number(text, 0, 1000000, &number);
    options.walk_ns = (uint32_t)number;
  } else if (!strcmp(name, "latencies_ns")) {
    good = parse_latencies(text);
  } else if (!strcmp(name, "clock")) {
    options.charge = !strcmp(text, "charge");
    good = options.charge || !strcmp(text, "report");
  }
  *equals = '=';
  return good;
}

static bool map_shared(void) {
  const int file = open(options.shared, O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  struct stat status;
  void* memory = MAP_FAILED;
  if (!fstat(file, &status) && status.st_size >= (off_t)sizeof(*shared))
    memory = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return false;
  shared = memory;
  memset(shared, 0, sizeof(*shared));
  shared->version = TIERSIM_SHARED_VERSION;
  shared->magic = TIERSIM_SHARED_MAGIC;
  return true;
}

static bool open_truth(void) {
  truth.file = fopen(options.truth, "wbe");
  if (!truth.file) return false;
  struct tmprof_truth_header header = {
      .magic = {'T', 'M', 'P', 'T', 'R', 'U', 'T', 'H'},
      .version = TMPROF_TRUTH_VERSION,
      .header_bytes = sizeof(header),
      .page_bytes = PAGE_BYTES,
      .maker = TMPROF_TRUTH_MAKER_TIERSIM,
      .clock = TMPROF_TRUTH_CLOCK_GUEST,
      .flags = TMPROF_TRUTH_COUNTS_INSTRUCTIONS,
  };
  char shape[64];
  char text[128];
  tiersim_cache_describe(&llc, shape, sizeof(shape));
  snprintf(text, sizeof(text), "%s; L1 %u KiB; %u ahead", shape,
           (unsigned int)(options.l1_bytes >> 10), options.prefetch_lines);
  memcpy(header.llc_model, text, strnlen(text, sizeof(header.llc_model) - 1));
  tiersim_cache_describe(&vcpus[0].dtlb, shape, sizeof(shape));
  snprintf(text, sizeof(text), "%s; THP %s; walk %u ns", shape, options.thp, options.walk_ns);
  memcpy(header.dtlb_model, text, strnlen(text, sizeof(header.dtlb_model) - 1));
  write_bytes(&header, sizeof(header));
  fflush(truth.file);
  return !shared->write_error;
}

static const char* make_models(void) {
  const char* error =
      tiersim_cache_init(&llc, options.llc_bytes >> options.line_shift, options.llc_ways,
                         1u << options.line_shift, options.llc_policy);
  if (error) return error;
  pthread_spin_init(&llc_lock, PTHREAD_PROCESS_PRIVATE);
  l1_mask = (options.l1_bytes >> options.line_shift) - 1;
  for (unsigned int i = 0; i < vcpu_count; ++i) {
    struct vcpu* const vcpu = &vcpus[i];
    error = tiersim_cache_init(&vcpu->dtlb, options.dtlb_entries, options.dtlb_ways, PAGE_BYTES,
                               options.dtlb_policy);
    if (error) return error;
    vcpu->l1 = calloc(l1_mask + 1, sizeof(*vcpu->l1));
    if (!vcpu->l1) return "no memory for the L1";
    vcpu->side = &shared->cpu[i];
    vcpu->ring = shared->ring[i];
    vcpu->random.state = i + 1;
  }
  return NULL;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                           char** argv) {
  parse_latencies("80:250"); /* DRAM, and a CXL expander: testbed/topologies/dram-cxl.json */
  for (int i = 0; i < argc; ++i) {
    if (parse_option(argv[i])) continue;
    say("refused: option '%s': testbed/README.md lists them", argv[i]);
    return 1;
  }
  if (!info->system_emulation || strcmp(info->target_name, "x86_64")) {
    say("refused: it is for a whole x86_64 machine");
    return 1;
  }
  vcpu_count = (unsigned int)info->system.max_vcpus;
  if (vcpu_count > TIERSIM_MAX_CPUS) {
    say("refused: %u CPUs, at most %d", vcpu_count, TIERSIM_MAX_CPUS);
    return 1;
  }
  if (!options.shared || !options.truth) {
    say("refused: options 'shared' and 'truth' must name files");
    return 1;
  }
  byte_array_new = (qemu_plugin_gbytearray * (*)(void)) dlsym(RTLD_DEFAULT, "g_byte_array_new");
  byte_array_set_size = (qemu_plugin_gbytearray * (*)(qemu_plugin_gbytearray*, unsigned int))
      dlsym(RTLD_DEFAULT, "g_byte_array_set_size");
  array_free = (char* (*)(qemu_plugin_garray*, int))dlsym(RTLD_DEFAULT, "g_array_free");
  if (!byte_array_new || !byte_array_set_size || !array_free) {
    say("refused: this QEMU does not show g_byte_array_new() and its like");
    return 1;
  }
  if (!map_shared()) {
    say("refused: mapping %s: %s", options.shared, strerror(errno));
    return 1;
  }
  const char* const error = make_models();
  if (error) {
    say("refused: %s", error);
    return 1;
  }
  if (!open_truth()) {
    say("refused: writing %s: %s", options.truth, strerror(errno));
    return 1;
  }
  countdowns = qemu_plugin_scoreboard_new(sizeof(uint64_t));
  qemu_plugin_register_vcpu_init_cb(id, on_vcpu_start);
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
  qemu_plugin_register_flush_cb(id, on_flush_of_blocks);
  return 0;
}
