// SPDX-License-Identifier: Apache-2.0

#include "objects/runtime/elements.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace tmprof::objtrace {
namespace {

const auto* const kRemoved = reinterpret_cast<const Header*>(1);

std::uint64_t BytesOfCounts(const Elements& elements) {
  return elements.elements * sizeof(std::uint64_t);
}

}  // namespace

std::uint64_t ElementTable::PlaceOf(const Header* header) {
  return reinterpret_cast<std::uint64_t>(header) * 0x9E3779B97F4A7C15 >> 48;
}

Elements* ElementTable::Find(const Header* header) const {
  Elements* places = places_.load(std::memory_order_acquire);
  if (places == nullptr) return nullptr;
  for (std::uint64_t i = 0, at = PlaceOf(header); i < kPlaces; ++i, ++at) {
    Elements& place = places[at % kPlaces];
    const Header* there = place.header.load(std::memory_order_acquire);
    if (there == header) return &place;
    if (there == nullptr) return nullptr;
  }
  return nullptr;
}

int ElementTable::Add(const Header* header, std::uint64_t start, std::uint64_t bytes,
                      std::uint64_t element_bytes) {
  const Locked locked(lock_);
  if (Find(header) != nullptr) return EEXIST;
  if (taken_ == kPlaces) return ENOMEM;
  Elements* places = places_.load(std::memory_order_relaxed);
  if (places == nullptr) {
    places = static_cast<Elements*>(MapSparse(kPlaces * sizeof(Elements)));
    if (places == nullptr) return ENOMEM;
    places_.store(places, std::memory_order_release);
  }
  std::uint64_t at = PlaceOf(header);
  while (reinterpret_cast<std::uintptr_t>(
             places[at % kPlaces].header.load(std::memory_order_relaxed)) > 1) {
    ++at;
  }
  Elements& place = places[at % kPlaces];
  place.start = start;
  place.element_bytes = element_bytes;
  // An object of no bytes has one element: no memory cannot be mapped.
  place.elements = (std::max<std::uint64_t>(bytes, 1) + element_bytes - 1) / element_bytes;
  place.counts = static_cast<std::atomic<std::uint64_t>*>(MapSparse(BytesOfCounts(place)));
  if (place.counts == nullptr) return ENOMEM;
  place.header.store(header, std::memory_order_release);
  ++taken_;
  return 0;
}

void ElementTable::Remove(const Header* header) {
  const Locked locked(lock_);
  Elements* place = Find(header);
  if (place == nullptr) return;
  Elements* places = places_.load(std::memory_order_relaxed);
  // If the next place is taken, a search past this one may lead there. Otherwise this entry and the
  // removed ones before it can become free.
  place->header.store(kRemoved, std::memory_order_release);
  ::munmap(place->counts, BytesOfCounts(*place));
  --taken_;
  auto at = static_cast<std::uint64_t>(place - places);
  const auto header_at = [&](std::uint64_t i) -> std::atomic<const Header*>& {
    return places[i % kPlaces].header;
  };
  if (header_at(at + 1).load(std::memory_order_relaxed) != nullptr) return;
  for (; header_at(at).load(std::memory_order_relaxed) == kRemoved; at += kPlaces - 1) {
    header_at(at).store(nullptr, std::memory_order_release);
  }
}

}  // namespace tmprof::objtrace
