// SPDX-License-Identifier: Apache-2.0

#include "objtrace/tracker/threads.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "objtrace/tracker/events.h"
#include "objtrace/tracker/log.h"
#include "objtrace/tracker/state.h"

namespace tmprof::objtrace {

bool tells_of_threads = false;

namespace {

pthread_key_t thread_ends;  // its destructor tells

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

void BeginTellingOfThreads() {
  tells_of_threads = ::pthread_key_create(&thread_ends, TellThreadEnds) == 0;
}

}  // namespace tmprof::objtrace
