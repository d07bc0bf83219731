// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/placing.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "objects/tracker/next.h"
#include "objects/tracker/recording.h"

namespace tmprof::objtrace {

Advice* advice = nullptr;
Arenas arenas;

namespace {

// Returns the arena of an allocation by a call that several sites share.
__attribute__((noinline)) std::int32_t LookDeeper(Advice::Place place, std::uint64_t caller) {
  const Within here;
  Walk walk;
  _Unwind_Backtrace(AddFrame, &walk);
  int at = 0;
  while (at < walk.depth && walk.address[at] != caller) ++at;
  for (++at; at < walk.depth; ++at) {
    if (walk.address[at] == walk.address[at - 1]) continue;  // a recursion is there once
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

// A bit for each arena that was reported full, shared with forked children. Null: there is no
// memory for it.
std::atomic<std::uint64_t>* said_full = nullptr;

// Writes to standard error unless that would wait. A pipe without a reader must not end the program
// by a signal.
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
  // The text fits into a pipe that is ready (PIPE_BUF).
  if (::write(STDERR_FILENO, text, bytes) < 0 && errno == EPIPE &&
      ::sigismember(&pending, SIGPIPE) == 0) {
    const timespec at_once{};
    ::sigtimedwait(&pipes, nullptr, &at_once);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Reports once for each module and process. It may run in any thread or signal handler.
__attribute__((noinline)) void TellOfOtherBuilds() {
  const int error = errno;
  while (const char* module = advice->TakeOtherBuild()) {
    // A file that the program has opened there since is not ours.
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

// Returns an errno, or 0.
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

// Returns the file with a zero at the end; null: it cannot be read.
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

}  // namespace

std::int32_t ArenaOf(const void* caller) {
  const auto address = reinterpret_cast<std::uint64_t>(caller);
  const Advice::Place place = advice->First(address);
  if (__builtin_expect(advice->HasOtherBuild(), 0)) TellOfOtherBuilds();
  if (__builtin_expect(place == Advice::kOutermost, 1)) return Advice::kStay;
  const std::int32_t verdict = advice->VerdictOf(place);
  return verdict == Advice::kLookDeeper ? LookDeeper(place, address) : verdict;
}

// It may run in any thread or signal handler.
__attribute__((noinline)) void TellIfFull(std::uint32_t arena) {
  if (!arenas.IsNewlyFull(arena)) return;
  const int error = errno;
  const std::uint64_t bit = std::uint64_t{1} << arena;
  // A file that the program has opened there since is not ours.
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
  if (made->arenas() == 0) return;  // malloc(3) keeps everything
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

}  // namespace tmprof::objtrace
