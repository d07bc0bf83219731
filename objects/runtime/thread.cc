// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/thread.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

__thread std::uint32_t tmprof_thread = tmprof::objtrace::kNoThread;
__thread std::uint64_t* tmprof_static_counts = nullptr;

// glibc's pointer to the main thread's arguments on the stack.
extern "C" void* __libc_stack_end;

namespace tmprof::objtrace {

__thread Thread* self = nullptr;

namespace {

// The thread is ending, and its record may have been released for the last time.
__thread bool is_ending __attribute__((tls_model("initial-exec"))) = false;

// Longest reach of a stack without a limit.
constexpr std::uint64_t kUnlimitedStackBytes = std::uint64_t{1} << 30;

// Guesses the stack, which is all that a signal handler can do. glibc has a thread's descriptor at
// the end of its stack.
void GuessStack(Thread& thread) {
  rlimit limit{};
  std::uint64_t bytes = kUnlimitedStackBytes;
  if (::getrlimit(RLIMIT_STACK, &limit) == 0) {
    bytes = std::min<std::uint64_t>(bytes, limit.rlim_cur);
  }
  const bool is_main = ::getpid() == ::gettid();
  thread.stack_known = is_main;
  const auto end = is_main ? reinterpret_cast<std::uint64_t>(__libc_stack_end)
                           : static_cast<std::uint64_t>(::pthread_self());
  thread.stack.Set({.start = end - bytes, .end = end});
}

}  // namespace

// Allocates. It is not used for the main thread, for which it would read /proc.
void Registry::FindStack(Thread& thread) {
  thread.stack_known = true;
  pthread_attr_t attributes;
  if (::pthread_getattr_np(::pthread_self(), &attributes) != 0) return;
  void* start = nullptr;
  std::size_t bytes = 0;
  if (::pthread_attr_getstack(&attributes, &start, &bytes) == 0) {
    const auto address = reinterpret_cast<std::uint64_t>(start);
    thread.stack.Set({.start = address, .end = address + bytes});
  }
  ::pthread_attr_destroy(&attributes);
}

std::uint64_t Registry::NewStaticId() {
  const std::uint64_t id = next_static_id_.fetch_add(1, std::memory_order_relaxed);
  return id < kMaxStaticIds ? id : kElsewhereId;
}

Thread* Registry::Make() {
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  if (count == kMaxThreads) return nullptr;
  auto* thread = static_cast<Thread*>(MapSparse(sizeof(Thread)));
  auto* counts = static_cast<std::uint64_t*>(MapSparse(kMaxStaticIds * sizeof(std::uint64_t)));
  auto* sites = static_cast<SiteTotals*>(MapSparse(kMaxStacks * sizeof(SiteTotals)));
  if (thread == nullptr || counts == nullptr || sites == nullptr) {
    Unmap(thread, sizeof(Thread));
    Unmap(counts, kMaxStaticIds * sizeof(std::uint64_t));
    Unmap(sites, kMaxStacks * sizeof(SiteTotals));
    return nullptr;
  }
  thread->registry = this;
  thread->number = static_cast<std::uint16_t>(count + 1);
  thread->static_counts = counts;
  thread->sites = sites;
  thread->stack_id = NewStaticId();
  threads_[count] = thread;
  count_.store(count + 1, std::memory_order_release);
  return thread;
}

Thread* Registry::Take() {
  const Locked locked(lock_);
  if (!has_key_) has_key_ = ::pthread_key_create(&key_, &Registry::ReleaseAtExit) == 0;
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  Thread** unused =
      std::find_if(threads_, threads_ + count, [](Thread* t) { return !t->in_use && !t->torn; });
  Thread* thread = unused != threads_ + count ? *unused : Make();
  if (thread == nullptr) return nullptr;
  GuessStack(*thread);
  Store(thread->in_use, true);
  // A siglongjmp(3) of the thread before may have left these set.
  thread->busy = 0;
  thread->flushing = 0;
  if (!is_ending) ++thread->users;
  return thread;
}

// Leaves errno alone, because a signal handler may be the first to count.
Thread* Registry::Register(Until until) {
  const int error = errno;
  const SignalsBlocked blocked;
  Thread* thread = Take();
  if (thread == nullptr) return nullptr;
  self = thread;
  tmprof_static_counts = thread->static_counts;
  // Without a key its record is not used again.
  if (has_key_ && until == Until::kExit) ::pthread_setspecific(key_, thread);
  tmprof_thread = thread->number;
  errno = error;
  return thread;
}

Thread* Registry::Self() { return self != nullptr ? self : Register(Until::kExit); }

Registry::ToFree::ToFree(Registry& registry) : is_lent_(self == nullptr && is_ending) {
  thread_ = is_lent_ ? registry.Register(Until::kReturned) : registry.Self();
}

Registry::ToFree::~ToFree() {
  if (is_lent_ && thread_ != nullptr) Release(*thread_);
}

// Destructors that run later may allocate. They take the thread a record again, which is released
// again.
void Registry::ReleaseAtExit(void* place) {
  is_ending = true;
  Release(*static_cast<Thread*>(place));
}

void Registry::Release(Thread& thread) {
  const SignalsBlocked blocked;
  self = nullptr;
  tmprof_thread = kNoThread;
  tmprof_static_counts = nullptr;
  const Locked locked(thread.registry->lock_);
  Store(thread.in_use, false);
}

void Registry::KeepOnlySelf() {
  ++forks_;
  EachThread([](Thread& thread) {
    if (&thread == self) return;
    thread.torn = thread.torn || thread.in_use;
    Store(thread.in_use, false);
    thread.flushing = 0;
  });
}

}  // namespace tmprof::objtrace
