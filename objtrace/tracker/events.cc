// SPDX-License-Identifier: Apache-2.0

#include "objtrace/tracker/events.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>

#include "objtrace/tracker/next.h"
#include "objtrace/tracker/state.h"

namespace tmprof::objtrace {
namespace {

__thread std::uint64_t recent_ticks __attribute__((tls_model("initial-exec"))) = 0;
__thread std::uint64_t recent_ns __attribute__((tls_model("initial-exec"))) = 0;

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

}  // namespace

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

}  // namespace tmprof::objtrace
