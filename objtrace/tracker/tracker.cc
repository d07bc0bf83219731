// SPDX-License-Identifier: Apache-2.0
// Preloaded into unmodified programs: tells the recorder of allocations and of what frees them
// (objtrace/tracker/log.h). All from a threshold up, and of smaller ones one in each interval of
// allocated bytes.
//
// What is tracked is known by its address, so that a free(3) of anything else is cheap: one byte
// says that no tracked address is like it. No lock is taken, and nothing allocated: it works
// within the dynamic linker, signal handlers and children of fork(2). There all that it knows is
// wiped by the kernel, and the child begins a log of its own.
//
// With an advice file (objtrace/tracker/advice.h) it also places what the sites that are named
// there allocate in arenas.

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "objtrace/tracker/advice.h"
#include "objtrace/tracker/arenas.h"
#include "objtrace/tracker/log.h"

#define TMPROF_EXPORT __attribute__((visibility("default")))

namespace tmprof::objtrace {
namespace {

constexpr std::uint64_t kHashFactor = 0x9E3779B97F4A7C15;  // 2^64 / the golden ratio
// A byte for each page of 4 KiB, modulo 4 GiB: 1 MiB, of which a cache and memory hold what the
// program's own memory needs. Of the lower half of an address no more has to be cut off.
constexpr int kFilterShift = 20;
// 2^17 x 8 slots: the million objects at once that docs/objects.md promises, 8 MiB at most.
constexpr int kBucketsShift = 17;
constexpr int kBucketSlots = 8;  // of a cache line
// A page has so many buckets that it may use: with 128 objects, as many as malloc(3) puts into 4
// KiB, it fills 16, and others may be there before.
constexpr std::uint64_t kPageBuckets = 64;
// As many as half of a log's sites (kLogSites); 4 ways as in first-level caches.
constexpr std::uint64_t kKnownSets = 512;
constexpr std::uint32_t kKnownWays = 4;
constexpr int kOwnFrames = 2;  // Record() and the function that the program called

std::uint64_t HashOf(std::uint64_t value) {
  value *= kHashFactor;
  return value ^ value >> 32;
}

// The next ones in the order of libraries. Found at the first call, before there are threads.
struct NextFunctions {
  void* (*malloc)(std::size_t);
  void* (*calloc)(std::size_t, std::size_t);
  void* (*realloc)(void*, std::size_t);
  void (*free)(void*);
  int (*posix_memalign)(void**, std::size_t, std::size_t);
  void* (*aligned_alloc)(std::size_t, std::size_t);
  void* (*memalign)(std::size_t, std::size_t);
  void* (*valloc)(std::size_t);
  void* (*pvalloc)(std::size_t);
  void* (*mmap)(void*, std::size_t, int, int, int, off_t);
  int (*munmap)(void*, std::size_t);
  void* (*mremap)(void*, std::size_t, std::size_t, int, ...);
  std::size_t (*usable)(void*);
  int (*pthread_create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  int (*thrd_create)(thrd_t*, thrd_start_t, void*);
};
NextFunctions next;
bool finding_next = false;

// What finding them allocates.
alignas(16) std::byte early[1 << 16];
std::size_t early_used = 0;

void* AllocateEarly(std::size_t bytes) {
  const std::size_t rounded = (bytes + 15) / 16 * 16;
  if (rounded < bytes || rounded > sizeof(early) - early_used) return nullptr;
  void* object = early + early_used;
  early_used += rounded;
  return object;
}

bool IsEarly(const void* object) {
  return reinterpret_cast<std::uintptr_t>(object) - reinterpret_cast<std::uintptr_t>(early) <
         sizeof(early);
}

template <typename Function>
void Find(Function& function, const char* name) {
  function = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// False while it is at it.
bool FindNext() {
  if (finding_next) return false;
  finding_next = true;
  NextFunctions found{};
  Find(found.malloc, "malloc");
  Find(found.calloc, "calloc");
  Find(found.realloc, "realloc");
  Find(found.free, "free");
  Find(found.posix_memalign, "posix_memalign");
  Find(found.aligned_alloc, "aligned_alloc");
  Find(found.memalign, "memalign");
  Find(found.valloc, "valloc");
  Find(found.pvalloc, "pvalloc");
  Find(found.mmap, "mmap");
  Find(found.munmap, "munmap");
  Find(found.mremap, "mremap");
  Find(found.usable, "malloc_usable_size");
  Find(found.pthread_create, "pthread_create");
  Find(found.thrd_create, "thrd_create");
  next = found;
  finding_next = false;
  return true;
}

bool HasNext() { return __builtin_expect(next.malloc != nullptr, 1) || FindNext(); }

// What the environment asks for; the same in forked children.
struct Request {
  std::uint64_t threshold = UINT64_MAX;  // nothing is asked for
  std::uint64_t interval = 0;
  char folder[256] = {};
} request;

// A stack that was unwound: where its return addresses lay, from the frame of Record() up. The same
// ones in the same places are the same stack: what is read next lies in the frame of the call that
// was just found again.
struct KnownStack {
  std::atomic<std::uint32_t> turn;  // odd: it is being written
  std::atomic<std::uint32_t> site;
  std::atomic<std::uint32_t> depth;  // 0: none
  std::atomic<std::uint32_t> offset[kLogFrames];
  std::atomic<std::uint64_t> base;
  std::atomic<std::uint64_t> frame[kLogFrames];
};

// Wiped in a forked child.
struct State {
  enum : std::uint32_t { kClosed, kOpening, kOpen, kRefused };
  std::atomic<std::uint32_t> phase;
  AllocationLog* log;
  std::atomic<std::uint32_t> site_buckets[2 * kLogSites];  // IDs by hash; open addressing
  KnownStack known[kKnownSets][kKnownWays];
  std::atomic<std::uint8_t> filter[1 << kFilterShift];  // tracked addresses of a page; 255 stays
  // That found the bucket full, and lie in their page's next ones; 255 stays.
  std::atomic<std::uint8_t> passed[1 << kBucketsShift];
  alignas(64) std::atomic<std::uint64_t> tracked[1 << kBucketsShift][kBucketSlots];
};
State* state = nullptr;

// What most calls need to know, which then end in the next function, without a frame of their own.
// Set where programs are tracked and nothing is placed; until then, all of them look at more.
std::uint64_t small_below = 0;  // bytes: of smaller ones a share is recorded
std::atomic<std::uint8_t> no_tracked_pages[1 << kFilterShift];      // never written, so no memory
const std::atomic<std::uint8_t>* tracked_pages = no_tracked_pages;  // then State::filter
void AnyFree(void* object);
std::size_t AnyUsableBytes(void* object);
void (*free_untracked)(void*) = AnyFree;  // what no tracked page has
std::size_t (*usable_bytes)(void*) = AnyUsableBytes;
#define TMPROF_SHORT __attribute__((optimize("omit-frame-pointer", "optimize-sibling-calls")))

__thread bool within __attribute__((tls_model("initial-exec"))) = false;
__thread std::int64_t bytes_to_sample __attribute__((tls_model("initial-exec"))) = 0;
__thread std::uint64_t random_state __attribute__((tls_model("initial-exec"))) = 0;
__thread std::uint64_t recent_ticks __attribute__((tls_model("initial-exec"))) = 0;
__thread std::uint64_t recent_ns __attribute__((tls_model("initial-exec"))) = 0;

// What the tracker itself calls is not tracked.
class Within {
 public:
  Within() { within = true; }
  ~Within() { within = false; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;
};

std::uint64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Of events: a clock costs more than all else of one (bench/objects_calls). It may be early by so
// many ticks of the processor's counter, 16 to 66 us at 4 to 1 GHz.
std::uint64_t RecentNs() {
  constexpr std::uint64_t kRecentTicks = 1 << 16;
  const std::uint64_t ticks = __builtin_ia32_rdtsc();
  if (ticks - recent_ticks < kRecentTicks)
    return recent_ns;  // false also where it has stepped back
  recent_ns = NowNs();
  recent_ticks = ticks;  // last: a signal handler may come between
  return recent_ns;
}

// Whether somebody takes events.
bool IsRecorded() {
  char path[sizeof(Request::folder) + sizeof(kTrackLock) + 1];
  std::snprintf(path, sizeof(path), "%s/%s", request.folder, kTrackLock);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(fd);
  return locked;
}

bool HasRoom() {
  struct statvfs filesystem{};
  return ::statvfs(request.folder, &filesystem) == 0 && filesystem.f_frsize != 0 &&
         HasRoomForLog(filesystem.f_blocks, filesystem.f_bavail, filesystem.f_frsize);
}

// Of a file of this process in the folder; below 0: it cannot be made.
struct Created {
  char path[sizeof(Request::folder) + 64];
  int fd;

  Created(std::uint64_t now, const char* suffix) {
    std::snprintf(path, sizeof(path), "%s/%d-%llu%s", request.folder, static_cast<int>(::getpid()),
                  static_cast<unsigned long long>(now), suffix);
    fd = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  }
};

// For the recorder to say: the program's own output is not ours.
void TellOfNoRoom(std::uint64_t now) {
  const Created told(now, kRefusedSuffix);
  if (told.fd >= 0) ::close(told.fd);
}

AllocationLog* MakeLog() {
  if (!IsRecorded()) return nullptr;
  const std::uint64_t now = NowNs();
  if (!HasRoom()) {
    TellOfNoRoom(now);
    return nullptr;
  }
  const auto [path, fd] = Created(now, kLogSuffix);
  if (fd < 0) return nullptr;
  void* mapped = MAP_FAILED;
  if (::posix_fallocate(fd, 0, sizeof(AllocationLog)) == 0) {
    mapped = next.mmap(nullptr, sizeof(AllocationLog), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  ::close(fd);
  if (mapped == MAP_FAILED) {
    ::unlink(path);
    TellOfNoRoom(now);
    return nullptr;
  }
  auto* log = static_cast<AllocationLog*>(mapped);
  for (std::uint64_t i = 0; i < kLogEvents; ++i) {
    log->event[i].turn.store(i, std::memory_order_relaxed);
  }
  log->pid = static_cast<std::uint64_t>(::getpid());
  log->begin_ns = now;
  log->sites.store(1, std::memory_order_relaxed);
  log->magic.store(kLogMagic, std::memory_order_release);
  return log;
}

// Null where nobody takes events, or while another thread opens it.
AllocationLog* Log() {
  const std::uint32_t phase = state->phase.load(std::memory_order_acquire);
  if (__builtin_expect(phase == State::kOpen, 1)) return state->log;
  std::uint32_t closed = State::kClosed;
  if (phase != State::kClosed || !state->phase.compare_exchange_strong(closed, State::kOpening)) {
    return nullptr;
  }
  const int error = errno;
  state->log = MakeLog();
  state->phase.store(state->log != nullptr ? State::kOpen : State::kRefused,
                     std::memory_order_release);
  errno = error;
  return state->log;
}

void AddEvent(AllocationLog& log, LogEventKind kind, std::uint64_t address, std::uint64_t bytes,
              std::uint32_t site, bool is_sampled) {
  std::uint64_t at = log.written.load(std::memory_order_relaxed);
  LogEvent* event = nullptr;
  while (true) {
    event = &log.event[at % kLogEvents];
    const std::uint64_t turn = event->turn.load(std::memory_order_acquire);
    if (turn == at) {
      if (log.written.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) break;
    } else if (turn < at) {
      log.lost.fetch_add(1, std::memory_order_relaxed);
      return;
    } else {
      at = log.written.load(std::memory_order_relaxed);
    }
  }
  event->address = address;
  event->bytes = bytes;
  event->time_ns = RecentNs();
  event->kind = kind;
  event->site = site;
  event->is_sampled = is_sampled ? 1 : 0;
  event->turn.store(at + 1, std::memory_order_release);
}

// Modules and sites.

// The dynamic linker calls the program itself nothing.
void CopyPath(const link_map& from, char (&path)[kLogPathBytes]) {
  if (from.l_name[0] == '\0') {
    const ssize_t length = ::readlink("/proc/self/exe", path, kLogPathBytes - 1);
    path[std::max<ssize_t>(length, 0)] = '\0';
  } else {
    std::strncpy(path, from.l_name, kLogPathBytes - 1);
  }
}

// Without the dynamic linker's lock, which the caller may hold (glibc 2.35). False: the module of
// this address may not be there yet.
bool KeepModule(AllocationLog& log, std::uint64_t address) {
  dl_find_object found{};
  if (::_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return true;
  const auto start = reinterpret_cast<std::uint64_t>(found.dlfo_map_start);
  const auto end = reinterpret_cast<std::uint64_t>(found.dlfo_map_end);
  const std::uint64_t bias = found.dlfo_link_map->l_addr;
  char path[kLogPathBytes] = {};
  CopyPath(*found.dlfo_link_map, path);
  const auto is_known = [&] {
    // Of those that lay there, the last one.
    for (std::uint32_t i = log.modules.load(std::memory_order_acquire); i > 0; --i) {
      const LogModule& module = log.module[i - 1];
      if (module.start >= end || module.end <= start) continue;
      return module.start == start && module.bias == bias && std::strcmp(module.path, path) == 0;
    }
    return false;
  };
  if (is_known()) return true;
  // A signal handler must not wait for what it has interrupted.
  if (log.modules_lock.exchange(1, std::memory_order_acquire) != 0) return false;
  const std::uint32_t at = log.modules.load(std::memory_order_relaxed);
  if (!is_known() && at < kLogModules) {
    LogModule& module = log.module[at];
    module.start = start;
    module.end = end;
    module.bias = bias;
    std::memcpy(module.path, path, sizeof(path));
    log.modules.store(at + 1, std::memory_order_release);
  }
  log.modules_lock.store(0, std::memory_order_release);
  return true;
}

std::uint32_t AddSite(AllocationLog& log, const std::uint64_t* frames, std::uint32_t depth) {
  std::uint32_t id = log.sites.load(std::memory_order_relaxed);
  do {
    if (id == kLogSites) return 0;
  } while (!log.sites.compare_exchange_weak(id, id + 1, std::memory_order_relaxed));
  LogSite& site = log.site[id];
  site.depth = depth;
  std::memcpy(site.frames, frames, depth * sizeof(*frames));
  bool all_are_there = true;
  for (std::uint32_t i = 0; i < depth; ++i) all_are_there &= KeepModule(log, frames[i] - 1);
  site.modules =
      all_are_there ? log.modules.load(std::memory_order_acquire) : kAllModulesThereWillBe;
  site.ready.store(1, std::memory_order_release);
  return id;
}

std::uint32_t InternSite(AllocationLog& log, const std::uint64_t* frames, std::uint32_t depth) {
  std::uint64_t hash = depth;
  for (std::uint32_t i = 0; i < depth; ++i) hash = HashOf(hash ^ frames[i]);
  const auto is = [&](std::uint32_t id) {
    const LogSite& site = log.site[id];
    return site.ready.load(std::memory_order_acquire) != 0 && site.depth == depth &&
           std::memcmp(site.frames, frames, depth * sizeof(*frames)) == 0;
  };
  constexpr std::uint64_t kBuckets = 2 * kLogSites;
  for (std::uint64_t probe = 0; probe < kBuckets; ++probe) {
    std::atomic<std::uint32_t>& bucket = state->site_buckets[(hash + probe) % kBuckets];
    std::uint32_t id = bucket.load(std::memory_order_acquire);
    if (id == 0) {
      const std::uint32_t added = AddSite(log, frames, depth);
      if (added == 0) break;
      if (bucket.compare_exchange_strong(id, added, std::memory_order_release)) return added;
      // Another thread's is there; this ID stays without a bucket.
    }
    if (is(id)) return id;
  }
  return 0;
}

struct Walk {
  static constexpr int kMost = kOwnFrames + kLogFrames;
  std::uint64_t address[kMost];
  std::uint64_t place[kMost];  // on the stack
  int depth = 0;
};

_Unwind_Reason_Code AddFrame(_Unwind_Context* context, void* into) {
  auto& walk = *static_cast<Walk*>(into);
  const std::uint64_t address = _Unwind_GetIP(context);
  if (walk.depth == Walk::kMost || address == 0) return _URC_END_OF_STACK;
  walk.address[walk.depth] = address;
  walk.place[walk.depth] = _Unwind_GetCFA(context) - sizeof(address);
  ++walk.depth;
  return _URC_NO_REASON;
}

std::uint64_t ReadStack(std::uint64_t place) {
  std::uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(place), sizeof(value));
  return value;
}

// 0: it is another one.
std::uint32_t SiteIfSame(const KnownStack& known, std::uint64_t base) {
  const std::uint32_t turn = known.turn.load(std::memory_order_acquire);
  if (turn % 2 != 0 || known.base.load(std::memory_order_relaxed) != base) return 0;
  const std::uint32_t depth = known.depth.load(std::memory_order_relaxed);
  const std::uint32_t site = known.site.load(std::memory_order_relaxed);
  std::uint32_t offset[kLogFrames];
  std::uint64_t frame[kLogFrames];
  for (std::uint32_t i = 0; i < std::min(depth, kLogFrames); ++i) {
    offset[i] = known.offset[i].load(std::memory_order_relaxed);
    frame[i] = known.frame[i].load(std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  if (depth == 0 || known.turn.load(std::memory_order_relaxed) != turn) return 0;
  for (std::uint32_t i = 0; i < depth; ++i) {
    if (ReadStack(base + offset[i]) != frame[i]) return 0;
  }
  return site;
}

void Know(KnownStack& known, std::uint64_t base, const Walk& walk, std::uint32_t site) {
  const int depth = walk.depth - kOwnFrames;
  for (int i = kOwnFrames; i < walk.depth; ++i) {
    const std::uint64_t offset = walk.place[i] - base;  // wraps around where it lies below
    if (offset > UINT32_MAX || ReadStack(walk.place[i]) != walk.address[i]) return;
  }
  std::uint32_t turn = known.turn.load(std::memory_order_relaxed);
  if (turn % 2 != 0 ||
      !known.turn.compare_exchange_strong(turn, turn + 1, std::memory_order_acquire)) {
    return;
  }
  std::atomic_thread_fence(std::memory_order_release);
  known.base.store(base, std::memory_order_relaxed);
  known.depth.store(static_cast<std::uint32_t>(depth), std::memory_order_relaxed);
  known.site.store(site, std::memory_order_relaxed);
  for (int i = 0; i < depth; ++i) {
    known.offset[i].store(static_cast<std::uint32_t>(walk.place[kOwnFrames + i] - base),
                          std::memory_order_relaxed);
    known.frame[i].store(walk.address[kOwnFrames + i], std::memory_order_relaxed);
  }
  known.turn.store(turn + 2, std::memory_order_release);
}

// A part of Record(): kOwnFrames.
__attribute__((always_inline)) inline std::uint32_t SiteOfCaller(AllocationLog& log,
                                                                 const void* caller) {
  const auto base = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  const std::uint64_t hash = HashOf(base ^ reinterpret_cast<std::uint64_t>(caller) << 16);
  KnownStack* known = state->known[hash % kKnownSets];
  for (std::uint32_t way = 0; way < kKnownWays; ++way) {
    if (const std::uint32_t site = SiteIfSame(known[way], base); site != 0) return site;
  }
  Walk walk;
  _Unwind_Backtrace(AddFrame, &walk);
  if (walk.depth <= kOwnFrames) return 0;
  const std::uint32_t site = InternSite(log, walk.address + kOwnFrames,
                                        static_cast<std::uint32_t>(walk.depth - kOwnFrames));
  if (site != 0) Know(known[site % kKnownWays], base, walk, site);
  return site;
}

// Tracked addresses.

std::uint64_t FilterIndex(std::uint64_t address) {
  static_assert(kFilterShift == 32 - 12);
  return static_cast<std::uint32_t>(address) >> 12;
}

std::atomic<std::uint8_t>& FilterOf(std::uint64_t address) {
  return state->filter[FilterIndex(address)];
}

// Of the n-th bucket of the address's page. What is near has buckets that are near, so that few
// pages of them are ever used.
std::uint64_t BucketOf(std::uint64_t address, std::uint64_t n) {
  const std::uint64_t page = address >> 12;
  const std::uint64_t region = address >> 21;
  return (page + HashOf(region + n * kHashFactor)) & ((1 << kBucketsShift) - 1);
}

// Counts that have reached 255 stay, as they may be more.
void Increment(std::atomic<std::uint8_t>& counter) {
  std::uint8_t count = counter.load(std::memory_order_relaxed);
  while (count != UINT8_MAX && !counter.compare_exchange_weak(count, count + 1)) continue;
}

void Decrement(std::atomic<std::uint8_t>& counter) {
  std::uint8_t count = counter.load(std::memory_order_relaxed);
  while (count != UINT8_MAX && !counter.compare_exchange_weak(count, count - 1)) continue;
}

// Of the address's first `buckets`, each of which it has passed.
void ComeBack(std::uint64_t address, std::uint64_t buckets) {
  for (std::uint64_t n = 0; n < buckets; ++n) Decrement(state->passed[BucketOf(address, n)]);
}

// Whether `from` was in the bucket, and is `to` now.
bool Replace(std::uint64_t bucket, std::uint64_t from, std::uint64_t to) {
  for (std::atomic<std::uint64_t>& slot : state->tracked[bucket]) {
    std::uint64_t there = from;
    if (slot.load(std::memory_order_relaxed) == from &&
        slot.compare_exchange_strong(there, to, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

// False where there is no room.
bool Track(std::uint64_t address) {
  for (std::uint64_t n = 0; n < kPageBuckets; ++n) {
    const std::uint64_t bucket = BucketOf(address, n);
    if (Replace(bucket, 0, address)) {
      Increment(FilterOf(address));
      return true;
    }
    Increment(state->passed[bucket]);
  }
  ComeBack(address, kPageBuckets);
  return false;
}

bool Untrack(std::uint64_t address) {
  for (std::uint64_t n = 0; n < kPageBuckets; ++n) {
    const std::uint64_t bucket = BucketOf(address, n);
    if (Replace(bucket, address, 0)) {
      Decrement(FilterOf(address));
      ComeBack(address, n);
      return true;
    }
    if (state->passed[bucket].load(std::memory_order_relaxed) == 0) return false;
  }
  return false;
}

// xorshift64 (Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003).
std::uint64_t NextRandom() {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

// Exponential, with the interval as its mean, rounded up: by von Neumann's comparisons of uniform
// numbers (Knuth, TAOCP 2, 3.4.1, "Exponential distribution"), which need no logarithm: the first
// one of a descending run of odd length is the fraction, the runs of even length before it are the
// whole part.
std::int64_t DrawDistance() {
  std::uint64_t whole = 0;
  while (true) {
    const std::uint64_t first = NextRandom();
    std::uint64_t last = first;
    bool is_odd = true;
    for (std::uint64_t next = NextRandom(); next < last; next = NextRandom()) {
      last = next;
      is_odd = !is_odd;
    }
    if (is_odd) {
      const auto part = static_cast<std::uint64_t>(
          static_cast<unsigned __int128>(first) * request.interval >> 64);
      return static_cast<std::int64_t>(whole * request.interval + part + 1);
    }
    ++whole;
  }
}

// Points lie in the bytes that a thread allocates at exponential distances; an allocation that has
// one, of b bytes 1 - exp(-b / interval) of all, is recorded. What is left of it says nothing of
// where the next point lies: the distance is drawn from its end on.
//
// True: no point lies in these bytes. Else IsSampled() says whether one does.
__attribute__((always_inline)) inline bool IsPassed(std::uint64_t bytes) {
  bool is_passed = false;  // by what the subtraction leaves, which GCC 12 would compute again
  asm("subq %2, %0" : "+m"(bytes_to_sample), "=@ccg"(is_passed) : "r"(bytes));
  return __builtin_expect(is_passed, 1);
}

bool IsSampled() {
  if (request.interval == 0) {
    bytes_to_sample = INT64_MAX;
    return false;
  }
  if (random_state == 0) {  // the thread's first
    random_state = HashOf(NowNs() ^ reinterpret_cast<std::uint64_t>(&within)) | 1;
    bytes_to_sample += DrawDistance();
    if (bytes_to_sample > 0) return false;
  }
  bytes_to_sample = DrawDistance();
  return true;
}

// `caller` is a return address of the program.
__attribute__((noinline)) void Record(void* object, std::uint64_t bytes, LogEventKind kind,
                                      bool is_sampled, const void* caller) {
  const Within here;
  AllocationLog* log = Log();
  if (log == nullptr) return;
  const auto address = reinterpret_cast<std::uint64_t>(object);
  if (kind == LogEventKind::kAllocated && !Track(address)) {
    log->lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const int error = errno;
  AddEvent(*log, kind, address, bytes, SiteOfCaller(*log, caller), is_sampled);
  errno = error;
}

// Inlined into each function that the program calls: kOwnFrames.
// `is_counted`: IsPassed() was asked.
__attribute__((always_inline)) inline void* Allocated(void* object, std::uint64_t bytes,
                                                      bool is_counted = false) {
  if (state == nullptr || object == nullptr) return object;
  if (within) {
    if (is_counted) bytes_to_sample += static_cast<std::int64_t>(bytes);
    return object;
  }
  const bool is_small = bytes < request.threshold;
  if (is_small && ((!is_counted && IsPassed(bytes)) || !IsSampled())) return object;
  Record(object, bytes, LogEventKind::kAllocated, is_small, __builtin_return_address(0));
  asm volatile("");  // no tail call: its frame is counted
  return object;
}

// Before it is freed: afterwards another thread may have it.
bool Freeing(void* object) {
  const auto address = reinterpret_cast<std::uint64_t>(object);
  if (state == nullptr || object == nullptr) return false;
  if (FilterOf(address).load(std::memory_order_relaxed) == 0) return false;
  if (within || !Untrack(address)) return false;
  const Within here;
  if (AllocationLog* log = Log()) AddEvent(*log, LogEventKind::kFreed, address, 0, 0, false);
  return true;
}

void TellOfRange(LogEventKind kind, const void* start, std::uint64_t bytes) {
  if (state == nullptr || within || bytes == 0) return;
  const Within here;
  if (AllocationLog* log = Log()) {
    AddEvent(*log, kind, reinterpret_cast<std::uint64_t>(start), bytes, 0, false);
  }
}

// What stays is nobody else's meanwhile; only what is cut off is told of before it goes.
void* RemapInPlace(void* old, std::uint64_t old_bytes, std::uint64_t bytes, int flags,
                   const void* caller) {
  constexpr std::uint64_t kPageBytes = 4096;
  const std::uint64_t kept = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const char* cut = static_cast<char*>(old) + kept;
  const std::uint64_t cut_bytes = kept < old_bytes ? old_bytes - kept : 0;
  TellOfRange(LogEventKind::kGoing, cut, cut_bytes);
  void* mapped = next.mremap(old, old_bytes, bytes, flags, nullptr);
  TellOfRange(mapped == MAP_FAILED ? LogEventKind::kStayed : LogEventKind::kGone, cut, cut_bytes);
  if (mapped != MAP_FAILED && bytes > old_bytes && state != nullptr && !within) {
    TellOfRange(LogEventKind::kUnmapped, old, old_bytes);
    Record(mapped, bytes, LogEventKind::kMapped, false, caller);
  }
  return mapped;
}

// Stacks of threads.

pthread_key_t thread_ends;  // its destructor tells
bool tells_of_threads = false;

// Of POSIX, with a pointer as its result, or of C11, with a number.
template <typename Result>
struct ThreadStart {
  Result (*function)(void*);
  void* argument;
};

void TellThreadBegins() {
  const Within here;
  AllocationLog* log = Log();
  pthread_attr_t attributes;
  if (log == nullptr || ::pthread_getattr_np(::pthread_self(), &attributes) != 0) return;
  void* start = nullptr;
  std::size_t bytes = 0;
  if (::pthread_attr_getstack(&attributes, &start, &bytes) == 0 &&
      ::pthread_setspecific(thread_ends, &thread_ends) == 0) {
    AddEvent(*log, LogEventKind::kThreadBegan, reinterpret_cast<std::uint64_t>(start), bytes,
             static_cast<std::uint32_t>(::gettid()), false);
  }
  ::pthread_attr_destroy(&attributes);
}

void TellThreadEnds(void* /*any*/) {
  const Within here;
  AllocationLog* log = Log();
  char name[kThreadNameBytes] = {};
  if (log == nullptr || ::prctl(PR_GET_NAME, name) != 0) return;
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  SetThreadName(name, address, bytes);
  AddEvent(*log, LogEventKind::kThreadEnded, address, bytes, static_cast<std::uint32_t>(::gettid()),
           false);
}

// Leaves no frame below the thread's function: the stacks of what it allocates are what they were.
template <typename Result>
__attribute__((optimize("optimize-sibling-calls"))) Result BeginThread(void* from) {
  const auto start = *static_cast<ThreadStart<Result>*>(from);
  next.free(from);
  TellThreadBegins();
  return start.function(start.argument);
}

// By `create`, of a function and its argument: 0, or what is wrong.
template <typename Result, typename Create>
int CreateThread(Result (*function)(void*), void* argument, Create create) {
  void* start = tells_of_threads ? next.malloc(sizeof(ThreadStart<Result>)) : nullptr;
  if (start == nullptr) return create(function, argument);
  *static_cast<ThreadStart<Result>*>(start) = {.function = function, .argument = argument};
  const int error = create(BeginThread<Result>, start);
  if (error != 0) next.free(start);
  return error;
}

// Placing.

Advice* advice = nullptr;  // null: everything stays where malloc(3) has it
Arenas arenas;

// Of an allocation by the call that returns to `caller`, which several sites share.
__attribute__((noinline)) std::int32_t LookDeeper(Advice::Place place, std::uint64_t caller) {
  const Within here;
  Walk walk;
  _Unwind_Backtrace(AddFrame, &walk);
  int at = 0;
  while (at < walk.depth && walk.address[at] != caller) ++at;
  for (++at; at < walk.depth; ++at) {
    if (walk.address[at] == walk.address[at - 1]) continue;  // recursion: the file has it once
    if (!advice->Descend(place, walk.address[at])) return Advice::kStay;
    const std::int32_t verdict = advice->VerdictOf(place);
    if (verdict != Advice::kLookDeeper) return verdict;
  }
  return Advice::kStay;
}

struct Stderr {
  bool is_known = false;
  dev_t device = 0;
  ino_t inode = 0;

  static Stderr Now() {
    struct stat status{};
    if (::fstat(STDERR_FILENO, &status) != 0) return {};
    return {.is_known = true, .device = status.st_dev, .inode = status.st_ino};
  }
  bool Is(const Stderr& other) const {
    return is_known && other.is_known && device == other.device && inode == other.inode;
  }
} stderr_at_begin;

// A bit for each arena that is said to be full, shared with forked children. Null: there is no
// memory for it.
std::atomic<std::uint64_t>* said_full = nullptr;

// On descriptor 2, unless it would wait. A pipe that nobody reads ends nobody by a signal.
void Say(const char* text, std::size_t bytes) {
  pollfd place{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&place, 1, 0) != 1 || place.revents != POLLOUT) return;
  sigset_t pipes;
  sigset_t before;
  sigset_t pending;
  ::sigemptyset(&pipes);
  ::sigaddset(&pipes, SIGPIPE);
  ::sigpending(&pending);
  ::pthread_sigmask(SIG_BLOCK, &pipes, &before);
  // As much as fits into a pipe that is ready (PIPE_BUF).
  if (::write(STDERR_FILENO, text, bytes) < 0 && errno == EPIPE &&
      ::sigismember(&pending, SIGPIPE) == 0) {
    const timespec at_once{};
    ::sigtimedwait(&pipes, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Once for each module and process. In any thread, or a signal handler.
__attribute__((noinline)) void TellOfOtherBuilds() {
  const int error = errno;
  while (const char* module = advice->TakeOtherBuild()) {
    // What the program has opened there since is not ours.
    if (!Stderr::Now().Is(stderr_at_begin)) continue;
    char text[512];
    const int bytes = std::snprintf(text, sizeof(text),
                                    "tmprof: advice: '%s' is not the build that the advice is of; "
                                    "nothing that it calls is placed\n",
                                    module);
    Say(text, std::min<std::size_t>(bytes, sizeof(text) - 1));
  }
  errno = error;
}

std::int32_t ArenaOf(const void* caller) {
  const auto address = reinterpret_cast<std::uint64_t>(caller);
  const Advice::Place place = advice->First(address);
  if (__builtin_expect(advice->HasOtherBuild(), 0)) TellOfOtherBuilds();
  if (__builtin_expect(place == Advice::kOutermost, 1)) return Advice::kStay;
  const std::int32_t verdict = advice->VerdictOf(place);
  return verdict == Advice::kLookDeeper ? LookDeeper(place, address) : verdict;
}

// Once for each arena, by the process or a forked child. In any thread, or a signal handler.
__attribute__((noinline)) void TellIfFull(std::uint32_t arena) {
  if (!arenas.IsNewlyFull(arena)) return;
  const int error = errno;
  const std::uint64_t bit = std::uint64_t{1} << arena;
  // What the program has opened there since is not ours.
  if (!Stderr::Now().Is(stderr_at_begin) ||
      (said_full != nullptr && (said_full->fetch_or(bit) & bit) != 0)) {
    errno = error;
    return;
  }
  char text[128];
  const int bytes = std::snprintf(
      text, sizeof(text), "tmprof: advice: arena %u is full; malloc has the rest of its objects\n",
      arena);
  Say(text, std::min<std::size_t>(bytes, sizeof(text) - 1));
  errno = error;
}

// Null where malloc(3) is to do it.
__attribute__((always_inline)) inline void* Placed(std::uint64_t bytes, const void* caller,
                                                   bool zeros = false) {
  if (__builtin_expect(advice == nullptr, 1) || within) return nullptr;
  const std::int32_t arena = ArenaOf(caller);
  if (arena < 0) return nullptr;
  const auto number = static_cast<std::uint32_t>(arena);
  void* placed = zeros ? arenas.AllocateZeros(number, bytes) : arenas.Allocate(number, bytes);
  if (__builtin_expect(placed == nullptr, 0)) TellIfFull(number);
  return placed;
}

void* MovePlaced(void* object, std::uint64_t bytes) {
  const std::uint32_t arena = arenas.ArenaOf(object);
  void* moved = arenas.Allocate(arena, bytes);
  if (moved == nullptr) {
    TellIfFull(arena);
    moved = next.malloc(bytes);
  }
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, object, std::min<std::uint64_t>(bytes, arenas.UsableBytes(object)));
  return moved;
}

// What the program calls ends in these, which take the place of its frame: kOwnFrames.

__attribute__((noinline)) void* AnyMalloc(std::size_t bytes, bool is_counted) {
  if (!HasNext()) return AllocateEarly(bytes);
  void* placed = Placed(bytes, __builtin_return_address(0));
  return Allocated(placed != nullptr ? placed : next.malloc(bytes), bytes, is_counted);
}

// Their product is known to be no more than fits.
__attribute__((noinline)) void* AnyCalloc(std::size_t elements, std::size_t element_bytes,
                                          bool is_counted) {
  const std::size_t bytes = elements * element_bytes;
  if (!HasNext()) return AllocateEarly(bytes);  // zeros, as it is never freed
  void* placed = Placed(bytes, __builtin_return_address(0), true);
  return Allocated(placed != nullptr ? placed : next.calloc(elements, element_bytes), bytes,
                   is_counted);
}

__attribute__((noinline)) void AnyFree(void* object) {
  if (IsEarly(object)) return;
  if (!HasNext()) return;
  Freeing(object);
  if (arenas.Has(object)) return arenas.Free(object);
  next.free(object);
}

__attribute__((noinline)) void* AnyRealloc(void* object, std::size_t bytes, bool is_counted) {
  if (!HasNext()) return AllocateEarly(bytes);
  if (IsEarly(object)) {
    void* moved = next.malloc(bytes);
    const auto room = static_cast<size_t>(early + sizeof(early) - static_cast<std::byte*>(object));
    if (moved != nullptr) std::memcpy(moved, object, std::min(bytes, room));
    return moved;
  }
  if (arenas.Has(object)) {
    const std::uint64_t room = arenas.UsableBytes(object);
    const bool stays = bytes > 0 && bytes <= room && bytes > room / 2;
    void* moved = stays ? object : bytes > 0 ? MovePlaced(object, bytes) : nullptr;
    if (moved == nullptr && bytes > 0) return nullptr;
    Freeing(object);
    if (!stays) arenas.Free(object);
    return Allocated(moved, bytes, is_counted);
  }
  if (void* placed = bytes > 0 ? Placed(bytes, __builtin_return_address(0)) : nullptr) {
    if (object != nullptr) {
      std::memcpy(placed, object, std::min(bytes, next.usable(object)));
      Freeing(object);
      next.free(object);
    }
    return Allocated(placed, bytes, is_counted);
  }
  const bool was_tracked = Freeing(object);
  void* moved = next.realloc(object, bytes);
  if (moved == nullptr && was_tracked && bytes > 0) {  // it is still there
    Allocated(object, next.usable(object));
    return nullptr;
  }
  return Allocated(moved, bytes, is_counted);
}

__attribute__((noinline)) std::size_t AnyUsableBytes(void* object) {
  if (object == nullptr || IsEarly(object) || !HasNext()) return 0;
  return arenas.Has(object) ? arenas.UsableBytes(object) : next.usable(object);
}

// Whether it is none of those that need more than `free_untracked`.
__attribute__((always_inline)) inline bool IsUntracked(const void* object) {
  const auto address = reinterpret_cast<std::uint64_t>(object);
  return __builtin_expect(tracked_pages[FilterIndex(address)].load(std::memory_order_relaxed) == 0,
                          1);
}

// Inlined into what the program calls, which it would be the caller of else.
__attribute__((always_inline)) inline void* ReallocForCaller(void* object, std::size_t bytes) {
  if (bytes >= small_below || !IsUntracked(object)) return AnyRealloc(object, bytes, false);
  if (IsPassed(bytes)) return next.realloc(object, bytes);
  return AnyRealloc(object, bytes, true);
}

// errno's value, or 0.
int Bind(std::uint64_t start, std::uint64_t bytes, std::uint64_t nodes) {
  constexpr int kPreferred = 1;      // MPOL_PREFERRED
  constexpr int kPreferredMany = 5;  // MPOL_PREFERRED_MANY, from Linux 5.15 on
  constexpr unsigned long kMaskBits = 65;
  if (nodes == 0 || ::syscall(SYS_mbind, start, bytes, kPreferredMany, &nodes, kMaskBits, 0) == 0 ||
      ::syscall(SYS_mbind, start, bytes, kPreferred, &nodes, kMaskBits, 0) == 0) {
    return 0;
  }
  return errno;
}

// The file, ending in a zero; null: it cannot be read.
char* ReadAll(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat status{};
  char* text = nullptr;
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    const auto bytes = static_cast<std::size_t>(status.st_size);
    void* memory =
        next.mmap(nullptr, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) {
      text = static_cast<char*>(memory);
      std::size_t read = 0;
      ssize_t now = 0;
      while (read < bytes && (now = ::read(fd, text + read, bytes - read)) > 0) {
        read += static_cast<std::size_t>(now);
      }
    }
  }
  ::close(fd);
  return text;
}

void Complain(const char* path, std::uint32_t line, const char* wrong) {
  char text[512];
  const int length =
      std::snprintf(text, sizeof(text), "tmprof: advice '%s', line %u: %s; nothing is placed\n",
                    path, line, wrong);
  Say(text, std::min<std::size_t>(length, sizeof(text) - 1));
}

void ComplainOfNodes(const char* path, std::uint32_t arena, std::uint64_t nodes, int error) {
  char list[64 * 3 + 1] = "";
  int length = 0;
  for (int node = 0; node < 64; ++node) {
    if ((nodes >> node & 1) == 0) continue;
    length += std::snprintf(list + length, sizeof(list) - static_cast<std::size_t>(length), "%s%d",
                            length > 0 ? "," : "", node);
  }
  char text[512];
  const int bytes = std::snprintf(
      text, sizeof(text),
      "tmprof: advice '%s': arena %u cannot be bound to nodes %s: %s; its objects lie where the "
      "kernel puts them\n",
      path, arena, list, ::strerrorname_np(error));
  Say(text, std::min<std::size_t>(bytes, sizeof(text) - 1));
}

void BeginPlacing() {
  const char* path = std::getenv(kAdviceVariable);
  if (path == nullptr || *path == '\0') return;
  char* text = ReadAll(path);
  if (text == nullptr) return Complain(path, 0, "it cannot be read");
  void* memory = next.mmap(nullptr, sizeof(Advice), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Complain(path, 0, "there is no memory for it");
  auto* made = static_cast<Advice*>(memory);
  std::uint32_t line = 0;
  if (const char* wrong = made->Parse(text, line)) return Complain(path, line, wrong);
  if (made->arenas() == 0) return;  // all is as it was
  if (!arenas.Reserve(made->arenas())) {
    return Complain(path, 0, "there are no addresses for its arenas, which take 64 GiB each");
  }
  for (std::uint32_t arena = 0; arena < made->arenas(); ++arena) {
    const std::uint64_t nodes = made->NodesOf(arena);
    const int error =
        Bind(reinterpret_cast<std::uint64_t>(arenas.StartOf(arena)), kArenaBytes, nodes);
    if (error != 0) ComplainOfNodes(path, arena, nodes, error);
    if (made->RoomOf(arena) > 0) arenas.Bound(arena, made->RoomOf(arena));
  }
  void* shared = next.mmap(nullptr, sizeof(*said_full), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) said_full = static_cast<std::atomic<std::uint64_t>*>(shared);
  stderr_at_begin = Stderr::Now();
  advice = made;
}

void BeginTracking() {
  const char* asked = std::getenv(kTrackVariable);
  if (asked == nullptr) return;
  Request made;
  char* end = nullptr;
  made.threshold = std::strtoull(asked, &end, 10);
  made.interval = std::strtoull(end, &end, 10);
  if (*end++ != ' ' || std::strlen(end) >= sizeof(made.folder)) return;
  std::strcpy(made.folder, end);
  void* memory = next.mmap(nullptr, sizeof(State), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  if (::madvise(memory, sizeof(State), MADV_WIPEONFORK) != 0) {
    next.munmap(memory, sizeof(State));
    return;
  }
  ::madvise(memory, sizeof(State), MADV_NOHUGEPAGE);
  request = made;
  state = static_cast<State*>(memory);
  // What was allocated before the next functions were known is in no page that the filter has.
  if (advice == nullptr && early_used == 0) {
    small_below = request.threshold;
    tracked_pages = state->filter;
    free_untracked = next.free;
    usable_bytes = next.usable;
  }
  tells_of_threads = ::pthread_key_create(&thread_ends, TellThreadEnds) == 0;
  // Or children of one process would all sample the same of what they do alike.
  ::pthread_atfork(nullptr, nullptr, [] { bytes_to_sample = 0, random_state = 0; });
  Log();
}

// Not where a program has more rights than who runs it.
__attribute__((constructor)) void Begin() {
  if (::getauxval(AT_SECURE) != 0 || !HasNext()) return;
  const Within here;
  Walk walk;
  _Unwind_Backtrace(AddFrame, &walk);  // finds what it needs, which may allocate
  BeginPlacing();
  BeginTracking();
}

}  // namespace
}  // namespace tmprof::objtrace

using namespace tmprof::objtrace;

// NOLINTBEGIN(readability-identifier-naming): their names are not ours
extern "C" {

TMPROF_SHORT TMPROF_EXPORT void* malloc(size_t bytes) {
  if (__builtin_expect(bytes >= small_below, 0)) return AnyMalloc(bytes, false);
  if (IsPassed(bytes)) return next.malloc(bytes);
  return AnyMalloc(bytes, true);
}

TMPROF_SHORT TMPROF_EXPORT void* calloc(size_t elements, size_t element_bytes) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  if (__builtin_expect(bytes >= small_below, 0)) return AnyCalloc(elements, element_bytes, false);
  if (IsPassed(bytes)) return next.calloc(elements, element_bytes);
  return AnyCalloc(elements, element_bytes, true);
}

TMPROF_SHORT TMPROF_EXPORT void free(void* object) {
  if (IsUntracked(object)) return free_untracked(object);
  return AnyFree(object);
}

TMPROF_SHORT TMPROF_EXPORT void* realloc(void* object, size_t bytes) {
  return ReallocForCaller(object, bytes);
}

TMPROF_SHORT TMPROF_EXPORT void* reallocarray(void* object, size_t elements, size_t element_bytes) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(elements, element_bytes, &bytes)) {
    errno = ENOMEM;
    return nullptr;
  }
  return ReallocForCaller(object, bytes);
}

TMPROF_SHORT TMPROF_EXPORT size_t malloc_usable_size(void* object) { return usable_bytes(object); }

TMPROF_EXPORT int posix_memalign(void** object, size_t alignment, size_t bytes) {
  if (!HasNext()) return ENOMEM;
  const int error = next.posix_memalign(object, alignment, bytes);
  if (error == 0) Allocated(*object, bytes);
  return error;
}

TMPROF_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) {
  if (!HasNext()) return nullptr;
  return Allocated(next.aligned_alloc(alignment, bytes), bytes);
}

TMPROF_EXPORT void* memalign(size_t alignment, size_t bytes) {
  if (!HasNext()) return nullptr;
  return Allocated(next.memalign(alignment, bytes), bytes);
}

TMPROF_EXPORT void* valloc(size_t bytes) {
  if (!HasNext()) return nullptr;
  return Allocated(next.valloc(bytes), bytes);
}

TMPROF_EXPORT void* pvalloc(size_t bytes) {
  if (!HasNext()) return nullptr;
  return Allocated(next.pvalloc(bytes), bytes);
}

TMPROF_EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                 void* (*function)(void*), void* argument) {
  if (!HasNext()) return EAGAIN;
  return CreateThread(function, argument, [&](void* (*begin)(void*), void* start) {
    return next.pthread_create(thread, attributes, begin, start);
  });
}

TMPROF_EXPORT int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) {
  if (!HasNext()) return thrd_error;
  return CreateThread(function, argument, [&](thrd_start_t begin, void* start) {
    return next.thrd_create(thread, begin, start);
  });
}

TMPROF_EXPORT void* mmap(void* hint, size_t bytes, int protection, int flags, int fd, off_t from) {
  if (!HasNext()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  void* mapped = next.mmap(hint, bytes, protection, flags, fd, from);
  if (mapped != MAP_FAILED && state != nullptr && !within) {
    Record(mapped, bytes, LogEventKind::kMapped, false, __builtin_return_address(0));
  }
  return mapped;
}

TMPROF_EXPORT int munmap(void* start, size_t bytes) {
  if (!HasNext()) {
    errno = EINVAL;
    return -1;
  }
  // Before it is unmapped: afterwards another thread may be given its addresses.
  TellOfRange(LogEventKind::kGoing, start, bytes);
  const int result = next.munmap(start, bytes);
  TellOfRange(result == 0 ? LogEventKind::kGone : LogEventKind::kStayed, start, bytes);
  return result;
}

TMPROF_EXPORT void* mremap(void* old, size_t old_bytes, size_t bytes, int flags, ...) {
  if (!HasNext()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  va_list rest;
  va_start(rest, flags);
  void* wanted = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  const bool stays = (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) == 0 && bytes <= old_bytes;
  if ((flags & MREMAP_MAYMOVE) == 0 || stays) {
    return RemapInPlace(old, old_bytes, bytes, flags, __builtin_return_address(0));
  }
  // Before it is moved: afterwards another thread may be given its addresses.
  TellOfRange(LogEventKind::kGoing, old, old_bytes);
  void* mapped = next.mremap(old, old_bytes, bytes, flags, wanted);
  const bool has_gone = mapped != MAP_FAILED && (flags & MREMAP_DONTUNMAP) == 0;
  TellOfRange(has_gone ? LogEventKind::kGone : LogEventKind::kStayed, old, old_bytes);
  if (mapped != MAP_FAILED && state != nullptr && !within) {
    Record(mapped, bytes, LogEventKind::kMapped, false, __builtin_return_address(0));
  }
  return mapped;
}
}
// NOLINTEND(readability-identifier-naming)

extern "C" TMPROF_EXPORT void* mmap64(void* hint, size_t bytes, int protection, int flags, int fd,
                                      off_t from) __attribute__((alias("mmap")));
