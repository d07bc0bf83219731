// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/events.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <ctime>

#include "base/units.h"
#include "objects/tracker/next.h"
#include "objects/tracker/state.h"

namespace tmprof::objtrace {
namespace {

__thread std::uint64_t recent_ticks __attribute__((tls_model("initial-exec"))) = 0;
__thread std::uint64_t recent_ns __attribute__((tls_model("initial-exec"))) = 0;

// Returns the time of an event. Reading a clock costs more than the rest of an event
// (bench/objects_calls). The result may be early by up to kRecentTicks of the processor's counter,
// which is 16 us at 4 GHz and 66 us at 1 GHz.
std::uint64_t RecentNs() {
  constexpr std::uint64_t kRecentTicks = 1 << 16;
  const std::uint64_t ticks = __builtin_ia32_rdtsc();
  // The condition is also false if the counter has stepped back.
  if (ticks - recent_ticks < kRecentTicks) return recent_ns;
  recent_ns = NowNs();
  recent_ticks = ticks;  // last, because a signal handler may come between
  return recent_ns;
}

// True if somebody takes events.
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

// A new file of this process in the folder; `fd` below 0: it cannot be created.
struct Created {
  char path[sizeof(Request::folder) + 64];
  int fd;

  Created(std::uint64_t now, const char* suffix) {
    std::snprintf(path, sizeof(path), "%s/%d-%llu%s", request.folder, static_cast<int>(::getpid()),
                  static_cast<unsigned long long>(now), suffix);
    fd = ::open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  }
};

// Tells the recorder, which reports it: the program's own output is not ours.
void TellOfNoRoom(std::uint64_t now) {
  const Created told(now, kRefusedSuffix);
  if (told.fd >= 0) ::close(told.fd);
}

// Fails with EINVAL before Linux 5.14.
int Populate(const void* start, const void* end) {
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
  constexpr std::uint64_t kPage = kBasePageBytes;
  const std::uint64_t first = reinterpret_cast<std::uint64_t>(start) / kPage * kPage;
  const std::uint64_t last = (reinterpret_cast<std::uint64_t>(end) + kPage - 1) / kPage * kPage;
  return ::madvise(reinterpret_cast<void*>(first), last - first, MADV_POPULATE_WRITE);
}

bool Grow(void* array, std::size_t element_bytes, std::uint32_t most,
          std::atomic<std::uint32_t>& room, std::uint32_t index) {
  // Takes some us to allocate, and little of the room of others, which is checked before each
  // growth.
  constexpr std::size_t kAheadBytes = 16 << 10;
  constexpr std::size_t kMostAheadBytes = 64 << 10;
  std::uint32_t has = room.load(std::memory_order_acquire);
  if (index < has) return true;
  const std::size_t ahead =
      std::clamp(has * element_bytes, kAheadBytes, kMostAheadBytes) / element_bytes;
  const std::uint32_t wanted = std::min(most, index + static_cast<std::uint32_t>(ahead));
  auto* const bytes = static_cast<std::byte*>(array);
  if (Populate(bytes + has * element_bytes, bytes + wanted * element_bytes) != 0) return false;
  // Another thread may have added more meanwhile.
  while (has < wanted && !room.compare_exchange_weak(has, wanted, std::memory_order_release)) {
  }
  return true;
}

// Allocates the needs of a short program, or everything if the kernel cannot allocate a part of a
// mapping.
bool AllocateFirst(AllocationLog& log, int fd) {
  if (Populate(&log, &log.module) == 0) {
    return Grow(log.module, sizeof(LogModule), kLogModules, log.modules_room, 0) &&
           Grow(log.site, sizeof(LogSite), kLogSites, log.sites_room, 0) &&
           Grow(log.event, sizeof(LogEvent), kLogEvents, log.events_room, 0);
  }
  if (errno != EINVAL || ::posix_fallocate(fd, 0, sizeof(AllocationLog)) != 0) return false;
  log.modules_room.store(kLogModules, std::memory_order_relaxed);
  log.sites_room.store(kLogSites, std::memory_order_relaxed);
  log.events_room.store(kLogEvents, std::memory_order_relaxed);
  return true;
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
  if (::ftruncate(fd, sizeof(AllocationLog)) == 0) {
    mapped = next.mmap(nullptr, sizeof(AllocationLog), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  auto* log = mapped != MAP_FAILED ? static_cast<AllocationLog*>(mapped) : nullptr;
  const bool has_memory = log != nullptr && AllocateFirst(*log, fd);
  ::close(fd);
  if (!has_memory) {
    if (log != nullptr) next.munmap(log, sizeof(AllocationLog));
    ::unlink(path);
    TellOfNoRoom(now);
    return nullptr;
  }
  log->pid = static_cast<std::uint64_t>(::getpid());
  log->begin_ns = now;
  log->sites.store(1, std::memory_order_relaxed);
  log->magic.store(kLogMagic, std::memory_order_release);
  return log;
}

}  // namespace

bool GetMemory(void* array, std::size_t element_bytes, std::uint32_t most,
               std::atomic<std::uint32_t>& room, std::uint32_t index) {
  // The check takes system calls, and each event of a log without room comes here.
  constexpr std::uint64_t kPauseNs = 100'000'000;
  const std::uint64_t now = RecentNs();
  if (now < state->no_room_until_ns.load(std::memory_order_relaxed)) return false;
  const int error = errno;
  const bool has_memory = HasRoom() && Grow(array, element_bytes, most, room, index);
  if (!has_memory) state->no_room_until_ns.store(now + kPauseNs, std::memory_order_relaxed);
  errno = error;
  return has_memory;
}

std::uint64_t NowNs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

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
    const auto place = static_cast<std::uint32_t>(at % kLogEvents);
    const bool has_memory = HasMemory(log.event, log.events_room, place);
    event = &log.event[place];
    const std::uint64_t turn = has_memory ? event->turn.load(std::memory_order_acquire) : 0;
    if (has_memory && turn == LapOf(at)) {
      if (log.written.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) break;
    } else if (!has_memory || turn < LapOf(at)) {
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
  event->turn.store(LapOf(at) + 1, std::memory_order_release);
}

}  // namespace tmprof::objtrace
