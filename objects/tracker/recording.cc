// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/recording.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "objects/tracker/events.h"
#include "objects/tracker/next.h"
#include "objects/tracker/tracked.h"

namespace tmprof::objtrace {

Request request;
State* state = nullptr;
__thread bool within __attribute__((tls_model("initial-exec"))) = false;

namespace {

// Modules and sites.

// The dynamic linker has an empty name for the program itself.
void CopyPath(const link_map& from, char (&path)[kLogPathBytes]) {
  if (from.l_name[0] == '\0') {
    const ssize_t length = ::readlink("/proc/self/exe", path, kLogPathBytes - 1);
    path[std::max<ssize_t>(length, 0)] = '\0';
  } else {
    std::strncpy(path, from.l_name, kLogPathBytes - 1);
  }
}

// Does not take the dynamic linker's lock, which the caller may hold (glibc 2.35). False: the
// module of this address may be missing.
bool KeepModule(AllocationLog& log, std::uint64_t address) {
  dl_find_object found{};
  if (::_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return true;
  const auto start = reinterpret_cast<std::uint64_t>(found.dlfo_map_start);
  const auto end = reinterpret_cast<std::uint64_t>(found.dlfo_map_end);
  const std::uint64_t bias = found.dlfo_link_map->l_addr;
  char path[kLogPathBytes] = {};
  CopyPath(*found.dlfo_link_map, path);
  const auto is_known = [&] {
    // The last module that lay there counts.
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
  if (!is_known() && at < kLogModules && HasMemory(log.module, log.modules_room, at)) {
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
    if (id == kLogSites || !HasMemory(log.site, log.sites_room, id)) return 0;
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
      // Another thread's ID is there. This one stays without a bucket.
    }
    if (is(id)) return id;
  }
  return 0;
}

std::uint64_t ReadStack(std::uint64_t place) {
  std::uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(place), sizeof(value));
  return value;
}

// Returns 0 if it is another stack.
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
    const std::uint64_t offset = walk.place[i] - base;  // wraps around if it lies below
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

// Inlined into Record(), because of kOwnFrames.
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

}  // namespace

_Unwind_Reason_Code AddFrame(_Unwind_Context* context, void* into) {
  auto& walk = *static_cast<Walk*>(into);
  const std::uint64_t address = _Unwind_GetIP(context);
  if (walk.depth == Walk::kMost || address == 0) return _URC_END_OF_STACK;
  walk.address[walk.depth] = address;
  walk.place[walk.depth] = _Unwind_GetCFA(context) - sizeof(address);
  ++walk.depth;
  return _URC_NO_REASON;
}

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

bool Freeing(void* object) {
  const auto address = reinterpret_cast<std::uint64_t>(object);
  if (state == nullptr || object == nullptr) return false;
  if (!MayBeTracked(address)) return false;
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

}  // namespace tmprof::objtrace
