// SPDX-License-Identifier: Apache-2.0
// The allocator, and the counts of its objects.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "objects/layout.h"
#include "objects/runtime/elements.h"
#include "objects/runtime/span_pool.h"
#include "objects/runtime/stack_table.h"
#include "objects/runtime/thread.h"

namespace tmprof::objtrace {

// The alignment of malloc(3).
inline constexpr std::uint64_t kAlignment = 16;

class Heap {
 public:
  // Returns null if there is no memory. `frame` is that of the function that was called to
  // allocate.
  __attribute__((always_inline)) inline void* Allocate(std::uint64_t bytes, const void* frame);
  // Precondition: `alignment` is a power of two of at least kAlignment.
  void* AllocateAligned(std::uint64_t bytes, std::uint64_t alignment, const void* frame);
  void* AllocateZeros(std::uint64_t bytes, const void* frame);
  // Returns null if there is no memory, and leaves the object unchanged.
  void* Reallocate(void* object, std::uint64_t bytes, const void* frame);
  // Ends the program if `object` is not the start of a live object.
  void Free(void* object);
  std::uint64_t UsableBytes(void* object);

  // Counts accesses to another thread's object for which this thread has pending counts. False: it
  // is something else, and nothing was counted.
  __attribute__((always_inline)) inline bool CountAgain(Thread& thread, std::uint64_t address,
                                                        std::uint64_t accesses);
  // False: no object lives at `address`.
  bool Count(Thread& thread, std::uint64_t address, std::uint64_t accesses);
  // Returns the header of the object that lives at `address`; null if there is none.
  Header* Find(std::uint64_t address) const;
  std::uint64_t CountOf(const Header& header) const;
  std::uint64_t BytesOf(const Header& header) const;
  std::uint64_t StartOf(const Header& header) const;
  void Reset();
  // Calls `visit(stack ID, accesses)` for accesses to freed objects that threads have yet to credit
  // to the stack.
  template <typename Visit>
  void EachPendingOfFreed(Visit visit) const {
    registry_.EachThread([&](const Thread& thread) {
      for (const Pending& pending : thread.pending) {
        const std::uint64_t accesses = Load(pending.count);
        if (accesses > 0 && !IsOfLive(pending)) visit(Load(pending.stack), accesses);
      }
    });
  }
  int CountByElement(Header& header, std::uint64_t element_bytes);
  const Elements* ElementsOf(const Header& header) const { return elements_.Find(&header); }

  // Returns the first live object in a slot at `address` or above; null after the last one.
  Header* NextFrom(std::uint64_t address) const;

  // Called around fork(2).
  void LockAll();
  void UnlockAll();

  // The inserted code uses it directly if the heap is at the expected address.
  const SpanPool& pool() const { return pool_; }

  StackTable& stacks() { return stacks_; }
  Registry& registry() { return registry_; }
  std::uint64_t start_ms() const { return start_ms_.load(std::memory_order_relaxed); }

 private:
  enum class Slot { kLive, kFree, kOverwritten, kNone };

  // `zeros` says if the memory has to be all zeros, and afterwards if it still has to be cleared.
  __attribute__((noinline)) void* AllocateFrom(Thread& thread, std::uint64_t bytes,
                                               std::uint64_t alignment, const void* frame,
                                               bool& zeros);
  // Returns null if the object is not small, or if something has to be found out or created first.
  __attribute__((always_inline)) inline void* AllocateFast(std::uint64_t bytes, const void* frame);
  Header* TakeSlot(Thread& thread, int size_class);
  Header* TakeLarge(const Thread& thread, std::uint64_t bytes, std::uint64_t slot_bytes,
                    bool& zeros);
  bool AddSpan(Thread& thread, int size_class);
  void PutBack(Thread& thread, Span* span, Header* header);
  void GiveLarge(Thread& thread, Span* run);
  // True if a thread may be adding to a header in it. Precondition: no object lives in it.
  bool IsBeingFlushed(const Span& run) const;
  void DrainReturned(Thread& thread);
  std::uint32_t StackOf(Thread& thread, const void* frame);
  std::uint32_t WalkStack(Thread& thread, const void* frame);
  struct Birth {
    std::uint32_t stack;
    std::uint32_t time_ms;  // since the heap began
    std::uint64_t bytes;
    std::uint64_t alignment;
    bool is_large;
  };
  __attribute__((always_inline)) inline void Begin(const Thread& thread, Header& header,
                                                   const Birth& birth);
  void End(Thread& thread, Header& header);

  Span* SpanOf(const Header& header) const {
    return &pool_.SpanIn(reinterpret_cast<std::uint64_t>(&header));
  }
  // Returns the bytes from its start to the end of its slot or run.
  std::uint64_t RoomOf(const Header& header) const;
  Slot Look(std::uint64_t address, Header*& header) const;
  Header& RequireLive(void* object);
  static std::uint64_t GenerationOf(const Header& header);
  static std::uint64_t PlaceOf(const Header& header);  // index in a thread's pending counts
  static bool IsOf(const Pending& pending, const Header& header);
  static Header* HeaderBy(const SpanEntry& entry, std::uint64_t address);
  bool IsOfLive(const Pending& pending) const;
  void CountShared(Thread& thread, Header& header, std::uint64_t accesses);
  void Flush(Thread& thread, Pending& pending);
  void FlushOwn(Thread& thread, const Header& header);
  std::uint64_t NowSinceStart();

  SpanPool pool_;
  StackTable stacks_;
  Registry registry_;
  ElementTable elements_;
  std::atomic<std::uint64_t> start_ms_ = 0;  // 0: nothing was allocated yet
};

// The program's only heap. It is constant-initialised, and therefore exists before any code runs.
extern Heap heap;

}  // namespace tmprof::objtrace
