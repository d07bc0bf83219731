// SPDX-License-Identifier: Apache-2.0
// The fast paths through the heap, inlined into the functions that a program calls. They serve most
// allocations, and most accesses to objects of other threads.

#pragma once

#include <cstdint>

#include "objects/runtime/heap.h"
#include "objects/runtime/slots.h"

namespace tmprof::objtrace {

inline void Heap::Begin(const Thread& thread, Header& header, const Birth& birth) {
  const std::uint64_t first = FirstWord(birth.stack, Load(header.generation),
                                        static_cast<std::uint8_t>(Log2(birth.alignment)));
  const std::uint32_t kept = birth.is_large ? kLargeBytes : static_cast<std::uint32_t>(birth.bytes);
  const std::uint64_t last = std::uint64_t{birth.time_ms} | std::uint64_t{kept} << 32;
  SetLastWord(header, last);
  Store(header.count, 0);
  header.shared.store(0, std::memory_order_relaxed);
  SetFirstWord(header, first | std::uint64_t{SealOf(header, first, last, true)} << 32);
  SiteTotals& site = thread.sites[birth.stack];
  Add(site.objects, 1);
  Add(site.bytes, birth.bytes);
}

// A program that builds a tree allocates between searches. The next search begins when most of this
// is done, so that each instruction shows (bench/objects). The clock is read first, because without
// a call behind it little has to be saved.
inline void* Heap::AllocateFast(std::uint64_t bytes, const void* frame) {
  const std::uint64_t now_ms = NowMs();
  const std::uint64_t start_ms = this->start_ms();
  Thread* thread = self;
  if (thread == nullptr || !thread->stack_known || bytes - 1 >= kFineSlotBytes - sizeof(Header) ||
      start_ms == 0 || now_ms < start_ms) {
    return nullptr;
  }
  Span* span = thread->bins[ClassOf(sizeof(Header) + bytes)].current;
  if (span == nullptr) return nullptr;
  const std::uint32_t stack =
      thread->known_stacks.Find(frame, thread->stack.OwnEnd(), unwinder.generation());
  if (stack == kUnknownStack) return nullptr;
  Header* header = TakeFrom(*span);
  if (header == nullptr) return nullptr;
  Begin(*thread, *header,
        {.stack = stack,
         .time_ms = static_cast<std::uint32_t>(now_ms - start_ms),
         .bytes = bytes,
         .alignment = kAlignment,
         .is_large = false});
  return header + 1;
}

inline void* Heap::Allocate(std::uint64_t bytes, const void* frame) {
  void* object = AllocateFast(bytes, frame);
  return __builtin_expect(object != nullptr, 1) ? object
                                                : AllocateAligned(bytes, kAlignment, frame);
}

inline std::uint64_t Heap::GenerationOf(const Header& header) {
  return std::uint64_t{Load(header.generation)} | std::uint64_t{Load(header.birth_ms)} << 8;
}

inline std::uint64_t Heap::PlaceOf(const Header& header) {
  const std::uint64_t address = AddressOf(header);
  return (address >> 5 ^ address >> 14) % Thread::kPending;
}

inline bool Heap::IsOf(const Pending& pending, const Header& header) {
  return Load(pending.header) == &header && Load(pending.generation) == GenerationOf(header);
}

inline Header* Heap::HeaderBy(const SpanEntry& entry, std::uint64_t address) {
  const std::uint64_t index = address % kSpanBytes * Load(entry.reciprocal) >> kReciprocalShift;
  return At(Load(entry.origin) + index * Load(entry.slot_bytes));
}

// The header is not read before it is known to be an object's, because the end of a span may not be
// a whole slot. It sets `busy` as Within does, but by hand: a handler that interrupts it takes the
// slow path.
inline bool Heap::CountAgain(Thread& thread, std::uint64_t address, std::uint64_t accesses) {
  const Span* there = pool_.SpanAt(address);
  if (there == nullptr || thread.busy != 0) return false;
  const SpanEntry& entry = pool_.EntryOf(there);
  const std::uint32_t owner = Load(entry.owner);
  if (owner == 0 || owner == thread.number) return false;
  const Header* header = HeaderBy(entry, address);
  Pending& pending = thread.pending[PlaceOf(*header)];
  thread.busy = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const bool is_it = IsOf(pending, *header);
  if (is_it) Add(pending.count, accesses);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  thread.busy = 0;
  return is_it;
}

}  // namespace tmprof::objtrace
