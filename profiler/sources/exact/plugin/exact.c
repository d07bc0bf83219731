// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The exact tracer: a plugin for user-mode QEMU that counts every load and store of one program by
 * page and epoch, and writes them as a truth stream (format/truth_stream.h).
 *
 * Counting takes no lock. Each vCPU (a thread of the program) has an arena of counters that only it
 * writes and that only grow. Whoever ends an epoch, under `lock`, sends what each counter has
 * gained since it was sent last. So a count is never lost or sent twice, whatever runs meanwhile;
 * the border between two epochs of another thread is the moment at which its counter is read. An
 * arena outlives its thread and serves a later one.
 *
 * By wall time a thread of our own ends the epochs, so that a program that sleeps has them, too. By
 * instructions it is the vCPU that executes the last one of all processes, before its next block:
 * the epochs of a program of one thread are the same in each run. It wakes a thread of each other
 * process, which then ends its epoch, too.
 *
 * fork(2): the child writes a stream of its own. exec(2): QEMU would let the kernel run the new
 * program, out of our sight; we run it under QEMU ourselves, unless that cannot run it. Where
 * streams are files, FILE's process writes FILE.PID after either, PID being its new pid or its own.
 *
 * The last-level cache and the count of instructions are in memory that all processes share
 * (format/exact_shared.h). Without a recorder who made it, only forked processes share it.
 *
 * LD_PRELOAD and the like are the program's: they go past QEMU's own loader by its option -E.
 *
 * The program shares our file descriptors and may close them, or put another file in their place:
 * each is told by its inode before it is written to, and a lost socket is connected anew.
 */
#include "profiler/sources/exact/plugin/format/exact_shared.h"
#include "profiler/sources/exact/plugin/format/guest_program.h"
#include "profiler/sources/exact/plugin/format/truth_stream.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "profiler/sources/exact/plugin/cache_model.h"
#include "profiler/sources/exact/plugin/miss_overlap.h"
#include "profiler/sources/exact/plugin/nontemporal.h"
#include "profiler/sources/exact/plugin/qemu_plugin_abi.h"
#include "profiler/sources/exact/plugin/set_lock.h"
#include "profiler/sources/exact/plugin/stream_prefetcher.h"

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_API;

#define PAGE_SHIFT 12
#define LEAF_SHIFT 9 /* pages of a leaf: one page table's, 2 MiB */
#define LEAF_PAGES (1u << LEAF_SHIFT)
#define MAX_VCPUS 65536u
#define NS_PER_S 1000000000ull

/* Leaves that are found without the index: pages all over 1 GiB. */
#define RECENT_LEAVES 512u
/* Lines whose counters are found at once where an LLC is modelled. 512 of 64 bytes are the L1 cache
 * of 32 KiB that the LLC stands behind. */
#define FILTER_ENTRIES 512u
#define LINE_SHIFT 6
/* Lines that non-temporal stores are being gathered for. */
#define COMBINING_LINES 8u
#define L2_WAYS 16u

/* Counters take at most this much memory (a program that touches one page in each 2 MiB fills half
 * of it); accesses to further pages are counted as lost. */
#define MOST_MEMORY_BYTES (4ull << 30)
/* How long the last epoch may take to be read before the program's end goes on. */
#define FAREWELL_SECONDS 60

struct counts {
  uint64_t loads, stores, llc_misses;
};

/* Counts of misses. Used only if stalls or a prefetcher are modelled. */
struct waits {
  uint64_t hidden_misses, stall_ns;
};

/* Zeroed by the kernel page by page, as it is touched. */
struct leaf {
  struct counts now[LEAF_PAGES];  /* the vCPU's */
  struct counts sent[LEAF_PAGES]; /* under `lock` */
  uint64_t first_vpn;
  /* Last: they are not mapped unless they are modelled (leaf_bytes()). */
  struct waits now_waits[LEAF_PAGES];  /* the vCPU's */
  struct waits sent_waits[LEAF_PAGES]; /* under `lock` */
};

/* Set in a tag if a forked process shares the page with its parent until it writes to it. */
#define INHERITED (1ull << 63)

struct filter_entry {
  uint64_t tag; /* line + 1, and INHERITED; 0 empty */
  struct counts* counts;
};

/* Lines that a stream prefetcher has asked for. */
struct streams {
  struct tiersim_prefetcher prefetcher;
  uint64_t asked[TIERSIM_STREAMS]; /* one per stream, a bit for each line of its page */
};

/* A vCPU needs this of the model besides its filter. */
struct core {
  struct tiersim_cache l2;
  struct streams streams;
  struct tiersim_misses misses;
  uint64_t combining[COMBINING_LINES]; /* line + 1; 0 empty */
  uint32_t next_combining;
  bool combines; /* `combining` has or had a line */
};

struct leaf_place {
  uint64_t number;   /* first_vpn >> LEAF_SHIFT */
  struct leaf* leaf; /* NULL: empty */
};

struct arena {
  struct leaf_place recent[RECENT_LEAVES]; /* index: the low bits of the number */
  struct filter_entry filter[FILTER_ENTRIES];
  uint64_t instructions;       /* executed: the vCPU's */
  uint64_t instructions_check; /* when to look at the epoch again */
  uint64_t instructions_seen;  /* under `lock`: those added to `instructions` */
  uint64_t lost;               /* the vCPU's */
  uint64_t lost_sent;          /* under `lock` */
  bool remaps;                 /* its system call may change which memory is shared */
  struct core* core;           /* NULL without an LLC */
  /* Open addressing, of the vCPU alone. The list beside it is read by others up to leaf_count. */
  struct leaf_place* index;
  size_t index_size; /* a power of two */
  struct leaf** leaves;
  size_t leaves_size;
  size_t leaf_count; /* published with release */
  struct arena* next_arena;
  struct arena* next_free;
};

static struct arena* arena_of_vcpu[MAX_VCPUS];
/* The arena of this thread; NULL until it first waits for memory. */
static __thread struct arena* arena_of_thread;

/* A range of pages that other processes may have, too, and the first one's address in the cache. */
struct shared_range {
  uint64_t start, end; /* addresses */
  uint64_t physical;
};

/* A page that a forked process, or one that it descends from, has written to since the fork. */
struct own_page {
  uint64_t tag; /* vpn + 1; 0 empty */
  uint64_t key; /* key of the process that wrote to it */
};

static struct {
  pthread_mutex_t lock;
  struct arena* arenas; /* all */
  struct arena* free_arenas;

  /* Settings. */
  char options[2 * PATH_MAX]; /* those given, without the file, for the next exec(2) */
  char plugin[PATH_MAX];
  char qemu[PATH_MAX];
  char socket[sizeof(((struct sockaddr_un*)NULL)->sun_path)];
  char file[PATH_MAX]; /* the one that is or was written to */
  uint64_t epoch_ns;
  uint64_t origin_ns; /* epoch i of any process starts at origin_ns + i * epoch_ns */
  uint64_t epoch_instructions;
  const uintptr_t* guest_base;

  struct tiersim_cache llc; /* in the shared memory */
  bool has_llc;
  uint64_t l2_bytes;       /* 0: none */
  uint64_t prefetch_lines; /* 0: no prefetcher */
  uint64_t stall_ns;       /* time of a miss; 0: not modelled */
  uint64_t shared_id;      /* number of the segment, + 1; 0: it is only forked processes' */
  struct tmprof_exact_shared* shared; /* NULL: not needed */
  uint32_t threads;                   /* number of our threads */
  bool threads_told;                  /* `shared` counts them */

  /* The place of a page in the cache: an address space's pages differ from another one's by a key.
   * It is 0 for the first program, so that its lines lie where their addresses say. */
  uint64_t key;      /* key of pages that we have written to */
  uint64_t base_key; /* key of all others: the program's when it was executed */
  /* The rest is for memory that is not like that. */
  bool has_exceptions;
  pthread_spinlock_t exceptions_lock;
  struct shared_range* ranges; /* ascending */
  size_t range_count;
  struct own_page* own_pages; /* open addressing, at most half full */
  size_t own_pages_size;      /* a power of two, or 0 */
  size_t own_page_count;

  uint64_t memory_used; /* atomic */
  bool stopped;         /* atomic: nobody reads us any more, or we are not followed */
  bool ended;           /* under `lock`: the last epoch is sent */
  bool has_timer;       /* under `lock`: a thread of ours ends epochs */

  /* The stream, under `lock`. */
  int fd;
  int child_fd; /* during fork(2): the child's socket; -1 */
  dev_t fd_dev;
  ino_t fd_ino;
  char* buffer;
  size_t buffer_bytes;
  size_t buffer_size;
  uint64_t epoch; /* index of the open one */
  uint64_t epoch_start_ns;
  uint64_t instructions; /* executed by us in all */
  uint64_t epoch_first_instruction;
  struct tmprof_truth_finish totals;
} tracer = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1, .child_fd = -1};

static void complain(const char* format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  const int length = vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (length > 0) {
    const struct iovec parts[] = {
        {(void*)"exact tracer: ", 14},
        {text, (size_t)length < sizeof(text) ? (size_t)length : sizeof(text) - 1},
        {(void*)"\n", 1}};
    if (writev(STDERR_FILENO, parts, 3) < 0) return; /* nobody to tell */
  }
}

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool models_waits(void) { return tracer.prefetch_lines || tracer.stall_ns; }

/* Bytes of a leaf that are mapped. */
static size_t leaf_bytes(void) {
  return models_waits() ? sizeof(struct leaf) : offsetof(struct leaf, now_waits);
}

static bool stopped(void) { return __atomic_load_n(&tracer.stopped, __ATOMIC_RELAXED); }

/* ---- The stream ---- */

static void stop(const char* why) {
  if (why && !stopped()) complain("process %d is no longer traced: %s", (int)getpid(), why);
  __atomic_store_n(&tracer.stopped, true, __ATOMIC_RELAXED);
}

/* Zeroed room for `bytes` more; NULL where there is no memory. */
static void* reserve(size_t bytes) {
  if (tracer.buffer_bytes + bytes > tracer.buffer_size) {
    const size_t size = (tracer.buffer_bytes + bytes) * 2;
    char* const grown = realloc(tracer.buffer, size);
    if (!grown) return NULL;
    tracer.buffer = grown;
    tracer.buffer_size = size;
  }
  void* const room = tracer.buffer + tracer.buffer_bytes;
  memset(room, 0, bytes);
  tracer.buffer_bytes += bytes;
  return room;
}

static void* add_record(uint32_t type, size_t struct_bytes, const void* text, size_t text_bytes) {
  const uint32_t bytes = tmprof_truth_padded((uint32_t)(struct_bytes + text_bytes));
  char* const room = reserve(bytes);
  if (!room) return NULL;
  const struct tmprof_truth_record record = {.type = type, .bytes = bytes};
  memcpy(room, &record, sizeof(record));
  if (text_bytes) memcpy(room + struct_bytes, text, text_bytes);
  return room;
}

static size_t read_proc(const char* path, char* text, size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? 0 : read(fd, text, size - 1);
  if (fd >= 0) close(fd);
  text[got > 0 ? got : 0] = '\0';
  return got > 0 ? (size_t)got : 0;
}

static void add_header(void) {
  struct tmprof_truth_header* const header = reserve(sizeof(*header));
  if (!header) return;
  memcpy(header->magic, TMPROF_TRUTH_MAGIC, sizeof(header->magic));
  header->version = TMPROF_TRUTH_VERSION;
  header->header_bytes = sizeof(*header);
  header->page_bytes = 1u << PAGE_SHIFT;
  header->maker = TMPROF_TRUTH_MAKER_EXACT;
  header->clock = TMPROF_TRUTH_CLOCK_HOST;
  header->flags = tracer.epoch_instructions ? TMPROF_TRUTH_COUNTS_INSTRUCTIONS : 0;
  if (tracer.has_llc) {
    char model[48];
    tiersim_cache_describe(&tracer.llc, model, sizeof(model));
    snprintf(header->llc_model, sizeof(header->llc_model), "%s; L1 %u x %u B", model,
             FILTER_ENTRIES, 1u << LINE_SHIFT);
    if (tracer.l2_bytes)
      snprintf(header->l2_model, sizeof(header->l2_model), "%" PRIu64 " x %u B, %u ways, LRU",
               tracer.l2_bytes >> LINE_SHIFT, 1u << LINE_SHIFT, L2_WAYS);
    if (tracer.prefetch_lines)
      snprintf(header->prefetcher_model, sizeof(header->prefetcher_model),
               "%u streams, %" PRIu64 " lines ahead", TIERSIM_STREAMS, tracer.prefetch_lines);
    if (tracer.stall_ns)
      snprintf(header->stall_model, sizeof(header->stall_model),
               "%" PRIu64 " ns, %u loads in %u instructions overlap", tracer.stall_ns,
               TIERSIM_OVERLAP_LINES, TIERSIM_OVERLAP_INSTRUCTIONS);
  }
}

/* Field 22 of /proc/PID/stat; the name before it may hold anything but its own last ')'. */
static uint64_t start_time_ticks(void) {
  char text[1024];
  unsigned long long ticks = 0;
  read_proc("/proc/self/stat", text, sizeof(text));
  const char* const after_name = strrchr(text, ')');
  if (!after_name || sscanf(after_name + 1,
                            " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                            "%*d %*d %llu",
                            &ticks) != 1)
    return 0;
  return ticks;
}

/* The program follows QEMU's own options, which all take a value here. */
static size_t guest_arguments(char* text, size_t bytes) {
  size_t at = strlen(text) + 1;
  while (at < bytes && text[at] == '-') {
    at += strlen(text + at) + 1;
    if (at < bytes) at += strlen(text + at) + 1;
  }
  if (at >= bytes) return bytes;
  return at;
}

static void add_target(void) {
  char command[4096];
  const size_t bytes = read_proc("/proc/self/cmdline", command, sizeof(command));
  const size_t first = guest_arguments(command, bytes);
  size_t length = bytes - first;
  while (length && !command[first + length - 1]) --length;
  const char* const slash = strrchr(length ? command + first : "", '/');
  char name[16]; /* the kernel's name for it */
  snprintf(name, sizeof(name), "%.15s", slash ? slash + 1 : length ? command + first : "");
  for (size_t i = 0; i < length; ++i)
    if (!command[first + i]) command[first + i] = ' ';
  struct tmprof_truth_target* const target =
      add_record(TMPROF_TRUTH_TARGET, sizeof(*target), command + first, length);
  if (!target) return;
  target->pid = (uint32_t)getpid();
  target->start_time_ticks = start_time_ticks();
  target->flags = TMPROF_TRUTH_TARGET_KNOWS_PID |
                  (target->start_time_ticks ? TMPROF_TRUTH_TARGET_KNOWS_START : 0);
  target->command_bytes = (uint32_t)length;
  snprintf(target->name, sizeof(target->name), "%s", name);
}

/* High, out of the way of programs that expect to be given the lowest free ones. */
static int moved_up(int fd) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < 64) return fd;
  const rlim_t most = limit.rlim_cur < 65536 ? limit.rlim_cur : 65536;
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, (int)most - 32);
  if (high < 0) return fd;
  close(fd);
  return high;
}

static int connect_socket(void) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  memcpy(address.sun_path, tracer.socket, sizeof(tracer.socket));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  while (connect(fd, (const struct sockaddr*)&address, sizeof(address)) != 0) {
    if (errno == EINTR) continue;
    close(fd);
    return -1;
  }
  return fd;
}

/* A file of this process, or of the program that it executes, beside its parent's or its own. */
static void name_new_file(void) {
  const size_t length = strlen(tracer.file);
  if (!length) return;
  const size_t room = sizeof(tracer.file) - length;
  if ((size_t)snprintf(tracer.file + length, room, ".%d", (int)getpid()) >= room)
    stop("the name of its stream's file would be too long");
}

/* Opens the stream, and puts its header and target into the buffer before what is there. */
static bool open_stream(void) {
  int fd;
  if (tracer.child_fd >= 0) {
    fd = tracer.child_fd;
    tracer.child_fd = -1;
  } else if (tracer.socket[0]) {
    fd = connect_socket();
  } else {
    fd = open(tracer.file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  }
  struct stat identity;
  if (fd < 0 || fstat(fd, &identity) != 0) return false;
  tracer.fd = moved_up(fd);
  tracer.fd_dev = identity.st_dev;
  tracer.fd_ino = identity.st_ino;

  char* const unsent = tracer.buffer;
  const size_t unsent_bytes = tracer.buffer_bytes;
  tracer.buffer = NULL;
  tracer.buffer_bytes = tracer.buffer_size = 0;
  add_header();
  add_target();
  char* const room = reserve(unsent_bytes);
  if (room && unsent_bytes) memcpy(room, unsent, unsent_bytes);
  free(unsent);
  return room != NULL;
}

static bool still_ours(void) {
  struct stat identity;
  return tracer.fd >= 0 && fstat(tracer.fd, &identity) == 0 && identity.st_dev == tracer.fd_dev &&
         identity.st_ino == tracer.fd_ino;
}

static ssize_t put(const char* bytes, size_t count) {
  return tracer.socket[0] ? send(tracer.fd, bytes, count, MSG_NOSIGNAL)
                          : write(tracer.fd, bytes, count);
}

/* Writes the buffer. The program may have closed the file under us: then once more, to a new one.
 */
static void flush_stream(void) {
  size_t done = 0;
  if (!still_ours()) {
    tracer.fd = -1; /* somebody else's by now */
    if (!tracer.socket[0]) return stop("the program has closed the stream's file");
    if (!open_stream()) return stop("the recorder has gone");
  }
  while (done < tracer.buffer_bytes) {
    const ssize_t wrote = put(tracer.buffer + done, tracer.buffer_bytes - done);
    if (wrote > 0) {
      done += (size_t)wrote;
    } else if (wrote < 0 && errno != EINTR) {
      /* A recorder that stops first needs no word of it. */
      stop(errno == EPIPE || errno == ECONNRESET ? NULL : strerror(errno));
      break;
    }
  }
  tracer.buffer_bytes = 0;
}

/* ---- Epochs ---- */

/* Returns what a page's waits have gained since they were sent last. `llc_misses`: what its misses
 * have gained, read before. The vCPU counts a hidden miss before the miss: one that it is counting
 * meanwhile is left to the next epoch, together with its miss. */
static struct waits waits_to_send(const struct leaf* leaf, uint32_t page, uint64_t llc_misses) {
  const struct waits* const now = &leaf->now_waits[page];
  const struct waits* const sent = &leaf->sent_waits[page];
  const uint64_t hidden =
      __atomic_load_n(&now->hidden_misses, __ATOMIC_RELAXED) - sent->hidden_misses;
  return (struct waits){
      .hidden_misses = hidden < llc_misses ? hidden : llc_misses,
      .stall_ns = __atomic_load_n(&now->stall_ns, __ATOMIC_RELAXED) - sent->stall_ns};
}

static void add_pages(struct tmprof_truth_epoch_end* end) {
  const size_t entry_bytes =
      models_waits() ? sizeof(struct tmprof_truth_page) : TMPROF_TRUTH_LEAST_PAGE_BYTES;
  size_t record_at = 0;
  uint32_t count = TMPROF_TRUTH_MOST_PAGES;
  for (struct arena* arena = tracer.arenas; arena; arena = arena->next_arena) {
    const size_t leaves = __atomic_load_n(&arena->leaf_count, __ATOMIC_ACQUIRE);
    struct leaf** const list = __atomic_load_n(&arena->leaves, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < leaves; ++i) {
      struct leaf* const leaf = list[i];
      for (uint32_t page = 0; page < LEAF_PAGES; ++page) {
        const struct counts now = {
            .loads = __atomic_load_n(&leaf->now[page].loads, __ATOMIC_RELAXED),
            .stores = __atomic_load_n(&leaf->now[page].stores, __ATOMIC_RELAXED),
            .llc_misses = __atomic_load_n(&leaf->now[page].llc_misses, __ATOMIC_ACQUIRE)};
        struct counts* const sent = &leaf->sent[page];
        const struct waits waits =
            models_waits() ? waits_to_send(leaf, page, now.llc_misses - sent->llc_misses)
                           : (struct waits){0, 0};
        /* A group of loads may end, and its waiting be known, in an epoch after theirs. */
        if (now.loads == sent->loads && now.stores == sent->stores &&
            now.llc_misses == sent->llc_misses && !waits.hidden_misses && !waits.stall_ns)
          continue;
        if (count == TMPROF_TRUTH_MOST_PAGES) {
          record_at = tracer.buffer_bytes;
          count = 0;
          if (!add_record(TMPROF_TRUTH_PAGES, sizeof(struct tmprof_truth_pages), NULL, 0)) return;
        }
        struct tmprof_truth_page* const entry = reserve(entry_bytes);
        if (!entry) return; /* stays unsent, for the next epoch */
        entry->vpn = leaf->first_vpn + page;
        entry->loads = now.loads - sent->loads;
        entry->stores = now.stores - sent->stores;
        entry->llc_misses = now.llc_misses - sent->llc_misses;
        *sent = now;
        if (models_waits()) {
          entry->hidden_misses = waits.hidden_misses;
          entry->stall_ns = waits.stall_ns;
          leaf->sent_waits[page].hidden_misses += waits.hidden_misses;
          leaf->sent_waits[page].stall_ns += waits.stall_ns;
        }
        end->loads += entry->loads;
        end->stores += entry->stores;
        end->llc_misses += entry->llc_misses;
        struct tmprof_truth_pages* const pages =
            (struct tmprof_truth_pages*)(tracer.buffer + record_at);
        pages->count = ++count;
        pages->entry_bytes = (uint32_t)entry_bytes;
        pages->record.bytes = (uint32_t)(sizeof(*pages) + count * entry_bytes);
      }
    }
    const uint64_t lost = __atomic_load_n(&arena->lost, __ATOMIC_RELAXED);
    end->lost_accesses += lost - arena->lost_sent;
    arena->lost_sent = lost;
  }
}

/* Tells the others of those that the arena's thread has executed. Returns those of all. */
static uint64_t count_instructions(struct arena* arena) {
  const uint64_t executed = __atomic_load_n(&arena->instructions, __ATOMIC_RELAXED);
  const uint64_t more = executed - arena->instructions_seen;
  tracer.instructions += more;
  arena->instructions_seen = executed;
  return __atomic_add_fetch(&tracer.shared->instructions, more, __ATOMIC_RELAXED);
}

/* Adds the open epoch to what is to be sent; the next one has the index `next`. `is_last`: its
 * pages go ahead, and its end goes with what follows: so little arrives as one piece. Under `lock`.
 */
static void add_epoch(uint64_t next, bool is_last) {
  struct tmprof_truth_epoch_end end = {
      .record = {.type = TMPROF_TRUTH_EPOCH_END, .bytes = sizeof(end)},
      .index = tracer.epoch,
      .start_ns = tracer.epoch_start_ns};
  add_pages(&end);
  end.end_ns = now_ns();
  if (tracer.epoch_instructions && tracer.shared) {
    for (struct arena* arena = tracer.arenas; arena; arena = arena->next_arena)
      count_instructions(arena);
    end.instructions = tracer.instructions - tracer.epoch_first_instruction;
  }
  if (is_last) {
    flush_stream();
    if (stopped()) return;
  }
  void* const room = reserve(sizeof(end));
  if (!room) return stop("no memory to send an epoch");
  memcpy(room, &end, sizeof(end));
  tracer.epoch = next;
  tracer.epoch_start_ns = end.end_ns;
  tracer.epoch_first_instruction = tracer.instructions;
  tracer.totals.epochs += 1;
  tracer.totals.instructions += end.instructions;
  tracer.totals.loads += end.loads;
  tracer.totals.stores += end.stores;
  tracer.totals.llc_misses += end.llc_misses;
  tracer.totals.lost_accesses += end.lost_accesses;
}

/* Sends the open epoch; the next one has the index `next`. Under `lock`. */
static void end_epoch(uint64_t next) {
  if (stopped()) return;
  add_epoch(next, false);
  flush_stream();
}

/* Adds our threads to those that run, or takes them away. Under `lock`. */
static void tell_threads(bool run) {
  if (!tracer.shared || tracer.threads_told == run) return;
  tracer.threads_told = run;
  if (run)
    __atomic_add_fetch(&tracer.shared->threads, tracer.threads, __ATOMIC_RELAXED);
  else
    __atomic_sub_fetch(&tracer.shared->threads, tracer.threads, __ATOMIC_RELAXED);
}

/* Sends the last epoch and waits until it has been read, so that the recorder still finds the
 * process. Under `lock`. */
static void end_stream(void) {
  if (tracer.ended) return;
  tracer.ended = true;
  if (arena_of_thread) tiersim_misses_close(&arena_of_thread->core->misses, tracer.stall_ns);
  /* The next program begins in this epoch. The recorder would not wait for it if it heard of the
   * epoch's end before it hears that the program is over. */
  if (!stopped()) add_epoch(tracer.epoch + 1, true);
  tell_threads(false);
  if (stopped()) return;
  tracer.totals.record =
      (struct tmprof_truth_record){.type = TMPROF_TRUTH_FINISH, .bytes = sizeof(tracer.totals)};
  void* const room = reserve(sizeof(tracer.totals));
  if (room) memcpy(room, &tracer.totals, sizeof(tracer.totals));
  flush_stream();
  if (stopped() || !tracer.socket[0]) return;
  const struct timeval limit = {.tv_sec = FAREWELL_SECONDS};
  setsockopt(tracer.fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  shutdown(tracer.fd, SHUT_WR);
  char byte;
  while (recv(tracer.fd, &byte, 1, 0) < 0 && errno == EINTR) continue;
}

static void* end_epochs_by_time(void* unused) {
  (void)unused;
  while (!stopped()) {
    pthread_mutex_lock(&tracer.lock);
    const uint64_t until = tracer.origin_ns + (tracer.epoch + 1) * tracer.epoch_ns;
    pthread_mutex_unlock(&tracer.lock);
    const struct timespec at = {.tv_sec = (time_t)(until / NS_PER_S),
                                .tv_nsec = (long)(until % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) continue;
    pthread_mutex_lock(&tracer.lock);
    const uint64_t next = (now_ns() - tracer.origin_ns) / tracer.epoch_ns;
    /* After an execve(2) that failed, a new stream may have begun with the next epoch. */
    if (!tracer.ended && next > tracer.epoch) end_epoch(next);
    const bool ended = tracer.ended;
    if (ended) tracer.has_timer = false;
    pthread_mutex_unlock(&tracer.lock);
    if (ended) break;
  }
  return NULL;
}

static void wait_while_epoch_is(uint32_t epoch) {
  /* Who ends an epoch may be killed before it wakes others. */
  const struct timespec limit = {.tv_sec = 1};
  syscall(SYS_futex, &tracer.shared->epoch, FUTEX_WAIT, epoch, &limit, NULL, 0);
}

/* Ends our epoch where another process has ended that of all. Under `lock`. */
static void follow_epoch(void) {
  const uint32_t epoch = __atomic_load_n(&tracer.shared->epoch, __ATOMIC_ACQUIRE);
  if (!tracer.ended && tracer.epoch < epoch) end_epoch(epoch);
}

static void* end_epochs_with_others(void* unused) {
  (void)unused;
  while (!stopped()) {
    pthread_mutex_lock(&tracer.lock);
    follow_epoch();
    const bool ended = tracer.ended;
    if (ended) tracer.has_timer = false;
    const uint32_t epoch = (uint32_t)tracer.epoch;
    pthread_mutex_unlock(&tracer.lock);
    if (ended) break;
    wait_while_epoch_is(epoch);
  }
  return NULL;
}

/* The program's signals are for the program's threads. A timer that still runs, as after an
 * execve(2) that failed, ends the epochs of the new stream, too. Under `lock`. */
static void start_timer(void) {
  pthread_t timer;
  sigset_t all, before;
  if (tracer.has_timer) return;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  tracer.has_timer =
      pthread_create(&timer, NULL, tracer.epoch_ns ? end_epochs_by_time : end_epochs_with_others,
                     NULL) == 0;
  if (tracer.has_timer)
    pthread_detach(timer);
  else
    stop("no thread to end its epochs");
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Says that the program at `path` is not followed. */
static void note_unfollowed(const char* path, const char* why) {
  char text[PATH_MAX + 128];
  const int length = snprintf(text, sizeof(text), "%s %s", path, why);
  const uint32_t bytes = (uint32_t)(length < (int)sizeof(text) ? length : (int)sizeof(text) - 1);
  struct tmprof_truth_not_followed* const record =
      add_record(TMPROF_TRUTH_NOT_FOLLOWED, sizeof(*record), text, bytes);
  if (!record) return;
  record->processes = 1;
  record->text_bytes = bytes;
}

/* Starts counting for this process: at its first instruction, and in a forked child. Under `lock`.
 */
static void begin(void) {
  if (!open_stream()) {
    complain("process %d is not traced: %s: %s", (int)getpid(),
             tracer.socket[0] ? tracer.socket : tracer.file, strerror(errno));
    return stop(NULL);
  }
  tracer.epoch_start_ns = now_ns();
  if (tracer.epoch_ns) tracer.epoch = (tracer.epoch_start_ns - tracer.origin_ns) / tracer.epoch_ns;
  if ((tracer.has_llc || tracer.epoch_instructions) && !tracer.shared) {
    char process[32];
    snprintf(process, sizeof(process), "process %d", (int)getpid());
    note_unfollowed(process, "runs where the tracer's shared memory is not to be had");
    end_stream();
    return stop(NULL);
  }
  tell_threads(true);
  if (tracer.epoch_instructions) {
    uint64_t none = 0;
    __atomic_compare_exchange_n(&tracer.shared->border, &none, tracer.epoch_instructions, false,
                                __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    tracer.epoch = __atomic_load_n(&tracer.shared->epoch, __ATOMIC_ACQUIRE);
  }
  start_timer();
  flush_stream(); /* who we are, even if we do not live for an epoch */
}

/* ---- Counting ---- */

static struct leaf_place* place_of(const struct arena* arena, uint64_t number) {
  /* Fibonacci hashing: 2^64 / the golden ratio. */
  size_t at = (size_t)(number * 0x9e3779b97f4a7c15ull >> 20) & (arena->index_size - 1);
  while (arena->index[at].leaf && arena->index[at].number != number)
    at = (at + 1) & (arena->index_size - 1);
  return &arena->index[at];
}

static void insert_leaf(struct arena* arena, struct leaf* leaf) {
  const uint64_t number = leaf->first_vpn >> LEAF_SHIFT;
  *place_of(arena, number) = (struct leaf_place){number, leaf};
}

/* Room for one more leaf in the index and in the list. What others may read is left to them. */
static bool grow_arena(struct arena* arena) {
  if (arena->leaf_count == arena->leaves_size) {
    const size_t size = arena->leaves_size * 2;
    struct leaf** const list = malloc(size * sizeof(*list));
    if (!list) return false;
    memcpy(list, arena->leaves, arena->leaf_count * sizeof(*list));
    __atomic_store_n(&arena->leaves, list, __ATOMIC_RELEASE);
    arena->leaves_size = size; /* the old list is never freed: as much again in all */
  }
  if (arena->leaf_count * 2 >= arena->index_size) {
    struct leaf_place* const old = arena->index;
    struct leaf_place* const index = calloc(arena->index_size * 2, sizeof(*index));
    if (!index) return false;
    arena->index = index;
    arena->index_size *= 2;
    for (size_t i = 0; i < arena->leaf_count; ++i) insert_leaf(arena, arena->leaves[i]);
    free(old);
  }
  return true;
}

static struct leaf* make_leaf(struct arena* arena, uint64_t number) {
  struct leaf* leaf = MAP_FAILED;
  const size_t bytes = leaf_bytes();
  if (__atomic_add_fetch(&tracer.memory_used, bytes, __ATOMIC_RELAXED) <= MOST_MEMORY_BYTES &&
      grow_arena(arena))
    leaf = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
  if (leaf == MAP_FAILED) {
    __atomic_sub_fetch(&tracer.memory_used, bytes, __ATOMIC_RELAXED);
    return NULL;
  }
  leaf->first_vpn = number << LEAF_SHIFT;
  insert_leaf(arena, leaf);
  arena->leaves[arena->leaf_count] = leaf;
  __atomic_store_n(&arena->leaf_count, arena->leaf_count + 1, __ATOMIC_RELEASE);
  return leaf;
}

/* Only this vCPU writes it; whoever reads it sees a whole number. */
static inline void increment(uint64_t* counter) {
  __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
}

/* NULL where there is no room for it. */
static __attribute__((noinline)) struct leaf* find_leaf(struct arena* arena, uint64_t number) {
  struct leaf* leaf = place_of(arena, number)->leaf;
  if (!leaf) leaf = make_leaf(arena, number);
  if (!leaf) {
    increment(&arena->lost);
    return NULL;
  }
  arena->recent[number & (RECENT_LEAVES - 1)] = (struct leaf_place){number, leaf};
  return leaf;
}

/* NULL where there is no room for it, and the access then is counted as lost. */
static inline struct leaf* leaf_of(struct arena* arena, uint64_t vaddr) {
  const uint64_t number = vaddr >> (PAGE_SHIFT + LEAF_SHIFT);
  const struct leaf_place* const recent = &arena->recent[number & (RECENT_LEAVES - 1)];
  if (__builtin_expect(!recent->leaf || recent->number != number, 0))
    return find_leaf(arena, number);
  return recent->leaf;
}

static inline uint64_t page_of_leaf(uint64_t vaddr) {
  return vaddr >> PAGE_SHIFT & (LEAF_PAGES - 1);
}

/* Returns the counters of the page; NULL if there is no room (leaf_of()). */
static inline struct counts* counts_of(struct arena* arena, uint64_t vaddr) {
  struct leaf* const leaf = leaf_of(arena, vaddr);
  return leaf ? &leaf->now[page_of_leaf(vaddr)] : NULL;
}

static inline void count(struct counts* counts, bool store) {
  increment(store ? &counts->stores : &counts->loads);
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
                      void* userdata) {
  (void)userdata;
  struct counts* const counts = counts_of(arena_of_vcpu[vcpu], vaddr);
  if (counts) count(counts, qemu_plugin_mem_is_store(info));
}

/* ---- Where a page lies in the cache ---- */

static uint64_t mixed(uint64_t value) { /* splitmix64 */
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ value >> 27) * 0x94d049bb133111ebull;
  return value ^ value >> 31;
}

/* The key of an address space that nobody else has. */
static uint64_t new_key(void) {
  const uint32_t number = __atomic_fetch_add(&tracer.shared->address_spaces, 1, __ATOMIC_RELAXED);
  return number ? mixed(number) >> PAGE_SHIFT << PAGE_SHIFT : 0;
}

static struct own_page* place_of_own(uint64_t vpn) {
  size_t at = (size_t)(vpn * 0x9e3779b97f4a7c15ull >> 20) & (tracer.own_pages_size - 1);
  while (tracer.own_pages[at].tag && tracer.own_pages[at].tag != vpn + 1)
    at = (at + 1) & (tracer.own_pages_size - 1);
  return &tracer.own_pages[at];
}

/* Without memory for it, the page stays its parent's. */
static void note_own_page(uint64_t vpn) {
  if (tracer.own_page_count * 2 >= tracer.own_pages_size) {
    struct own_page* const old = tracer.own_pages;
    const size_t old_size = tracer.own_pages_size;
    const size_t size = old_size ? old_size * 2 : 1024;
    struct own_page* const grown = calloc(size, sizeof(*grown));
    if (!grown) return;
    tracer.own_pages = grown;
    tracer.own_pages_size = size;
    for (size_t i = 0; i < old_size; ++i)
      if (old[i].tag) *place_of_own(old[i].tag - 1) = old[i];
    free(old);
  }
  struct own_page* const place = place_of_own(vpn);
  if (!place->tag) ++tracer.own_page_count;
  *place = (struct own_page){vpn + 1, tracer.key};
}

static const struct shared_range* shared_range_of(uint64_t vaddr) {
  size_t first = 0, end = tracer.range_count;
  while (first < end) {
    const size_t middle = (first + end) / 2;
    if (tracer.ranges[middle].end <= vaddr)
      first = middle + 1;
    else
      end = middle;
  }
  return first < tracer.range_count && tracer.ranges[first].start <= vaddr ? &tracer.ranges[first]
                                                                           : NULL;
}

/* Does what physical_address() does for a process that was forked or maps shared memory. */
static __attribute__((noinline)) uint64_t exceptional_address(uint64_t vaddr, bool store,
                                                              bool* inherited) {
  uint64_t key = tracer.base_key;
  pthread_spin_lock(&tracer.exceptions_lock);
  const struct shared_range* const range = shared_range_of(vaddr);
  if (range) {
    const uint64_t address = range->physical + (vaddr - range->start);
    pthread_spin_unlock(&tracer.exceptions_lock);
    return address;
  }
  if (tracer.own_pages_size) {
    const struct own_page* const own = place_of_own(vaddr >> PAGE_SHIFT);
    if (own->tag) key = own->key;
  }
  if (key != tracer.key) {
    if (store) {
      note_own_page(vaddr >> PAGE_SHIFT);
      key = tracer.key;
    } else {
      *inherited = true;
    }
  }
  pthread_spin_unlock(&tracer.exceptions_lock);
  return vaddr ^ key;
}

/*
 * An address that the same byte of memory has in all processes, as far as is known. `inherited`:
 * the page is a parent's until this process writes to it.
 */
static inline uint64_t physical_address(uint64_t vaddr, bool store, bool* inherited) {
  *inherited = false;
  if (__builtin_expect(tracer.has_exceptions, 0))
    return exceptional_address(vaddr, store, inherited);
  return vaddr ^ tracer.key;
}

static uint64_t hash_text(const char* text) { /* FNV-1a */
  uint64_t hash = 0xcbf29ce484222325ull;
  for (; *text; ++text) hash = (hash ^ (unsigned char)*text) * 0x100000001b3ull;
  return hash;
}

/* Reads all of /proc/self/maps; NULL where it cannot. */
static char* read_maps(void) {
  size_t size = 1 << 16, length = 0;
  char* text = malloc(size);
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  while (text && fd >= 0) {
    if (length + 4096 > size) {
      char* const grown = realloc(text, size * 2);
      if (!grown) break;
      text = grown;
      size *= 2;
    }
    const ssize_t got = read(fd, text + length, size - length - 1);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    length += (size_t)got;
    text[length] = '\0';
    if (got > 0) continue;
    close(fd);
    return text;
  }
  if (fd >= 0) close(fd);
  free(text);
  return NULL;
}

/*
 * Finds out which memory is mapped shared: device, inode and offset name it in all processes. The
 * sets of the cache that it goes to depend on its path alone, so that they are the same in each
 * run. Where that cannot be read, what was known stays.
 */
static void find_shared_ranges(void) {
  pthread_mutex_lock(&tracer.lock);
  char* const maps = read_maps();
  struct shared_range* ranges = NULL;
  size_t count = 0, size = 0;
  char* rest = maps;
  for (char* line; maps && (line = strsep(&rest, "\n"));) {
    uint64_t start, end, offset, inode;
    unsigned int major, minor;
    char rights[5];
    int path_at = 0;
    if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &start, &end,
               rights, &offset, &major, &minor, &inode, &path_at) < 7 ||
        rights[3] != 's' || start < *tracer.guest_base)
      continue;
    if (count == size) {
      const size_t more = size ? size * 2 : 64;
      struct shared_range* const grown = realloc(ranges, more * sizeof(*ranges));
      if (!grown) break;
      ranges = grown;
      size = more;
    }
    const uint64_t file = mixed(mixed((uint64_t)major << 32 | minor) ^ inode);
    const uint64_t place = (file >> 32 << 32) | (hash_text(line + path_at) & 0xfffff000u);
    ranges[count++] =
        (struct shared_range){start - *tracer.guest_base, end - *tracer.guest_base, place + offset};
  }
  struct shared_range* old = ranges;
  if (maps) {
    pthread_spin_lock(&tracer.exceptions_lock);
    old = tracer.ranges;
    tracer.ranges = ranges;
    tracer.range_count = count;
    if (count) tracer.has_exceptions = true;
    pthread_spin_unlock(&tracer.exceptions_lock);
  }
  free(old);
  free(maps);
  pthread_mutex_unlock(&tracer.lock);
}

static bool touches_shared_range(uint64_t start, uint64_t bytes) {
  bool touches = false;
  pthread_spin_lock(&tracer.exceptions_lock);
  for (size_t i = 0; i < tracer.range_count && !touches; ++i)
    touches = start < tracer.ranges[i].end && tracer.ranges[i].start < start + bytes;
  pthread_spin_unlock(&tracer.exceptions_lock);
  return touches;
}

/* Returns true if the system call may change which memory is mapped shared. */
static bool may_remap(int64_t number, uint64_t a1, uint64_t a2, uint64_t a4) {
  switch (number) {
    case SYS_shmat:
    case SYS_shmdt:
      return true;
    case SYS_mmap:
      if ((a4 & MAP_TYPE) != MAP_PRIVATE) return true;
      return (a4 & MAP_FIXED) && touches_shared_range(a1, a2);
    case SYS_munmap:
    case SYS_mremap:
      return touches_shared_range(a1, a2);
    default:
      return false;
  }
}

/* ---- The caches ---- */

static inline uint8_t* lock_set(uint64_t address) {
  uint8_t* const lock =
      &tracer.shared
           ->set_locks[tiersim_cache_set(&tracer.llc, address) & (TMPROF_EXACT_SET_LOCKS - 1)];
  tiersim_lock_set(lock, TIERSIM_SET_LOCK_PATIENCE_NS);
  return lock;
}

/* A line that is not in the filter is accessed. Returns true if a stream has asked for it since it
 * was accessed last, and lets the prefetcher see it. */
static bool follow_streams(struct streams* streams, uint64_t address) {
  const uint64_t page = (address >> PAGE_SHIFT) + 1;
  const uint64_t line = address >> LINE_SHIFT & ((1u << (PAGE_SHIFT - LINE_SHIFT)) - 1);
  uint64_t first = 0;
  int64_t step = 0;
  uint32_t at = 0;
  while (at < TIERSIM_STREAMS && streams->prefetcher.streams[at].page != page) ++at;
  const bool is_new = at == TIERSIM_STREAMS;
  const bool asked = !is_new && (streams->asked[at] >> line & 1);
  if (asked) streams->asked[at] &= ~(1ull << line);
  uint32_t lines = tiersim_prefetch(&streams->prefetcher, address, LINE_SHIFT,
                                    (uint32_t)tracer.prefetch_lines, &first, &step);
  if (is_new) {
    for (at = 0; streams->prefetcher.streams[at].page != page;) ++at;
    streams->asked[at] = 0;
  }
  for (; lines; --lines, first += (uint64_t)step)
    streams->asked[at] |= 1ull << (first >> LINE_SHIFT & 63);
  return asked;
}

/* Reads the line in place: the load from it has been made, and the thread executes nothing until we
 * return. So no program unmaps it meanwhile, unless it might have done so before the load. */
static __attribute__((noinline)) void wait_for_memory(struct arena* arena, uint64_t* stall,
                                                      uint64_t vaddr) {
  uint64_t words[TIERSIM_OVERLAP_WORDS];
  const uint64_t line = vaddr >> LINE_SHIFT << LINE_SHIFT;
  memcpy(words, (const void*)(uintptr_t)(*tracer.guest_base + line), sizeof(words));
  tiersim_misses_add(&arena->core->misses, vaddr, arena->instructions, stall, words,
                     tracer.stall_ns);
  arena_of_thread = arena;
}

/* A line is brought in: what was gathered for it has gone to memory. */
static void end_combining(struct core* core, uint64_t tag) {
  for (uint32_t i = 0; i < COMBINING_LINES; ++i)
    if (core->combining[i] == tag) core->combining[i] = 0;
}

/* Returns the counters of the page of a line that is not in the filter; NULL if there is no room
 * (leaf_of()). `has_more`: more than an LLC is modelled. */
static inline __attribute__((always_inline)) struct counts* fetch_line(struct arena* arena,
                                                                       uint64_t vaddr,
                                                                       struct filter_entry* entry,
                                                                       bool store, bool has_more) {
  struct leaf* const leaf = leaf_of(arena, vaddr);
  if (!leaf) return NULL;
  struct counts* const counts = &leaf->now[page_of_leaf(vaddr)];
  const uint64_t tag = (vaddr >> LINE_SHIFT) + 1;
  if (entry->tag == (tag | INHERITED) && !store) return counts;
  bool inherited;
  const uint64_t address = physical_address(vaddr, store, &inherited);
  *entry = (struct filter_entry){inherited ? tag | INHERITED : tag, counts};
  struct core* const core = arena->core;
  if (__builtin_expect(core->combines, 0)) end_combining(core, tag);

  bool asked = false;
  if (has_more) {
    asked = tracer.prefetch_lines && follow_streams(&core->streams, address);
    if (tracer.l2_bytes && tiersim_cache_access(&core->l2, address)) return counts;
  }
  uint8_t* const lock = lock_set(address);
  const bool hit = tiersim_cache_access(&tracer.llc, address);
  tiersim_unlock_set(lock);
  if (hit) return counts;
  if (has_more && asked) {
    increment(&leaf->now_waits[page_of_leaf(vaddr)].hidden_misses);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* waits_to_send() */
  }
  increment(&counts->llc_misses);
  if (has_more && !asked && tracer.stall_ns && !store)
    wait_for_memory(arena, &leaf->now_waits[page_of_leaf(vaddr)].stall_ns, vaddr);
  return counts;
}

static __attribute__((noinline)) struct counts* fetch_line_from_llc(struct arena* arena,
                                                                    uint64_t vaddr,
                                                                    struct filter_entry* entry,
                                                                    bool store) {
  return fetch_line(arena, vaddr, entry, store, false);
}

static __attribute__((noinline)) struct counts* fetch_line_with_all(struct arena* arena,
                                                                    uint64_t vaddr,
                                                                    struct filter_entry* entry,
                                                                    bool store) {
  return fetch_line(arena, vaddr, entry, store, true);
}

static inline __attribute__((always_inline)) void access_filter(
    unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
    struct counts* (*fetch)(struct arena*, uint64_t, struct filter_entry*, bool)) {
  const bool store = qemu_plugin_mem_is_store(info);
  struct arena* const arena = arena_of_vcpu[vcpu];
  const uint64_t line = vaddr >> LINE_SHIFT;
  struct filter_entry* const entry = &arena->filter[line & (FILTER_ENTRIES - 1)];
  struct counts* counts = entry->counts;
  if (__builtin_expect(entry->tag != line + 1, 0)) {
    counts = fetch(arena, vaddr, entry, store);
    if (!counts) return;
  }
  count(counts, store);
}

static void on_access_with_llc(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
                               void* userdata) {
  (void)userdata;
  access_filter(vcpu, info, vaddr, fetch_line_from_llc);
}

static void on_access_with_all(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
                               void* userdata) {
  (void)userdata;
  access_filter(vcpu, info, vaddr, fetch_line_with_all);
}

/* A non-temporal store goes to memory past the caches, which lose the line. The stores to a line
 * are gathered, and memory is written to once for them. */
static void on_nontemporal_store(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
                                 void* userdata) {
  (void)userdata;
  struct arena* const arena = arena_of_vcpu[vcpu];
  struct counts* const counts = counts_of(arena, vaddr);
  if (!counts) return;
  count(counts, qemu_plugin_mem_is_store(info));
  struct core* const core = arena->core;
  const uint64_t tag = (vaddr >> LINE_SHIFT) + 1;
  for (uint32_t i = 0; i < COMBINING_LINES; ++i)
    if (core->combining[i] == tag) return;
  core->combining[core->next_combining++ % COMBINING_LINES] = tag;
  core->combines = true;
  increment(&counts->llc_misses);

  struct filter_entry* const entry = &arena->filter[(tag - 1) & (FILTER_ENTRIES - 1)];
  if ((entry->tag & ~INHERITED) == tag) entry->tag = 0;
  bool inherited;
  const uint64_t address = physical_address(vaddr, true, &inherited);
  if (tracer.l2_bytes) tiersim_cache_remove(&core->l2, address);
  uint8_t* const lock = lock_set(address);
  tiersim_cache_remove(&tracer.llc, address);
  tiersim_unlock_set(lock);
}

static __attribute__((noinline)) void check_instructions(struct arena* arena) {
  struct tmprof_exact_shared* const shared = tracer.shared;
  if (!tracer.epoch_instructions || stopped()) {
    arena->instructions_check = UINT64_MAX;
    return;
  }
  pthread_mutex_lock(&tracer.lock);
  const uint64_t executed = count_instructions(arena);
  uint64_t border = __atomic_load_n(&shared->border, __ATOMIC_RELAXED);
  if (executed >= border && !tracer.ended &&
      __atomic_compare_exchange_n(&shared->border, &border, executed + tracer.epoch_instructions,
                                  false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    border = executed + tracer.epoch_instructions;
    __atomic_add_fetch(&shared->epoch, 1, __ATOMIC_RELEASE);
    if (__atomic_load_n(&shared->threads, __ATOMIC_RELAXED) > tracer.threads)
      syscall(SYS_futex, &shared->epoch, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
  }
  follow_epoch();
  uint64_t left = border > executed ? border - executed : 1;
  /* Others are on their way to the same border: nobody goes far beyond it. */
  if (__atomic_load_n(&shared->threads, __ATOMIC_RELAXED) > 1 && left > 20000) left /= 8;
  arena->instructions_check = arena->instructions + left;
  pthread_mutex_unlock(&tracer.lock);
}

static void on_block(unsigned int vcpu, void* userdata) {
  struct arena* const arena = arena_of_vcpu[vcpu];
  if (__builtin_expect(arena->instructions >= arena->instructions_check, 0))
    check_instructions(arena);
  __atomic_store_n(&arena->instructions, arena->instructions + (uintptr_t)userdata,
                   __ATOMIC_RELAXED);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb* block) {
  (void)id;
  if (stopped()) return;
  const size_t instructions = qemu_plugin_tb_n_insns(block);
  if (tracer.epoch_instructions || tracer.stall_ns)
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, QEMU_PLUGIN_CB_NO_REGS,
                                         (void*)(uintptr_t)instructions);
  for (size_t i = 0; i < instructions; ++i) {
    struct qemu_plugin_insn* const instruction = qemu_plugin_tb_get_insn(block, i);
    qemu_plugin_vcpu_mem_cb_t callback = on_access;
    if (tracer.has_llc)
      callback = tiersim_is_nontemporal_store(qemu_plugin_insn_data(instruction),
                                              qemu_plugin_insn_size(instruction))
                     ? on_nontemporal_store
                 : tracer.l2_bytes || models_waits() ? on_access_with_all
                                                     : on_access_with_llc;
    qemu_plugin_register_vcpu_mem_cb(instruction, callback, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, NULL);
  }
}

/* ---- Threads and processes ---- */

static struct arena* make_arena(void) {
  struct arena* const arena = calloc(1, sizeof(*arena));
  if (!arena) return NULL;
  arena->index_size = arena->leaves_size = 64;
  arena->index = calloc(arena->index_size, sizeof(*arena->index));
  arena->leaves = calloc(arena->leaves_size, sizeof(*arena->leaves));
  if (!arena->index || !arena->leaves) return NULL;
  if (tracer.has_llc) {
    arena->core = calloc(1, sizeof(*arena->core));
    if (!arena->core) return NULL;
    if (tracer.l2_bytes && tiersim_cache_init(&arena->core->l2, tracer.l2_bytes >> LINE_SHIFT,
                                              L2_WAYS, 1u << LINE_SHIFT, TIERSIM_LRU))
      return NULL;
  }
  arena->next_arena = tracer.arenas;
  tracer.arenas = arena;
  return arena;
}

/* Attaches the memory that the recorder's processes share, or makes some for us and those that we
 * fork. Without it, `shared` stays NULL. */
static void join_others(void) {
  if (!tracer.has_llc && !tracer.epoch_instructions) return;
  const uint64_t sets = tracer.has_llc ? tracer.llc.set_mask + 1 : 0;
  const uint64_t lines = sets * tracer.llc.ways;
  const uint64_t bytes = tmprof_exact_shared_bytes(lines, sets);
  struct tmprof_exact_shared* shared;
  if (tracer.shared_id) {
    shared = shmat((int)(tracer.shared_id - 1), NULL, 0);
    if (shared == (void*)-1) return;
    if (shared->magic != TMPROF_EXACT_SHARED_MAGIC || shared->bytes != bytes) {
      shmdt(shared);
      return;
    }
  } else {
    shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
                  -1, 0);
    if (shared == MAP_FAILED) return;
  }
  tracer.shared = shared;
  tracer.llc.tags = (uint64_t*)(shared + 1);
  tracer.llc.next = (uint8_t*)(tracer.llc.tags + lines);
  tracer.key = tracer.base_key = new_key();
}

static void on_vcpu_start(qemu_plugin_id_t id, unsigned int vcpu) {
  (void)id;
  pthread_mutex_lock(&tracer.lock);
  if (vcpu >= MAX_VCPUS) {
    complain("more than %u threads at once cannot be traced", MAX_VCPUS);
    abort();
  }
  const bool first = !tracer.arenas;
  struct arena* arena = arena_of_vcpu[vcpu]; /* left by a thread that did not survive a fork */
  if (!arena && tracer.free_arenas) {
    arena = tracer.free_arenas;
    tracer.free_arenas = arena->next_free;
  }
  if (!arena) arena = make_arena();
  if (!arena) {
    complain("no memory for the counters of a thread");
    abort();
  }
  arena->instructions_check = arena->instructions;
  arena_of_vcpu[vcpu] = arena;
  ++tracer.threads;
  if (first) {
    join_others();
    begin();
  } else if (tracer.threads_told) {
    __atomic_add_fetch(&tracer.shared->threads, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_unlock(&tracer.lock);
}

static void on_vcpu_end(qemu_plugin_id_t id, unsigned int vcpu) {
  (void)id;
  pthread_mutex_lock(&tracer.lock);
  struct arena* const arena = arena_of_vcpu[vcpu];
  if (arena && !tracer.ended) {
    if (arena_of_thread == arena) {
      tiersim_misses_close(&arena->core->misses, tracer.stall_ns);
      arena_of_thread = NULL;
    }
    --tracer.threads;
    if (tracer.threads_told) __atomic_sub_fetch(&tracer.shared->threads, 1, __ATOMIC_RELAXED);
    arena_of_vcpu[vcpu] = NULL;
    arena->next_free = tracer.free_arenas;
    tracer.free_arenas = arena;
  }
  pthread_mutex_unlock(&tracer.lock);
}

static void on_exit_of_process(qemu_plugin_id_t id, void* userdata) {
  (void)id;
  (void)userdata;
  pthread_mutex_lock(&tracer.lock);
  end_stream();
  pthread_mutex_unlock(&tracer.lock);
}

/* The child's socket is connected before it exists, so that a recorder that sees its parent's end
 * has already heard of it. */
static void before_fork(void) {
  pthread_mutex_lock(&tracer.lock);
  if (tracer.socket[0] && !stopped() && !tracer.ended) tracer.child_fd = connect_socket();
  pthread_spin_lock(&tracer.exceptions_lock);
}

static void after_fork_in_parent(void) {
  if (tracer.child_fd >= 0) close(tracer.child_fd);
  tracer.child_fd = -1;
  pthread_spin_unlock(&tracer.exceptions_lock);
  pthread_mutex_unlock(&tracer.lock);
}

/* The counts made so far are the parent's. */
static void forget_counts(void) {
  for (struct arena* arena = tracer.arenas; arena; arena = arena->next_arena) {
    memset(arena->recent, 0, sizeof(arena->recent));
    memset(arena->filter, 0, sizeof(arena->filter));
    memset(arena->index, 0, arena->index_size * sizeof(*arena->index));
    for (size_t i = 0; i < arena->leaf_count; ++i) munmap(arena->leaves[i], leaf_bytes());
    arena->leaf_count = 0;
    arena->lost_sent = arena->lost;
    arena->instructions_seen = arena->instructions;
    arena->instructions_check = arena->instructions;
    if (arena->core) {
      const struct tiersim_cache l2 = arena->core->l2;
      memset(arena->core, 0, sizeof(*arena->core));
      arena->core->l2 = l2;
      if (l2.tags) tiersim_cache_flush(&arena->core->l2);
    }
  }
  tracer.memory_used = 0;
  memset(&tracer.totals, 0, sizeof(tracer.totals));
  tracer.epoch_first_instruction = tracer.instructions;
}

static void after_fork_in_child(void) {
  pthread_spin_init(&tracer.exceptions_lock, PTHREAD_PROCESS_PRIVATE);
  forget_counts();
  tracer.threads = 1;
  tracer.threads_told = false;
  tracer.has_timer = false;
  if (tracer.shared) {
    tracer.key = new_key();
    tracer.has_exceptions = true;
  }
  if (tracer.fd >= 0) close(tracer.fd);
  tracer.fd = -1;
  tracer.buffer_bytes = 0;
  name_new_file();
  if (!stopped() && !tracer.ended) begin();
  pthread_mutex_unlock(&tracer.lock);
}

/* ---- A fatal signal ---- */

/*
 * QEMU tells nobody when the program dies of a signal: it ends itself with kill(3), which it uses
 * for nothing else of the program's. So that call comes to us first.
 */
static int end_and_kill(pid_t pid, int number) {
  if (pid == getpid()) {
    pthread_mutex_lock(&tracer.lock);
    end_stream();
    pthread_mutex_unlock(&tracer.lock);
  }
  return kill(pid, number);
}

/* Has the program `object`, QEMU, call end_and_kill() for kill(). */
static int take_over_kill(struct dl_phdr_info* object, size_t size, void* unused) {
  const char* names = NULL;
  const ElfW(Sym)* symbols = NULL;
  struct {
    const ElfW(Rela) * first;
    size_t bytes;
  } tables[2] = {{NULL, 0}, {NULL, 0}};
  (void)size, (void)unused;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    if (object->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const ElfW(Dyn)* entry = (const ElfW(Dyn)*)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const void* const at = (const void*)entry->d_un.d_ptr;
      if (entry->d_tag == DT_STRTAB) names = at;
      if (entry->d_tag == DT_SYMTAB) symbols = at;
      if (entry->d_tag == DT_JMPREL) tables[0].first = at;
      if (entry->d_tag == DT_PLTRELSZ) tables[0].bytes = entry->d_un.d_val;
      if (entry->d_tag == DT_RELA) tables[1].first = at;
      if (entry->d_tag == DT_RELASZ) tables[1].bytes = entry->d_un.d_val;
    }
  }
  const size_t page_mask = (size_t)sysconf(_SC_PAGESIZE) - 1;
  for (size_t t = 0; names && symbols && t < 2; ++t) {
    for (size_t i = 0; i < tables[t].bytes / sizeof(ElfW(Rela)); ++i) {
      const ElfW(Rela)* const relocation = &tables[t].first[i];
      const uint64_t type = ELF64_R_TYPE(relocation->r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT) continue;
      if (strcmp(names + symbols[ELF64_R_SYM(relocation->r_info)].st_name, "kill")) continue;
      int (** const slot)(pid_t, int) =
          (int (**)(pid_t, int))(object->dlpi_addr + relocation->r_offset);
      void* const page = (void*)((uintptr_t)slot & ~page_mask);
      /* It may have been made read-only after it was resolved. */
      if (mprotect(page, page_mask + 1, PROT_READ | PROT_WRITE) == 0) *slot = end_and_kill;
    }
  }
  return 1; /* the program itself comes first; no library */
}

/* ---- exec(2) ---- */

/* Up to `bytes` of the program's memory; false where a part cannot be read. */
static bool read_guest(uint64_t vaddr, void* to, size_t bytes) {
  const struct iovec local = {to, bytes};
  const struct iovec remote = {(void*)(uintptr_t)(*tracer.guest_base + vaddr), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

/* A copy of a string of the program's; NULL where it cannot be read. */
static char* guest_string(uint64_t vaddr) {
  size_t size = 256;
  size_t length = 0;
  char* text = malloc(size);
  while (text) {
    /* Not beyond the page, as the next one may not be there. */
    const size_t here = 256 - ((vaddr + length) & 255);
    if (length + here > size) {
      char* const grown = realloc(text, size * 2);
      if (!grown) break;
      text = grown;
      size *= 2;
    }
    if (!read_guest(vaddr + length, text + length, here)) break;
    if (memchr(text + length, 0, here)) return text;
    length += here;
  }
  free(text);
  return NULL;
}

static void free_strings(char** strings, size_t first) {
  for (size_t i = first; strings && strings[i]; ++i) free(strings[i]);
  free(strings);
}

/* A NULL-terminated list of strings of the program's, after `before` empty places. */
static char** guest_strings(uint64_t vaddr, size_t before) {
  size_t count = 0;
  uint64_t pointer = 0;
  do {
    if (vaddr && !read_guest(vaddr + 8 * count, &pointer, sizeof(pointer))) return NULL;
    ++count;
  } while (pointer);
  char** const strings = calloc(before + count, sizeof(*strings));
  for (size_t i = 0; strings && i + 1 < count; ++i) {
    read_guest(vaddr + 8 * i, &pointer, sizeof(pointer));
    strings[before + i] = guest_string(pointer);
    if (!strings[before + i]) {
      free_strings(strings, before);
      return NULL;
    }
  }
  return strings;
}

/* Appends it with its commas doubled, as a single one ends one of QEMU's options. False where there
 * is no room. */
static bool append_escaped(char* to, size_t size, const char* text) {
  size_t at = strlen(to);
  for (; *text && at + 3 <= size; ++text) {
    to[at++] = *text;
    if (*text == ',') to[at++] = ',';
  }
  to[at] = '\0';
  return !*text;
}

/* True if the dynamic loader reads the variable. -E takes several variables, separated by commas: a
 * variable with a comma in its value stays QEMU's, too. */
static bool is_loaders(const char* variable) {
  return !strncmp(variable, "LD_", 3) && strchr(variable, '=') && !strchr(variable, ',');
}

/*
 * Runs the program under QEMU in place of the kernel. Returns if the kernel is to see to it: it
 * fails for it as it does for us, or it is one that QEMU cannot run.
 */
static void follow_exec(uint64_t path_at, uint64_t arguments_at, uint64_t environment_at) {
  struct tmprof_guest_program program;
  char plugin[sizeof(tracer.plugin) + sizeof(tracer.options) + 2 * PATH_MAX + 16];
  char* const path = guest_string(path_at);
  char** const environment = guest_strings(environment_at, 0);
  size_t variables = 0, loaders = 0;
  for (; environment && environment[variables]; ++variables)
    loaders += is_loaders(environment[variables]);
  const size_t room = 8 + 2 * loaders;
  char** const arguments = guest_strings(arguments_at, room);
  char** const kept = calloc(variables + 1, sizeof(*kept));
  if (!path || !arguments || !environment || !kept) goto out;

  const enum tmprof_guest_verdict verdict = tmprof_guest_look(path, &program);
  if (verdict == TMPROF_GUEST_REFUSED) goto out;
  pthread_mutex_lock(&tracer.lock);
  if (verdict != TMPROF_GUEST_RUNS) {
    note_unfollowed(path, verdict == TMPROF_GUEST_OTHER_RIGHTS
                              ? "runs with rights that an emulator does not get"
                              : "is not an x86-64 program");
    end_stream();
    pthread_mutex_unlock(&tracer.lock);
    goto out;
  }
  end_stream();
  name_new_file();
  snprintf(plugin, sizeof(plugin), "%s,%s%s", tracer.plugin, tracer.options,
           tracer.file[0] ? ",stream=" : "");
  append_escaped(plugin, sizeof(plugin), tracer.file);
  /* QEMU -0 NAME -plugin PLUGIN [-E VARIABLE]... PROGRAM [ARGUMENT] [SCRIPT] and the program's own
   * but its name. */
  char* const name = arguments[room];
  size_t first = room + (name ? 1 : 0);
  if (program.script[0]) arguments[--first] = program.script;
  if (program.script_argument[0]) arguments[--first] = program.script_argument;
  arguments[--first] = program.path;
  for (size_t i = 0, to = 0; i < variables; ++i) {
    if (is_loaders(environment[i])) {
      arguments[--first] = environment[i];
      arguments[--first] = (char*)"-E";
    } else {
      kept[to++] = environment[i];
    }
  }
  arguments[--first] = plugin;
  arguments[--first] = (char*)"-plugin";
  arguments[--first] = program.script[0] || !name ? program.path : name;
  arguments[--first] = (char*)"-0";
  arguments[--first] = tracer.qemu;
  execve(tracer.qemu, arguments + first, kept);
  arguments[room] = name;
  /* It is too long for QEMU's own arguments, at worst: the program may still do something else. */
  tracer.ended = false;
  if (tracer.fd >= 0 && still_ours()) close(tracer.fd);
  tracer.fd = -1;
  memset(&tracer.totals, 0, sizeof(tracer.totals));
  begin();
  pthread_mutex_unlock(&tracer.lock);
out:
  free(path);
  free(kept);
  free_strings(arguments, room);
  free_strings(environment, 0);
}

static void on_syscall(qemu_plugin_id_t id, unsigned int vcpu, int64_t number, uint64_t a1,
                       uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7,
                       uint64_t a8) {
  (void)id, (void)a6, (void)a7, (void)a8;
  if (stopped()) return;
  if (tracer.has_llc) arena_of_vcpu[vcpu]->remaps = may_remap(number, a1, a2, a4);
  if (number == SYS_execve) follow_exec(a1, a2, a3);
  if (number == SYS_execveat && (int)a1 == AT_FDCWD && a5 == 0) follow_exec(a2, a3, a4);
}

static void on_syscall_end(qemu_plugin_id_t id, unsigned int vcpu, int64_t number,
                           int64_t returned) {
  (void)id, (void)number, (void)returned;
  struct arena* const arena = arena_of_vcpu[vcpu];
  if (!arena || !arena->remaps) return;
  arena->remaps = false;
  find_shared_ranges();
}

/* ---- Start ---- */

static bool read_number(const char* text, uint64_t* value) {
  char* end;
  errno = 0;
  *value = strtoull(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && text[0] != '-';
}

static bool read_options(int argc, char** argv) {
  uint64_t llc_bytes = 0, llc_ways = 16, shared_id = UINT64_MAX;
  const struct {
    const char* name;
    uint64_t* value;
  } numbers[] = {{"epoch_ns", &tracer.epoch_ns},
                 {"origin_ns", &tracer.origin_ns},
                 {"epoch_instructions", &tracer.epoch_instructions},
                 {"llc_bytes", &llc_bytes},
                 {"llc_ways", &llc_ways},
                 {"l2_bytes", &tracer.l2_bytes},
                 {"prefetch_lines", &tracer.prefetch_lines},
                 {"stall_ns", &tracer.stall_ns},
                 {"shared", &shared_id}};
  for (int i = 0; i < argc; ++i) {
    const char* const equals = strchr(argv[i], '=');
    const size_t name_bytes = equals ? (size_t)(equals - argv[i]) : 0;
    const char* const value = equals ? equals + 1 : "";
    bool good = false;
    for (size_t n = 0; n < sizeof(numbers) / sizeof(*numbers); ++n)
      if (strlen(numbers[n].name) == name_bytes && !memcmp(argv[i], numbers[n].name, name_bytes))
        good = read_number(value, numbers[n].value);
    if (name_bytes == 6 && !memcmp(argv[i], "socket", 6))
      good = (size_t)snprintf(tracer.socket, sizeof(tracer.socket), "%s", value) <
             sizeof(tracer.socket);
    const bool is_file = name_bytes == 6 && !memcmp(argv[i], "stream", 6);
    if (is_file)
      good = (size_t)snprintf(tracer.file, sizeof(tracer.file), "%s", value) < sizeof(tracer.file);
    if (!good) {
      complain("bad option '%s'", argv[i]);
      return false;
    }
    if (is_file) continue; /* each program has its own */
    const size_t used = strlen(tracer.options);
    if (used) strcpy(tracer.options + used, ",");
    if (!append_escaped(tracer.options, sizeof(tracer.options) - 1, argv[i])) return false;
  }
  if (!tracer.socket[0] == !tracer.file[0] || !tracer.epoch_ns == !tracer.epoch_instructions) {
    complain("takes socket= or stream=, and epoch_ns= or epoch_instructions=");
    return false;
  }
  tracer.shared_id = shared_id + 1;
  if (!llc_bytes && (tracer.l2_bytes || tracer.prefetch_lines || tracer.stall_ns)) {
    complain("l2_bytes=, prefetch_lines= and stall_ns= take llc_bytes=");
    return false;
  }
  if (tracer.l2_bytes) {
    struct tiersim_cache l2;
    const char* const error = tiersim_cache_shape(&l2, tracer.l2_bytes >> LINE_SHIFT, L2_WAYS,
                                                  1u << LINE_SHIFT, TIERSIM_LRU);
    if (error) {
      complain("an L2 of %" PRIu64 " bytes and %u ways: %s", tracer.l2_bytes, L2_WAYS, error);
      return false;
    }
  }
  if (llc_bytes) {
    const char* const error = tiersim_cache_shape(
        &tracer.llc, llc_bytes >> LINE_SHIFT, (uint32_t)llc_ways, 1u << LINE_SHIFT, TIERSIM_LRU);
    if (error) {
      complain("an LLC of %" PRIu64 " bytes and %" PRIu64 " ways: %s", llc_bytes, llc_ways, error);
      return false;
    }
    tracer.has_llc = true;
  }
  return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t* info, int argc,
                                           char** argv) {
  Dl_info self;
  if (info->system_emulation) {
    complain("is for user-mode QEMU");
    return -1;
  }
  if (!read_options(argc, argv)) return -1;
  pthread_spin_init(&tracer.exceptions_lock, PTHREAD_PROCESS_PRIVATE);
  const ssize_t length = readlink("/proc/self/exe", tracer.qemu, sizeof(tracer.qemu) - 1);
  tracer.guest_base = dlsym(RTLD_DEFAULT, "guest_base");
  if (length < 0 || !tracer.guest_base || !dladdr((void*)&qemu_plugin_install, &self)) {
    complain("this QEMU does not say where the program's memory is");
    return -1;
  }
  if (!append_escaped(tracer.plugin, sizeof(tracer.plugin), self.dli_fname)) return -1;
  dl_iterate_phdr(take_over_kill, NULL);
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  qemu_plugin_register_vcpu_init_cb(id, on_vcpu_start);
  qemu_plugin_register_vcpu_exit_cb(id, on_vcpu_end);
  qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
  qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
  if (tracer.has_llc) qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_end);
  qemu_plugin_register_atexit_cb(id, on_exit_of_process, NULL);
  return 0;
}
