// SPDX-License-Identifier: Apache-2.0
// The heap's addresses, handed out in runs of spans. Nothing that was handed out ever leaves the
// address space: a stale pointer finds a span that is nobody's.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "objtrace/layout.h"
#include "objtrace/runtime/system.h"

namespace tmprof::objtrace {

enum class SpanUse : std::uint8_t {
  kNone,   // never handed out, or inside of a run
  kFree,   // the first of a free run
  kSlots,  // objects of one size class
  kLarge,  // the first of a run that holds one object
};

struct SpanRange {
  std::uint32_t start;  // from the run's first span on
  std::uint32_t end;

  bool empty() const { return start == end; }
};

struct alignas(64) Span {  // of no two in one cache line
  std::atomic<SpanUse> use;
  bool ends_free;  // the first or last of a free run: the pool's, under its lock
  bool dirty;      // as it was taken: not known to be all zeros
  std::uint8_t size_class;
  std::uint16_t owner;  // number of the thread whose bins hold it, and which counts in `count`
  std::uint16_t capacity;
  std::uint32_t length;  // of the run, in spans: in its first, and in the last of a free one
  std::uint32_t used;    // slots; of any other run, pages of which memory was used and kept
  std::atomic<std::uint32_t> bump;  // slots below were handed out at least once
  // An object in it has its elements counted: nobody counts without the runtime.
  std::atomic<bool> by_element;
  Header* free;
  Header* fresh;  // the slot at `bump`
  Span* next;     // of a list of the pool, of the owner's bin, or of runs that a thread holds back
  Span* previous;
  union {
    std::uint64_t large_bytes;        // what was asked for
    std::uint64_t used_pages_before;  // of slots: as `used` was when the span was taken
    SpanRange dirty_part;             // of a free run: all else of it is zeros
  };
};
static_assert(sizeof(Span) == 64);

// While others may read it: nobody counts by it but as it was, or as it is.
inline void Replace(SpanEntry& entry, const SpanEntry& by) {
  Store(entry.owner, 0);
  Store(entry.origin, by.origin);
  Store(entry.reciprocal, by.reciprocal);
  Store(entry.slot_bytes, by.slot_bytes);
  Store(entry.owner, by.owner);
}

class SpanPool {
 public:
  // A run of `length` spans, or null where there is no memory. `use` is kNone; zeros if not
  // `dirty`.
  Span* Take(std::uint64_t length);
  // `used_pages`: of which memory was used, before it was taken or since.
  void Give(Span* run, std::uint64_t used_pages);

  // Null where nothing was handed out.
  Span* SpanAt(std::uint64_t address) const {
    const std::uint64_t end = __atomic_load_n(&end_, __ATOMIC_ACQUIRE);
    if (address >= end || address < start_) return nullptr;
    return &spans_[(address - start_) >> kSpanShift];
  }
  // Precondition: it was handed out.
  Span& SpanIn(std::uint64_t address) const { return spans_[(address - start_) >> kSpanShift]; }
  SpanEntry& EntryOf(const Span* span) const { return table_[span - spans_]; }
  std::uint64_t StartOf(const Span* span) const {
    return start_ + (static_cast<std::uint64_t>(span - spans_) << kSpanShift);
  }
  std::uint64_t start() const { return start_; }
  // Both the heap and the table.
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
  std::uint64_t end_ = 0;        // of what was handed out
  std::uint64_t committed_ = 0;  // where memory ends
  std::uint64_t limit_ = 0;
  SpanEntry* table_ = nullptr;
  Span* spans_ = nullptr;
  std::uint64_t releasable_pages_ = 0;  // of free runs of kReleasedSpans and more
  Span* lists_[kLists] = {};            // free runs by the logarithm of their length
};

}  // namespace tmprof::objtrace
