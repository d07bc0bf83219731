// SPDX-License-Identifier: Apache-2.0
// Computes how much of an arena an object takes, for the library that places it
// (objects/tracker/arenas.h) and for predictions of the gain.

#pragma once

#include <bit>
#include <cstdint>

namespace tmprof {

inline constexpr std::uint64_t kArenaBytes = std::uint64_t{1} << 36;
// Larger objects stay with malloc(3).
inline constexpr std::uint64_t kMostPlacedBytes = kArenaBytes / 2;

// Size classes in units of 16 bytes: 1 to 8 units, then four classes to each doubling.
inline constexpr std::uint64_t kArenaUnitBytes = 16;
inline constexpr std::uint32_t kSmallArenaClasses = 8;
inline constexpr std::uint64_t kArenaHeaderBytes = 16;  // before each block

// Precondition: units > 0.
constexpr std::uint32_t ArenaClassOf(std::uint64_t units) {
  if (units <= kSmallArenaClasses) return static_cast<std::uint32_t>(units) - 1;
  const auto shift = static_cast<std::uint32_t>(std::bit_width(units - 1)) - 3;
  const auto quarter = static_cast<std::uint32_t>((units - 1) >> shift) - 4;
  return kSmallArenaClasses + (shift - 1) * 4 + quarter;
}

constexpr std::uint64_t ArenaUnitsOf(std::uint32_t size_class) {
  if (size_class < kSmallArenaClasses) return size_class + 1;
  const std::uint32_t shift = (size_class - kSmallArenaClasses) / 4 + 1;
  return std::uint64_t{(size_class - kSmallArenaClasses) % 4 + 5} << shift;
}

constexpr std::uint32_t ArenaClassOfBytes(std::uint64_t bytes) {
  return ArenaClassOf(bytes == 0 ? 1 : (bytes - 1) / kArenaUnitBytes + 1);
}

// Includes the header. Precondition: bytes <= kMostPlacedBytes.
constexpr std::uint64_t ArenaBlockBytes(std::uint64_t bytes) {
  return ArenaUnitsOf(ArenaClassOfBytes(bytes)) * kArenaUnitBytes + kArenaHeaderBytes;
}

}  // namespace tmprof
