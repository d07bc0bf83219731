// SPDX-License-Identifier: Apache-2.0

#include "objects/tracker/threads.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/units.h"
#include "objects/tracker/events.h"
#include "objects/tracker/log.h"
#include "objects/tracker/next.h"
#include "objects/tracker/state.h"

namespace tmprof::objtrace {

bool tells_of_threads = false;

namespace {

pthread_key_t thread_ends;  // its destructor reports the end

// Records of threads that are about to begin. In a forked child those of its parent stay taken.
constexpr std::uint64_t kStarts = 64;
ThreadStart starts[kStarts];
std::atomic<std::uint64_t> starts_taken = 0;  // one bit per start

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

}  // namespace

ThreadStart* TakeThreadStart() {
  std::uint64_t taken = starts_taken.load(std::memory_order_relaxed);
  while (taken != UINT64_MAX) {
    const int free = std::countr_one(taken);
    if (starts_taken.compare_exchange_weak(taken, taken | std::uint64_t{1} << free,
                                           std::memory_order_acquire)) {
      return &starts[free];
    }
  }
  return static_cast<ThreadStart*>(next.malloc(sizeof(ThreadStart)));
}

void ReleaseThreadStart(ThreadStart* start) {
  if (start < starts || start >= starts + kStarts) return next.free(start);
  starts_taken.fetch_and(~(std::uint64_t{1} << (start - starts)), std::memory_order_release);
}

void NoteStack(const pthread_attr_t* attributes, ThreadStart& start) {
  const Within here;
  start.stack_end = 0;
  start.stack_bytes = 0;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  if (attributes != nullptr && ::pthread_attr_getstack(attributes, &lowest, &bytes) == 0) {
    // 0 if the attributes have no stack.
    start.stack_end = reinterpret_cast<std::uint64_t>(lowest) + bytes;
    start.stack_bytes = bytes;
  }
  if (start.stack_bytes != 0) return;
  pthread_attr_t usual;
  if (::pthread_getattr_default_np(&usual) != 0) return;
  if (::pthread_attr_getstacksize(&usual, &bytes) == 0) start.stack_bytes = bytes;
  ::pthread_attr_destroy(&usual);
}

// pthread_getattr_np(3) would allocate and give the thread an arena and caches that it may never
// need. The GNU C library has the descriptor in the last page of the stack, or in its last pages if
// the thread's variables have a larger alignment (nptl/allocatestack.c).
void TellThreadBegins(ThreadStart* start) {
  const Within here;
  const std::uint64_t bytes = start->stack_bytes;
  std::uint64_t end = start->stack_end;
  ReleaseThreadStart(start);
  AllocationLog* log = Log();
  if (log == nullptr || bytes == 0 || ::pthread_setspecific(thread_ends, &thread_ends) != 0) {
    return;
  }
  if (end == 0)
    end = (static_cast<std::uint64_t>(::pthread_self()) / kBasePageBytes + 1) * kBasePageBytes;
  AddEvent(*log, LogEventKind::kThreadBegan, end - bytes, bytes,
           static_cast<std::uint32_t>(::gettid()), false);
}

void BeginTellingOfThreads() {
  tells_of_threads = ::pthread_key_create(&thread_ends, TellThreadEnds) == 0;
}

}  // namespace tmprof::objtrace
