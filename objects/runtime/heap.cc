// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/heap.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "objects/runtime/heap_fast.h"
#include "objects/runtime/slots.h"

namespace tmprof::objtrace {
namespace {

std::uint64_t Rounded(std::uint64_t value, std::uint64_t to) { return (value + to - 1) / to * to; }

void Enlist(Bin& bin, Span* span) {
  span->previous = nullptr;
  span->next = bin.partial;
  if (span->next != nullptr) span->next->previous = span;
  bin.partial = span;
}

void Delist(Bin& bin, Span* span) {
  (span->previous != nullptr ? span->previous->next : bin.partial) = span->next;
  if (span->next != nullptr) span->next->previous = span->previous;
}

}  // namespace

constinit Heap heap;

std::uint64_t Heap::NowSinceStart() {
  const std::uint64_t now = NowMs();
  std::uint64_t start = start_ms_.load(std::memory_order_relaxed);
  if (start == 0 && start_ms_.compare_exchange_strong(start, now, std::memory_order_relaxed)) {
    start = now;
  }
  return now > start ? now - start : 0;
}

std::uint64_t Heap::BytesOf(const Header& header) const {
  return header.bytes != kLargeBytes ? header.bytes : SpanOf(header)->large_bytes;
}

std::uint64_t Heap::StartOf(const Header& header) const {
  return Rounded(AddressOf(header) + sizeof(Header), std::uint64_t{1} << header.alignment_shift);
}

// Slots.

bool Heap::AddSpan(Thread& thread, int size_class) {
  Span* span = pool_.Take(1);
  if (span == nullptr) return false;
  const std::uint32_t slot_bytes = kSlotBytes[static_cast<std::size_t>(size_class)];
  span->by_element = false;
  span->size_class = static_cast<std::uint8_t>(size_class);
  span->owner = thread.number;
  span->capacity = static_cast<std::uint16_t>(kSpanBytes / slot_bytes);
  span->used_pages_before = span->used;
  span->used = 0;
  span->bump.store(0, std::memory_order_relaxed);
  span->fresh = At(pool_.StartOf(span));
  span->free = nullptr;
  span->use = SpanUse::kSlots;
  Replace(pool_.EntryOf(span), {.owner = thread.number,
                                .origin = pool_.StartOf(span),
                                .reciprocal = ReciprocalOf(slot_bytes),
                                .slot_bytes = slot_bytes});
  thread.bins[size_class].current = span;
  return true;
}

void Heap::PutBack(Thread& thread, Span* span, Header* header) {
  Bin& bin = thread.bins[span->size_class];
  const bool was_full = IsFull(*span);
  SetNext(*header, span->free);
  span->free = header;
  --span->used;
  if (span == bin.current) return;
  if (span->used == 0 && !IsBeingFlushed(*span)) {
    Delist(bin, span);
    const std::uint64_t slots = span->bump.load(std::memory_order_relaxed);
    pool_.Give(span,
               std::max(span->used_pages_before, PagesOf(slots * kSlotBytes[span->size_class])));
  } else if (was_full) {
    Enlist(bin, span);
  }
}

// Reads and writes in one operation. A thread that begins to flush after this sees that no object
// lives.
bool Heap::IsBeingFlushed(const Span& run) const {
  const std::uint64_t start = pool_.StartOf(&run);
  const std::uint64_t bytes =
      run.use == SpanUse::kLarge ? std::uint64_t{run.length} << kSpanShift : kSpanBytes;
  bool found = false;
  registry_.EachThread([&](Thread& thread) {
    const std::uint64_t header = thread.flushing.fetch_or(0, std::memory_order_acq_rel);
    found = found || header - start < bytes;
  });
  return found;
}

void Heap::GiveLarge(Thread& thread, Span* run) {
  run->next = thread.held;
  thread.held = run;
  for (Span** at = &thread.held; *at != nullptr;) {
    Span* held = *at;
    if (IsBeingFlushed(*held)) {
      at = &held->next;
    } else {
      *at = held->next;
      const std::uint64_t start = pool_.StartOf(held);
      pool_.Give(held, std::max(std::uint64_t{held->used},
                                PagesOf(StartOf(*At(start)) + held->large_bytes - start)));
    }
  }
}

void Heap::DrainReturned(Thread& thread) {
  Header* header = thread.returned.exchange(nullptr, std::memory_order_acquire);
  while (header != nullptr) {
    Header* next = Next(*header);
    PutBack(thread, SpanOf(*header), header);
    header = next;
  }
}

Header* Heap::TakeSlot(Thread& thread, int size_class) {
  Bin& bin = thread.bins[size_class];
  if (bin.current != nullptr) {
    if (Header* header = TakeFrom(*bin.current)) return header;
  }
  DrainReturned(thread);
  if (bin.current == nullptr || IsFull(*bin.current)) {
    if (Span* partial = bin.partial) {
      Delist(bin, partial);
      bin.current = partial;
    } else if (!AddSpan(thread, size_class)) {
      return nullptr;
    }
  }
  return TakeFrom(*bin.current);
}

Header* Heap::TakeLarge(const Thread& thread, std::uint64_t bytes, std::uint64_t slot_bytes,
                        bool& zeros) {
  Span* run = pool_.Take((slot_bytes + kSpanBytes - 1) >> kSpanShift);
  if (run == nullptr) return nullptr;
  zeros = zeros && run->dirty;
  run->by_element = false;
  run->owner = thread.number;
  run->large_bytes = bytes;
  run->use = SpanUse::kLarge;
  const std::uint64_t start = pool_.StartOf(run);
  for (std::uint32_t i = 0; i < run->length; ++i) {
    Replace(pool_.EntryOf(run + i), {.owner = thread.number, .origin = start});
  }
  return At(start);
}

// Objects.

std::uint32_t Heap::StackOf(Thread& thread, const void* frame) {
  const std::uint32_t known =
      thread.known_stacks.Find(frame, thread.stack.OwnEnd(), unwinder.generation());
  return known != kUnknownStack ? known : WalkStack(thread, frame);
}

std::uint32_t Heap::WalkStack(Thread& thread, const void* frame) {
  const std::uint32_t generation = unwinder.generation();
  CallChain callers;
  unwinder.Walk(frame, thread.stack.Get(), callers);
  const std::uint32_t stack = stacks_.Intern(callers);
  if (stack != kUnknownStack) thread.known_stacks.Keep(frame, callers, stack, generation);
  return stack;
}

void Heap::End(Thread& thread, Header& header) {
  SiteTotals& site = thread.sites[header.stack];
  Add(site.freed_objects, 1);
  Add(site.freed_bytes, BytesOf(header));
  Add(site.freed_accesses, Load(header.count) + header.shared.load(std::memory_order_relaxed));
  Add(site.freed_age_ms, NowSinceStart() - header.birth_ms);
  Store(header.generation, static_cast<std::uint8_t>(header.generation + 1));
  Store(header.seal, SealOf(header, false));
}

void* Heap::AllocateFrom(Thread& thread, std::uint64_t bytes, std::uint64_t alignment,
                         const void* frame, bool& zeros) {
  if (bytes > kHeapBytes || alignment > kHeapBytes) return nullptr;
  // Even an object of no bytes has an address of its own.
  const std::uint64_t slot_bytes =
      sizeof(Header) + std::max<std::uint64_t>(bytes, 1) + (alignment - kAlignment);
  const bool is_large = slot_bytes > kMaxSlotBytes;
  Header* header = is_large ? TakeLarge(thread, bytes, slot_bytes, zeros)
                            : TakeSlot(thread, ClassOf(slot_bytes));
  if (header == nullptr) return nullptr;
  Begin(thread, *header,
        {.stack = StackOf(thread, frame),
         .time_ms = static_cast<std::uint32_t>(NowSinceStart()),
         .bytes = bytes,
         .alignment = alignment,
         .is_large = is_large});
  return reinterpret_cast<void*>(StartOf(*header));
}

void* Heap::AllocateAligned(std::uint64_t bytes, std::uint64_t alignment, const void* frame) {
  Thread* thread = registry_.SelfWithStack();
  bool zeros = false;
  return thread != nullptr ? AllocateFrom(*thread, bytes, alignment, frame, zeros) : nullptr;
}

void* Heap::AllocateZeros(std::uint64_t bytes, const void* frame) {
  bool zeros = true;
  void* object = AllocateFast(bytes, frame);
  if (object == nullptr) {
    Thread* thread = registry_.SelfWithStack();
    if (thread == nullptr) return nullptr;
    object = AllocateFrom(*thread, bytes, kAlignment, frame, zeros);
  }
  if (object != nullptr && zeros) std::memset(object, 0, bytes);
  return object;
}

Heap::Slot Heap::Look(std::uint64_t address, Header*& header) const {
  const Span* there = pool_.SpanAt(address);
  if (there == nullptr) return Slot::kNone;
  const SpanEntry& entry = pool_.EntryOf(there);
  const std::uint64_t index = address % kSpanBytes * Load(entry.reciprocal) >> kReciprocalShift;
  const std::uint64_t offset = index * Load(entry.slot_bytes);
  // While a span changes its owner, these fields may be of different times.
  if (offset > kSpanBytes - sizeof(Header)) return Slot::kNone;
  header = At(Load(entry.origin) + offset);
  const Span& span = *SpanOf(*header);
  if ((span.use != SpanUse::kLarge || offset != 0) &&
      (span.use != SpanUse::kSlots || index >= span.bump.load(std::memory_order_relaxed))) {
    return Slot::kNone;
  }
  const std::uint16_t seal = Load(header->seal);
  if (seal == SealOf(*header, true)) return Slot::kLive;
  return seal == SealOf(*header, false) ? Slot::kFree : Slot::kOverwritten;
}

Header* Heap::Find(std::uint64_t address) const {
  Header* header = nullptr;
  return Look(address, header) == Slot::kLive ? header : nullptr;
}

Header& Heap::RequireLive(void* object) {
  Header* header = nullptr;
  switch (Look(reinterpret_cast<std::uint64_t>(object), header)) {
    case Slot::kNone:
      Die("free or realloc of what was not allocated, or was freed before:", object);
    case Slot::kFree:
      Die("free or realloc of an object that was freed before:", object);
    case Slot::kOverwritten:
      Die("free or realloc of an object whose header was overwritten:", object);
    case Slot::kLive:
      break;
  }
  if (StartOf(*header) != reinterpret_cast<std::uint64_t>(object)) {
    Die("free or realloc of an address inside of an object:", object);
  }
  return *header;
}

void Heap::Free(void* object) {
  Header& header = RequireLive(object);
  const Registry::ToFree place(registry_);
  Thread* thread = place.thread();
  if (thread == nullptr) return;  // no memory for this thread's record: the object stays
  Span* span = SpanOf(header);
  if (span->by_element) elements_.Remove(&header);
  FlushOwn(*thread, header);
  End(*thread, header);
  if (span->use == SpanUse::kLarge) return GiveLarge(*thread, span);
  if (span->owner == thread->number) return PutBack(*thread, span, &header);
  std::atomic<Header*>& returned = registry_.Get(span->owner)->returned;
  Header* first = returned.load(std::memory_order_relaxed);
  do SetNext(header, first);
  while (!returned.compare_exchange_weak(first, &header, std::memory_order_release,
                                         std::memory_order_relaxed));
}

std::uint64_t Heap::RoomOf(const Header& header) const {
  const Span& span = *SpanOf(header);
  const std::uint64_t end = span.use == SpanUse::kLarge
                                ? pool_.StartOf(&span) + (std::uint64_t{span.length} << kSpanShift)
                                : AddressOf(header) + kSlotBytes[span.size_class];
  return end - StartOf(header);
}

// A large object extends to the end of its last page. More would be memory that it does not have.
std::uint64_t Heap::UsableBytes(void* object) {
  const Header& header = RequireLive(object);
  const Span& span = *SpanOf(header);
  if (span.use != SpanUse::kLarge) return RoomOf(header);
  const std::uint64_t start = StartOf(header);
  return Rounded(start + std::max<std::uint64_t>(span.large_bytes, 1), kPageBytes) - start;
}

void* Heap::Reallocate(void* object, std::uint64_t bytes, const void* frame) {
  Header& old = RequireLive(object);
  Thread* thread = registry_.SelfWithStack();
  if (thread == nullptr) return nullptr;
  const std::uint64_t usable = UsableBytes(object);
  const std::uint64_t room = RoomOf(old);
  Span* span = SpanOf(old);
  // No run is shorter than a span.
  const bool is_least = span->use == SpanUse::kLarge && span->length == 1 && bytes > kMaxSlotBytes;
  if (bytes <= room && (bytes >= room / 2 || is_least) && !span->by_element) {
    Add(thread->sites[old.stack].bytes, bytes - BytesOf(old));
    if (old.bytes == kLargeBytes) {
      span->large_bytes = bytes;
    } else {
      Store(old.bytes, static_cast<std::uint32_t>(bytes));
      Store(old.seal, SealOf(old, true));
    }
    return object;
  }
  bool zeros = false;
  void* moved = AllocateFrom(*thread, bytes, kAlignment, frame, zeros);
  if (moved == nullptr) return nullptr;
  // The program may use all that malloc_usable_size(3) reports.
  std::memcpy(moved, object, std::min(bytes, usable));
  FlushOwn(*thread, old);
  Header& header = *Find(reinterpret_cast<std::uint64_t>(moved));
  Store(header.count, Load(old.count));
  header.shared.store(old.shared.load(std::memory_order_relaxed), std::memory_order_relaxed);
  Store(old.count, 0);
  old.shared.store(0, std::memory_order_relaxed);
  Free(object);
  return moved;
}

// Counts.

bool Heap::IsOfLive(const Pending& pending) const {
  const Header* header = Load(pending.header);
  return Find(reinterpret_cast<std::uint64_t>(header)) == header && IsOf(pending, *header);
}

// Another thread may be freeing the object. Its slot then still takes counts (layout.h), and its
// memory stays the heap's while `flushing` says so.
void Heap::Flush(Thread& thread, Pending& pending) {
  Header* header = pending.header;
  const std::uint64_t count = Load(pending.count);
  thread.flushing.exchange(AddressOf(*header), std::memory_order_acq_rel);
  if (IsOfLive(pending)) {
    header->shared.fetch_add(count, std::memory_order_relaxed);
  } else {
    Add(thread.sites[pending.stack].freed_accesses, count);
  }
  thread.flushing.store(0, std::memory_order_release);
  Store(pending.count, 0);
}

// Flushes this thread's counts of another thread's object.
void Heap::FlushOwn(Thread& thread, const Header& header) {
  if (SpanOf(header)->owner == thread.number) return;
  Pending& pending = thread.pending[PlaceOf(header)];
  const Within within(thread);
  if (within.entered() && IsOf(pending, header)) Flush(thread, pending);
}

void Heap::CountShared(Thread& thread, Header& header, std::uint64_t accesses) {
  const Within within(thread);
  if (!within.entered()) {
    header.shared.fetch_add(accesses, std::memory_order_relaxed);
    return;
  }
  Pending& pending = thread.pending[PlaceOf(header)];
  if (!IsOf(pending, header)) {
    if (pending.header != nullptr) Flush(thread, pending);
    Store(pending.stack, header.stack);
    Store(pending.generation, GenerationOf(header));
    Store(pending.header, &header);
  }
  Add(pending.count, accesses);
}

bool Heap::Count(Thread& thread, std::uint64_t address, std::uint64_t accesses) {
  Header* header = Find(address);
  if (header == nullptr) return false;
  const Span& span = *SpanOf(*header);
  if (span.by_element) {
    if (Elements* elements = elements_.Find(header); elements != nullptr) {
      const std::uint64_t index = (address - elements->start) / elements->element_bytes;
      if (index < elements->elements) {
        elements->counts[index].fetch_add(accesses, std::memory_order_relaxed);
      }
    }
  }
  if (span.owner == thread.number) {
    Add(header->count, accesses);
  } else {
    CountShared(thread, *header, accesses);
  }
  return true;
}

std::uint64_t Heap::CountOf(const Header& header) const {
  std::uint64_t count = Load(header.count) + header.shared.load(std::memory_order_relaxed);
  registry_.EachThread([&](const Thread& thread) {
    const Pending& pending = thread.pending[PlaceOf(header)];
    if (IsOf(pending, header)) count += Load(pending.count);
  });
  return count;
}

int Heap::CountByElement(Header& header, std::uint64_t element_bytes) {
  if (const int error = elements_.Add(&header, StartOf(header), BytesOf(header), element_bytes)) {
    return error;
  }
  Span* span = SpanOf(header);
  span->by_element = true;
  const std::uint32_t spans = span->use == SpanUse::kLarge ? span->length : 1;
  for (std::uint32_t i = 0; i < spans; ++i) {
    __atomic_store_n(&pool_.EntryOf(span + i).owner, std::uint32_t{0}, __ATOMIC_RELAXED);
  }
  return 0;
}

void Heap::Reset() {
  for (Header* header = NextFrom(pool_.start()); header != nullptr;
       header = NextFrom(AddressOf(*header) + 1)) {
    Store(header->count, 0);
    header->shared.store(0, std::memory_order_relaxed);
    if (const Elements* elements = elements_.Find(header)) {
      for (std::uint64_t i = 0; i < elements->elements; ++i) elements->counts[i] = 0;
    }
  }
  registry_.EachThread([](Thread& thread) {
    for (Pending& pending : thread.pending) Store(pending.count, 0);
  });
}

Header* Heap::NextFrom(std::uint64_t address) const {
  while (const Span* span = pool_.SpanAt(address)) {
    const std::uint64_t start = pool_.StartOf(span);
    std::uint64_t skipped = 1;
    if (span->use == SpanUse::kSlots) {
      const std::uint64_t slot_bytes = kSlotBytes[span->size_class];
      for (std::uint64_t slot = (address - start + slot_bytes - 1) / slot_bytes;
           slot < span->bump.load(std::memory_order_relaxed); ++slot) {
        Header* header = At(start + slot * slot_bytes);
        if (Load(header->seal) == SealOf(*header, true)) return header;
      }
    } else if (span->use == SpanUse::kLarge) {
      Header* header = At(start);
      if (address == start && Load(header->seal) == SealOf(*header, true)) return header;
      skipped = span->length;
    } else if (span->use == SpanUse::kFree) {
      skipped = span->length;
    }
    address = start + (skipped << kSpanShift);
  }
  return nullptr;
}

void Heap::LockAll() {
  registry_.lock().Acquire();
  stacks_.lock().Acquire();
  elements_.lock().Acquire();
  pool_.lock().Acquire();
}

void Heap::UnlockAll() {
  pool_.lock().Release();
  elements_.lock().Release();
  stacks_.lock().Release();
  registry_.lock().Release();
}

}  // namespace tmprof::objtrace
