// SPDX-License-Identifier: Apache-2.0
// Data that each thread has to itself: bins of spans, counts it could not add to another thread's
// object, and totals by allocation stack. When a thread ends, its record with all its contents
// waits for the next thread.

#pragma once

#include <atomic>
#include <cstdint>

#include "objects/layout.h"
#include "objects/runtime/span_pool.h"
#include "objects/runtime/stack_table.h"
#include "objects/runtime/system.h"
#include "objects/runtime/unwind.h"

namespace tmprof::objtrace {

// Most threads at one time. malloc(3) of a further one fails.
inline constexpr std::uint32_t kMaxThreads = kNoThread - 1;
inline constexpr std::uint32_t kMaxStaticIds = 1 << 20;  // further variables get kElsewhereId

// Slot bytes: 16, 32 … 512, then eight steps for each doubling up to 32 KiB.
inline constexpr int kSizeClasses = 80;

struct Bin {
  Span* current;  // allocations take slots from it
  Span* partial;  // other spans with free slots
};

// Counts of one object, on their way to Header::shared.
struct Pending {
  Header* header;
  std::uint64_t count;
  std::uint64_t generation;  // together with the birth, tells it from other objects of the slot
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

// One thread sets these bounds while others read them.
class SharedBounds {
 public:
  // Returns bounds that were set together; empty while they are being set.
  StackBounds Get() const {
    const std::uint32_t version = __atomic_load_n(&version_, __ATOMIC_ACQUIRE);
    const StackBounds bounds{.start = __atomic_load_n(&bounds_.start, __ATOMIC_ACQUIRE),
                             .end = __atomic_load_n(&bounds_.end, __ATOMIC_ACQUIRE)};
    return version % 2 == 0 && version == Load(version_) ? bounds : StackBounds{};
  }
  // These are for the thread that sets the bounds.
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
  std::uint16_t number;  // counts from 1
  bool in_use;           // set under the registry's lock
  // Set under the registry's lock: a fork(2) cut its thread off anywhere, and nobody uses it again.
  bool torn;
  std::uint32_t users;  // threads that had this record, one after the other
  // Frame of the function that has entered the code below (Within), or 0.
  volatile std::uint64_t busy;
  bool stack_known;  // exactly; until then it is taken to be as large as usual
  SharedBounds stack;
  std::uint64_t stack_id;        // ID for accesses of others to its stack
  std::uint64_t* static_counts;  // index: ID
  SiteTotals* sites;             // index: stack ID
  KnownStacks known_stacks;
  std::atomic<Header*> returned;        // freed by other threads
  std::atomic<std::uint64_t> flushing;  // address of the header that it may be adding to, or 0
  Span* held;                           // free large runs to which a thread may still be adding
  Bin bins[kSizeClasses];
  Pending pending[kPending];  // hashed by address; a new one replaces an older one
};

inline bool IsOnStack(const Thread& thread, std::uint64_t address) {
  return thread.stack.Get().Hold(address);
}

// Keeps signal handlers that count out of their thread's pending counts and searches.
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

  // False in a signal handler that interrupted another Within.
  bool entered() const { return entered_; }

 private:
  // A handler's frames are below those it interrupts, or on the alternate stack. If a frame on the
  // thread's own stack is not below `busy`, a siglongjmp(3) left `busy` set, wherever that was. On
  // other stacks that cannot be decided.
  static bool IsInterrupted(const Thread& thread, std::uint64_t frame) {
    const std::uint64_t busy = thread.busy;
    if (busy == 0) return false;
    if (!IsOnStack(thread, frame)) return true;
    if (IsOnStack(thread, busy) && frame < busy) return true;
    return OnAlternateStack();  // it may be a part of the thread's own stack
  }

  Thread& thread_;
  bool entered_ = false;
};

// The calling thread's record; null: it has none yet, or no longer.
extern __thread Thread* self __attribute__((tls_model("initial-exec")));

class Registry {
 public:
  // Returns null if there is no memory or no number left. A thread's first call takes it a record.
  Thread* Self();
  // Does what Self() does, for callers outside of signal handlers: it also finds the thread's
  // stack.
  Thread* SelfWithStack() {
    Thread* thread = Self();
    if (thread != nullptr && !thread->stack_known) FindStack(*thread);
    return thread;
  }
  // The caller's record for free(3) alone. The C library calls free(3) even after a thread's last
  // destructor has run: a detached thread frees the TLS of others if more than 40 MiB of stacks
  // wait for reuse (glibc 2.36, nptl/allocatestack.c). Such a thread has a record only during that
  // call.
  class ToFree {
   public:
    explicit ToFree(Registry& registry);
    ~ToFree();
    ToFree(const ToFree&) = delete;
    ToFree& operator=(const ToFree&) = delete;

    Thread* thread() const { return thread_; }  // null if Self() would return null

   private:
    bool is_lent_;
    Thread* thread_;
  };
  // Calls `visit(thread)` for each record that was ever taken.
  template <typename Visit>
  void EachThread(Visit visit) const {
    const std::uint32_t count = count_.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i) visit(*threads_[i]);
  }
  Thread* Get(std::uint32_t number) const { return threads_[number - 1]; }
  // Returns an ID for a static object; kElsewhereId if there are none left.
  std::uint64_t NewStaticId();
  Lock& lock() { return lock_; }
  // Called in a forked child, in which only the calling thread is left.
  void KeepOnlySelf();
  // Returns the number of forks between the program's start and this process.
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
