// SPDX-License-Identifier: Apache-2.0
// Slots: their sizes, their headers, and how to take one from a span.

#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "objects/layout.h"
#include "objects/runtime/span_pool.h"
#include "objects/runtime/system.h"
#include "objects/runtime/thread.h"

namespace tmprof::objtrace {

inline constexpr std::uint64_t kMaxSlotBytes = 32 << 10;
inline constexpr std::uint64_t kFineSlotBytes = 512;  // multiples of kSlotUnitBytes up to here
inline constexpr int kFineClasses = kFineSlotBytes / kSlotUnitBytes;
inline constexpr int kStepsShift = 3;  // logarithm of the steps per doubling above that
inline constexpr std::uint32_t kLargeBytes = UINT32_MAX;

// Rounds down.
inline int Log2(std::uint64_t value) { return static_cast<int>(std::bit_width(value)) - 1; }

inline int ClassOf(std::uint64_t slot_bytes) {
  if (slot_bytes <= kFineSlotBytes) {
    return static_cast<int>((slot_bytes + kSlotUnitBytes - 1) / kSlotUnitBytes) - 1;
  }
  const int doubling = Log2(slot_bytes - 1) - Log2(kFineSlotBytes);
  const std::uint64_t above = slot_bytes - 1 - (kFineSlotBytes << doubling);
  return kFineClasses + (doubling << kStepsShift) +
         static_cast<int>(above / ((kFineSlotBytes >> kStepsShift) << doubling));
}

inline constexpr std::array<std::uint16_t, kSizeClasses> kSlotBytes = [] {
  std::array<std::uint16_t, kSizeClasses> bytes{};
  std::uint64_t slot = 0;
  std::uint64_t step = kSlotUnitBytes;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (slot >= kFineSlotBytes && std::has_single_bit(slot)) step = slot >> kStepsShift;
    slot += step;
    bytes[i] = static_cast<std::uint16_t>(slot);
  }
  return bytes;
}();
static_assert(kSlotBytes[0] == 16 && kSlotBytes[31] == 512 && kSlotBytes[32] == 576 &&
              kSlotBytes[39] == 1024 && kSlotBytes.back() == kMaxSlotBytes);

constexpr std::uint64_t ReciprocalOf(std::uint64_t slot_bytes) {
  return ((std::uint64_t{1} << kReciprocalShift) + slot_bytes - 1) / slot_bytes;
}
// The rounding of the reciprocal never carries a quotient to the next whole number.
static_assert(std::ranges::all_of(kSlotBytes, [](std::uint64_t slot_bytes) {
  constexpr std::uint64_t kOne = std::uint64_t{1} << kReciprocalShift;
  return kSpanBytes * (ReciprocalOf(slot_bytes) * slot_bytes - kOne) < kOne;
}));
static_assert(kSpanBytes / kSlotUnitBytes <= UINT16_MAX);  // Span::capacity

inline Header* At(std::uint64_t address) { return reinterpret_cast<Header*>(address); }
inline std::uint64_t AddressOf(const Header& header) {
  return reinterpret_cast<std::uint64_t>(&header);
}

// Returns the header's last word: the birth and the bytes, or the link.
inline std::uint64_t LastWord(const Header& header) {
  return std::uint64_t{Load(header.birth_ms)} | std::uint64_t{Load(header.bytes)} << 32;
}

inline Header* Next(const Header& free) { return At(LastWord(free)); }
// Accesses several fields at once, which other threads may read.
using HeaderWord [[gnu::may_alias]] = std::uint64_t;
inline void SetLastWord(Header& header, std::uint64_t word) {
  __atomic_store_n(reinterpret_cast<HeaderWord*>(&header.birth_ms), word, __ATOMIC_RELAXED);
}
inline void SetFirstWord(Header& header, std::uint64_t word) {
  __atomic_store_n(reinterpret_cast<HeaderWord*>(&header.stack), word, __ATOMIC_RELAXED);
}
inline void SetNext(Header& free, Header* next) {
  SetLastWord(free, next == nullptr ? 0 : AddressOf(*next));
}

// Returns the header's first word without the seal.
inline std::uint64_t FirstWord(std::uint32_t stack, std::uint8_t generation,
                               std::uint8_t alignment_shift) {
  return std::uint64_t{stack} | std::uint64_t{generation} << 48 |
         std::uint64_t{alignment_shift} << 56;
}

// Covers all constant fields. A live object's seal covers both ends of the header: a write past the
// end of the object before, or below the start of this one, breaks it. The lowest bit is set if the
// object lives.
inline std::uint16_t SealOf(const Header& header, std::uint64_t first_word, std::uint64_t last_word,
                            bool live) {
  const std::uint64_t last = live ? last_word : 0;
  const std::uint64_t mixed =
      ((first_word ^ AddressOf(header)) * 0x9E3779B97F4A7C15) ^ ((last + 1) * 0xC2B2AE3D27D4EB4F);
  return static_cast<std::uint16_t>((mixed >> 48 & ~std::uint64_t{1}) | std::uint64_t{live});
}

inline std::uint16_t SealOf(const Header& header, bool live) {
  return SealOf(
      header, FirstWord(Load(header.stack), Load(header.generation), Load(header.alignment_shift)),
      LastWord(header), live);
}

inline bool IsFull(const Span& span) {
  return span.free == nullptr && span.bump.load(std::memory_order_relaxed) == span.capacity;
}

// Returns null if the span is full.
inline Header* TakeFrom(Span& span) {
  if (Header* header = span.free) {
    span.free = Next(*header);
    ++span.used;
    return header;
  }
  const std::uint32_t slot = span.bump.load(std::memory_order_relaxed);
  if (slot == span.capacity) return nullptr;
  span.bump.store(slot + 1, std::memory_order_relaxed);
  ++span.used;
  Header* header = span.fresh;
  span.fresh = At(AddressOf(*header) + kSlotBytes[span.size_class]);
  return header;
}

}  // namespace tmprof::objtrace
