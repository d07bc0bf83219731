// SPDX-License-Identifier: Apache-2.0
// The way of most allocations through the heap, a part of each function that a program calls for
// one.

#pragma once

#include <cstdint>

#include "objtrace/runtime/heap.h"
#include "objtrace/runtime/slots.h"

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

// What a program that builds a tree does between searches: the next one begins when most of this is
// done, so that each instruction shows (bench/objects). Hence the clock is asked first: with no
// call after it, little has to be saved.
inline void* Heap::AllocateFast(std::uint64_t bytes, const void* frame) {
  const std::uint64_t now_ms = NowMs();
  Thread* thread = self;
  if (thread == nullptr || !thread->stack_known || bytes - 1 >= kFineSlotBytes - sizeof(Header) ||
      start_ms_ == 0 || now_ms < start_ms_) {
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
         .time_ms = static_cast<std::uint32_t>(now_ms - start_ms_),
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

}  // namespace tmprof::objtrace
