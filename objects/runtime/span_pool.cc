// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/span_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>

namespace tmprof::objtrace {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;
// Memory is committed in units of this size: six system calls for some hundred thousand small
// objects.
constexpr std::uint64_t kCommitBytes = 16 * kMiB;
// Free runs of this length are worth the call that returns their memory to the system.
constexpr std::uint64_t kReleasedSpans = kMiB >> kSpanShift;
static_assert(std::has_single_bit(kReleasedSpans));  // the first run length of a list
// Pages of free runs that keep their memory for the next objects: an eighth of all addresses ever
// handed out, between 16 and 64 MiB. A page that is returned costs a fault when it comes back, 2.4
// us in a virtual machine (bench/objects), and programs allocate again what they freed. glibc's
// malloc keeps 128 KiB to 64 MiB, depending on its largest objects (M_TRIM_THRESHOLD, mallopt(3)).
constexpr std::uint64_t kKeptShare = 8;
constexpr std::uint64_t kLeastKeptPages = 16 * kMiB / kPageBytes;
constexpr std::uint64_t kMostKeptPages = 64 * kMiB / kPageBytes;
// If the system refuses the whole heap (ulimit -v), a quarter of it is tried, and then a quarter of
// that.
constexpr int kReservations = 8;

// The dirty part of the joined run reaches from the first one's to the second one's.
void Join(Span& run, const Span& after) {
  if (!after.dirty_part.empty()) {
    if (run.dirty_part.empty()) run.dirty_part.start = run.length + after.dirty_part.start;
    run.dirty_part.end = run.length + after.dirty_part.end;
  }
  run.used += after.used;
  run.length += after.length;
}

std::uint32_t PagesOf(const SpanRange& spans) {
  return static_cast<std::uint32_t>((spans.end - spans.start) * (kSpanBytes / kPageBytes));
}

// Return the part of the range before and behind `at`, relative to the begin of each.
SpanRange Before(const SpanRange& range, std::uint32_t at) {
  return {.start = std::min(range.start, at), .end = std::min(range.end, at)};
}
SpanRange After(const SpanRange& range, std::uint32_t at) {
  return {.start = std::max(range.start, at) - at, .end = std::max(range.end, at) - at};
}

int ListOf(std::uint64_t length) { return static_cast<int>(std::bit_width(length)) - 1; }

}  // namespace

bool SpanPool::Begin() {
  for (int attempt = 0; attempt < kReservations; ++attempt) {
    const std::uint64_t heap_bytes = kHeapBytes >> (2 * attempt);
    const std::uint64_t spans_in_heap = heap_bytes >> kSpanShift;
    // The layout that inserted code expects. If the heap is smaller than such a table, the table
    // covers the heap alone, for programs without inserted code (hmalloc).
    const bool is_whole = heap_bytes >= kTableBytes;
    const std::uint64_t table_bytes = is_whole ? kTableBytes : spans_in_heap * sizeof(SpanEntry);
    const std::uint64_t all_bytes = table_bytes + heap_bytes + kSpanBytes;
    std::byte* all = Reserve(all_bytes, kHeapStart - table_bytes);
    if (all == nullptr) continue;
    std::byte* spans = Reserve(spans_in_heap * sizeof(Span));
    if (spans == nullptr || (is_whole && !AllowReading(all, table_bytes))) {
      Unmap(spans, spans_in_heap * sizeof(Span));
      Unmap(all, all_bytes);
      continue;
    }
    start_ = (reinterpret_cast<std::uint64_t>(all) + table_bytes + kSpanBytes - 1) / kSpanBytes *
             kSpanBytes;
    table_ = reinterpret_cast<SpanEntry*>(start_ - table_bytes);
    if (is_whole) table_ += kHeapStart >> kSpanShift;
    spans_ = reinterpret_cast<Span*>(spans);
    committed_ = start_;
    __atomic_store_n(&end_, start_, __ATOMIC_RELEASE);
    limit_ = start_ + heap_bytes;
    return true;
  }
  return false;
}

Span* SpanPool::Extend(std::uint64_t length) {
  if (start_ == 0 && !Begin()) return nullptr;
  if (length > (limit_ - end_) >> kSpanShift) return nullptr;
  const std::uint64_t new_end = end_ + (length << kSpanShift);
  while (committed_ < new_end) {
    const std::uint64_t more =
        std::max(kCommitBytes, (new_end - committed_) / kCommitBytes * kCommitBytes);
    const std::uint64_t first = (committed_ - start_) >> kSpanShift;
    const std::uint64_t count = more >> kSpanShift;
    if (!Commit(table_ + first, count * sizeof(SpanEntry)) ||
        !Commit(spans_ + first, count * sizeof(Span)) ||
        !Commit(reinterpret_cast<void*>(committed_), more)) {
      return nullptr;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      table_[first + i].origin = committed_ + (i << kSpanShift);
    }
    committed_ += more;
  }
  Span* run = &spans_[(end_ - start_) >> kSpanShift];
  __atomic_store_n(&end_, new_end, __ATOMIC_RELEASE);
  run->length = static_cast<std::uint32_t>(length);
  run->dirty = false;
  run->used = 0;
  return run;
}

void SpanPool::Enlist(Span* run) {
  Span*& head = lists_[ListOf(run->length)];
  run->use = SpanUse::kFree;
  run->ends_free = true;
  run->previous = nullptr;
  run->next = head;
  if (head != nullptr) head->previous = run;
  head = run;
  if (run->length >= kReleasedSpans) releasable_pages_ += run->used;
  Span* last = run + run->length - 1;
  last->ends_free = true;
  last->length = run->length;
}

void SpanPool::Delist(Span* run) {
  (run->previous != nullptr ? run->previous->next : lists_[ListOf(run->length)]) = run->next;
  if (run->next != nullptr) run->next->previous = run->previous;
  if (run->length >= kReleasedSpans) releasable_pages_ -= run->used;
  run[run->length - 1].ends_free = false;
  run->ends_free = false;
  run->use = SpanUse::kNone;
}

Span* SpanPool::TakeFree(std::uint64_t length) {
  for (int list = ListOf(length); list < kLists; ++list) {
    for (Span* run = lists_[list]; run != nullptr; run = run->next) {
      if (run->length < length) continue;
      Delist(run);
      const auto taken = static_cast<std::uint32_t>(length);
      const SpanRange dirty_part = Before(run->dirty_part, taken);
      const std::uint32_t used = std::min(run->used, PagesOf(dirty_part));
      if (const std::uint64_t rest = run->length - length; rest > 0) {
        Span* left = run + length;
        left->length = static_cast<std::uint32_t>(rest);
        left->dirty_part = After(run->dirty_part, taken);
        left->used = std::min(run->used - used, PagesOf(left->dirty_part));
        Enlist(left);
      }
      run->dirty = !dirty_part.empty();
      run->used = used;
      run->length = static_cast<std::uint32_t>(length);
      return run;
    }
  }
  return nullptr;
}

Span* SpanPool::Take(std::uint64_t length) {
  if (length > kHeapBytes >> kSpanShift) return nullptr;
  const Locked locked(lock_);
  Span* run = TakeFree(length);
  return run != nullptr ? run : Extend(length);
}

void SpanPool::Give(Span* run, std::uint64_t used_pages) {
  const Locked locked(lock_);
  for (std::uint64_t i = 0; i < run->length; ++i) {
    Replace(EntryOf(run + i), {.origin = StartOf(run + i)});
    run[i].use = SpanUse::kNone;
  }
  run->dirty_part = {.start = 0, .end = run->length};
  run->used =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(PagesOf(run->dirty_part), used_pages));
  if (Span* after = run + run->length; StartOf(after) < end_ && after->ends_free) {
    Delist(after);
    Join(*run, *after);
  }
  if (run != spans_ && run[-1].ends_free) {
    Span* before = run - run[-1].length;
    Delist(before);
    Join(*before, *run);
    run = before;
  }
  Enlist(run);
  if (releasable_pages_ > KeptPages()) ReleaseLongest();
}

std::uint64_t SpanPool::KeptPages() const {
  return std::clamp((end_ - start_) / kPageBytes / kKeptShare, kLeastKeptPages, kMostKeptPages);
}

// Releases the longest runs first, until half of the kept pages are left. If the system refuses one
// (mlock(2)), it is asked again only after more was freed beside it.
void SpanPool::ReleaseLongest() {
  for (int list = kLists - 1; list >= ListOf(kReleasedSpans); --list) {
    for (Span* run = lists_[list]; run != nullptr; run = run->next) {
      if (releasable_pages_ <= KeptPages() / 2) return;
      if (run->used == 0) continue;
      const std::uint64_t bytes = std::uint64_t{run->length} << kSpanShift;
      if (::madvise(reinterpret_cast<void*>(StartOf(run)), bytes, MADV_DONTNEED) == 0) {
        run->dirty_part = {};
      }
      releasable_pages_ -= run->used;
      run->used = 0;
    }
  }
}

}  // namespace tmprof::objtrace
