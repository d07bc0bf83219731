// SPDX-License-Identifier: Apache-2.0
// Hands out the heap's addresses in runs of spans. Addresses that were handed out never leave the
// address space, so that a stale pointer finds a span without an owner.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "objects/layout.h"
#include "objects/runtime/system.h"

namespace tmprof::objtrace {

enum class SpanUse : std::uint8_t {
  kNone,   // never handed out, or inside a run
  kFree,   // the first span of a free run
  kSlots,  // objects of one size class
  kLarge,  // the first span of a run that holds one object
};

struct SpanRange {
  std::uint32_t start;  // counted from the run's first span
  std::uint32_t end;

  bool empty() const { return start == end; }
};

struct alignas(64) Span {  // no two share a cache line
  std::atomic<SpanUse> use;
  bool ends_free;  // the first or last span of a free run; the pool's, under its lock
  bool dirty;      // when it was taken: may not be all zeros
  std::uint8_t size_class;
  std::uint16_t owner;  // number of the thread whose bins hold it and that counts in `count`
  std::uint16_t capacity;
  // The run's length in spans; set in its first span, and in the last of a free run.
  std::uint32_t length;
  std::uint32_t used;               // slots; in any other run, pages whose memory was used and kept
  std::atomic<std::uint32_t> bump;  // slots below were handed out at least once
  // Elements of an object in it are counted, so that all counts go through the runtime.
  std::atomic<bool> by_element;
  Header* free;
  Header* fresh;  // the slot at `bump`
  Span* next;     // in a list of the pool, of the owner's bin, or of runs that a thread holds back
  Span* previous;
  union {
    std::uint64_t large_bytes;        // requested bytes
    std::uint64_t used_pages_before;  // with slots: `used` when the span was taken
    SpanRange dirty_part;             // for a free run: the rest of it is zeros
  };
};
static_assert(sizeof(Span) == 64);

// Replaces an entry while other threads may read it. They count either by the old entry or by the
// new one.
inline void Replace(SpanEntry& entry, const SpanEntry& by) {
  Store(entry.owner, 0);
  Store(entry.origin, by.origin);
  Store(entry.reciprocal, by.reciprocal);
  Store(entry.slot_bytes, by.slot_bytes);
  Store(entry.owner, by.owner);
}

class SpanPool {
 public:
  // Returns a run of `length` spans, or null if there is no memory. `use` is kNone. The memory is
  // all zeros unless `dirty`.
  Span* Take(std::uint64_t length);
  // `used_pages`: pages whose memory was used, before it was taken or since.
  void Give(Span* run, std::uint64_t used_pages);

  // Returns null if nothing was handed out there.
  Span* SpanAt(std::uint64_t address) const {
    const std::uint64_t end = __atomic_load_n(&end_, __ATOMIC_ACQUIRE);
    if (address >= end || address < start_) return nullptr;
    return &spans_[(address - start_) >> kSpanShift];
  }
  // Precondition: the address was handed out.
  Span& SpanIn(std::uint64_t address) const { return spans_[(address - start_) >> kSpanShift]; }
  SpanEntry& EntryOf(const Span* span) const { return table_[span - spans_]; }
  std::uint64_t StartOf(const Span* span) const {
    return start_ + (static_cast<std::uint64_t>(span - spans_) << kSpanShift);
  }
  std::uint64_t start() const { return start_; }
  // True if both the heap and the table are at the expected addresses.
  bool IsWhereCodeExpectsIt() const {
    return start_ == kHeapStart &&
           table_ == reinterpret_cast<const SpanEntry*>(kTableStart) + (kHeapStart >> kSpanShift);
  }
  std::uint64_t end() const { return end_; }
  Lock& lock() { return lock_; }

 private:
  static constexpr int kLists = kHeapShift - kSpanShift + 1;

  bool Begin();
  Span* TakeFree(std::uint64_t length);
  Span* Extend(std::uint64_t length);
  std::uint64_t KeptPages() const;
  void ReleaseLongest();
  void Enlist(Span* run);
  void Delist(Span* run);

  Lock lock_;
  std::uint64_t start_ = 0;
  std::uint64_t end_ = 0;        // end of the addresses that were handed out
  std::uint64_t committed_ = 0;  // end of the memory
  std::uint64_t limit_ = 0;
  SpanEntry* table_ = nullptr;
  Span* spans_ = nullptr;
  std::uint64_t releasable_pages_ = 0;  // in free runs of kReleasedSpans and more
  Span* lists_[kLists] = {};            // free runs by the logarithm of their length
};

}  // namespace tmprof::objtrace
