// SPDX-License-Identifier: Apache-2.0
// What each thread has to itself: bins of spans, counts it could not add to an object that is
// another thread's, totals by allocation stack. When a thread ends, its place, with all that is in
// it, waits for the next one.

#pragma once

#include <atomic>
#include <cstdint>

#include "objtrace/layout.h"
#include "objtrace/runtime/span_pool.h"
#include "objtrace/runtime/stack_table.h"
#include "objtrace/runtime/system.h"
#include "objtrace/runtime/unwind.h"

namespace tmprof::objtrace {

// At once; malloc(3) of one more fails.
inline constexpr std::uint32_t kMaxThreads = kNoThread - 1;
inline constexpr std::uint32_t kMaxStaticIds = 1 << 20;  // kElsewhereId beyond

// Slot bytes: 16, 32 … 512, then eight steps for each doubling up to 32 KiB.
inline constexpr int kSizeClasses = 80;

struct Bin {
  Span* current;  // allocated from
  Span* partial;  // others with free slots
};

// Counts of one object, on their way to Header::shared.
struct Pending {
  Header* header;
  std::uint64_t count;
  std::uint64_t generation;  // with the birth, tells it from others that had the slot
  std::uint32_t stack;
};

struct SiteTotals {
  std::uint64_t objects;
  std::uint64_t bytes;
  std::uint64_t freed_objects;
  std::uint64_t freed_bytes;
  std::uint64_t freed_accesses;
  std::uint64_t freed_age_ms;  // summed
};

// One thread sets them while others read.
class SharedBounds {
 public:
  // Both as they once were together; empty where they are being set.
  StackBounds Get() const {
    const std::uint32_t version = __atomic_load_n(&version_, __ATOMIC_ACQUIRE);
    const StackBounds bounds{.start = __atomic_load_n(&bounds_.start, __ATOMIC_ACQUIRE),
                             .end = __atomic_load_n(&bounds_.end, __ATOMIC_ACQUIRE)};
    return version % 2 == 0 && version == Load(version_) ? bounds : StackBounds{};
  }
  // For the thread that sets them.
  std::uint64_t OwnEnd() const { return Load(bounds_.end); }
  bool OwnHold(std::uint64_t address) const {
    const std::uint64_t start = Load(bounds_.start);
    return address - start < Load(bounds_.end) - start;
  }
  void Set(const StackBounds& bounds) {
    Store(version_, version_ + 1);
    __atomic_store_n(&bounds_.start, bounds.start, __ATOMIC_RELEASE);
    __atomic_store_n(&bounds_.end, bounds.end, __ATOMIC_RELEASE);
    __atomic_store_n(&version_, version_ + 1, __ATOMIC_RELEASE);
  }

 private:
  std::uint32_t version_;  // odd while they are being set
  StackBounds bounds_;
};

class Registry;

struct Thread {
  static constexpr std::uint64_t kPending = 512;

  Registry* registry;
  std::uint16_t number;  // from 1
  bool in_use;           // set under the registry's lock
  bool torn;             // likewise: a fork(2) cut its thread off anywhere; nobody's for ever
  std::uint32_t users;   // threads that had this place, one after the other
  // Frame of the function that is within what is below (Within), or 0.
  volatile std::uint64_t busy;
  bool stack_known;  // exactly; before, at most as large as a stack usually is
  SharedBounds stack;
  std::uint64_t stack_id;        // of others' accesses to its stack
  std::uint64_t* static_counts;  // by ID
  SiteTotals* sites;             // by stack ID
  KnownStacks known_stacks;
  std::atomic<Header*> returned;        // freed by others
  std::atomic<std::uint64_t> flushing;  // address of the header that it may be adding to, or 0
  Span* held;                           // free large runs that somebody may be adding to
  Bin bins[kSizeClasses];
  Pending pending[kPending];  // by address; an older one gives way
};

inline bool IsOnStack(const Thread& thread, std::uint64_t address) {
  return thread.stack.Get().Hold(address);
}

// Keeps a thread's signal handlers that count out of its pending counts and its searches.
class Within {
 public:
  explicit Within(Thread& thread) : thread_(thread) {
    const auto frame = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
    entered_ = !IsInterrupted(thread, frame);
    if (!entered_) return;
    thread.busy = frame;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Within() {
    if (!entered_) return;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    thread_.busy = 0;
  }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

  // False in a signal handler that interrupted another.
  bool entered() const { return entered_; }

 private:
  // A handler's frames are below those it interrupts, or on the alternate stack. On the thread's
  // own stack, one that is not tells that a siglongjmp(3) left `busy`, wherever that was. On other
  // stacks there is no telling.
  static bool IsInterrupted(const Thread& thread, std::uint64_t frame) {
    const std::uint64_t busy = thread.busy;
    if (busy == 0) return false;
    if (!IsOnStack(thread, frame)) return true;
    if (IsOnStack(thread, busy) && frame < busy) return true;
    return OnAlternateStack();  // which may be a part of the thread's own
  }

  Thread& thread_;
  bool entered_ = false;
};

// The calling thread's; null: it has no place yet, or no more.
extern __thread Thread* self __attribute__((tls_model("initial-exec")));

class Registry {
 public:
  // Null where there is no memory or no number left. A thread's first call takes it a place.
  Thread* Self();
  // The same for a caller that is in no signal handler: finds out where the thread's stack is.
  Thread* SelfWithStack() {
    Thread* thread = Self();
    if (thread != nullptr && !thread->stack_known) FindStack(*thread);
    return thread;
  }
  // The caller's place, for free(3) alone: the C library calls that, too, after a thread's last
  // destructor has run (glibc 2.36, nptl/allocatestack.c: a detached thread frees the TLS of others
  // where more than 40 MiB of stacks wait to be used again). There it has a place for so long only.
  class ToFree {
   public:
    explicit ToFree(Registry& registry);
    ~ToFree();
    ToFree(const ToFree&) = delete;
    ToFree& operator=(const ToFree&) = delete;

    Thread* thread() const { return thread_; }  // null: as Self()

   private:
    bool is_lent_;
    Thread* thread_;
  };
  // Calls `visit(thread)` for each place that was ever taken.
  template <typename Visit>
  void EachThread(Visit visit) const {
    const std::uint32_t count = count_.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) visit(*threads_[i]);
  }
  Thread* Get(std::uint32_t number) const { return threads_[number - 1]; }
  // Of static objects; kElsewhereId when there are none left.
  std::uint64_t NewStaticId();
  Lock& lock() { return lock_; }
  // In a forked child: only the calling thread is left.
  void KeepOnlySelf();
  // How many there were between the program's start and this process.
  std::uint64_t forks() const { return forks_; }

 private:
  enum class Until : std::uint8_t { kExit, kReturned };

  Thread* Register(Until until);
  Thread* Take();
  Thread* Make();
  static void FindStack(Thread& thread);
  static void ReleaseAtExit(void* place);
  static void Release(Thread& thread);

  Lock lock_;
  std::uint64_t forks_ = 0;
  bool has_key_ = false;
  pthread_key_t key_ = 0;
  std::atomic<std::uint32_t> count_ = 0;
  std::atomic<std::uint64_t> next_static_id_ = kFirstStaticId;
  Thread* threads_[kMaxThreads] = {};
};

}  // namespace tmprof::objtrace
