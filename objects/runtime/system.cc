// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/system.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>

namespace tmprof::objtrace {
namespace {

void Say(const char* text) {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // there is nobody else to tell
}

}  // namespace

void Die(const char* what, const void* address) {
  char digits[] = " 0x0000000000000000";
  auto value = reinterpret_cast<std::uintptr_t>(address);
  for (std::size_t at = sizeof(digits) - 2; at > 2; --at, value >>= 4) {
    digits[at] = "0123456789abcdef"[value & 15];
  }
  Say("tmprof: ");
  Say(what);
  Say(digits);
  Say("\n");
  std::abort();
}

void Die(const char* what) {
  Say("tmprof: ");
  Say(what);
  Say("\n");
  std::abort();
}

std::byte* Reserve(std::uint64_t bytes, std::uint64_t hint) {
  void* start = ::mmap(reinterpret_cast<void*>(hint), bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return nullptr;
  ::madvise(start, bytes, MADV_DONTDUMP);
  return static_cast<std::byte*>(start);
}

bool Commit(void* start, std::uint64_t bytes) {
  const auto at = reinterpret_cast<std::uint64_t>(start);
  void* const first = reinterpret_cast<void*>(at / kPageBytes * kPageBytes);
  const std::uint64_t all = PagesOf(at % kPageBytes + bytes) * kPageBytes;
  if (::mprotect(first, all, PROT_READ | PROT_WRITE) != 0) return false;
  ::madvise(first, all, MADV_DODUMP);
  return true;
}

bool AllowReading(void* start, std::uint64_t bytes) {
  return ::mprotect(start, bytes, PROT_READ) == 0;
}

void* MapSparse(std::uint64_t bytes) {
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
}

void Unmap(void* start, std::uint64_t bytes) {
  if (start != nullptr) ::munmap(start, bytes);
}

sigset_t SignalsBlocked::Block() {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  return before;
}

void SignalsBlocked::Restore(const sigset_t& before) {
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool OnAlternateStack() {
  stack_t now{};
  return ::sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_ONSTACK) != 0;
}

namespace {

using ClockGettime = int (*)(clockid_t clock, timespec* now);
ClockGettime clock_gettime_of_kernel = ::clock_gettime;

// The C library's clock function is this one behind 13 more instructions, of some 150 of a small
// allocation (glibc 2.36; `valgrind --tool=callgrind` of bench/objects_tree).
__attribute__((constructor(101))) void FindClock() {
  void* vdso = ::dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (vdso == nullptr) return;
  void* found = ::dlvsym(vdso, "__vdso_clock_gettime", "LINUX_2.6");
  if (found != nullptr) clock_gettime_of_kernel = reinterpret_cast<ClockGettime>(found);
}

}  // namespace

std::uint64_t NowMs() {
  timespec now{};
  clock_gettime_of_kernel(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

}  // namespace tmprof::objtrace
