// SPDX-License-Identifier: Apache-2.0
// What of a span can be in tier 1 by itself. A page-table entry moves whole; a region is of many
// entries, was looked at as one for want of knowing better, and may be larger than all of tier 1.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/epoch_profile.h"
#include "base/units.h"

namespace tmprof {

// Regions are cut into pieces of at most a huge page, and of less where a thousandth of the memory
// is less: tier 1 is to hold some of them, however small a part of the memory it is. A function of
// the memory alone, so that no tier depends on which others are asked about.
constexpr PageCount PieceOf(PageCount memory) {
  constexpr std::uint64_t kPieces = 1024;
  constexpr std::uint64_t kLeast = 8;
  constexpr std::uint64_t kMost = 512;
  return PageCount(std::clamp(std::bit_floor(memory.value() / kPieces), kLeast, kMost));
}

constexpr bool IsInPieces(PageCount span, PageCount piece) {
  return span > piece && !IsOneEntry(span.value());
}

// visit(VpnRange) for each piece, ascending. They end at multiples of `piece`, so that they stay
// the same as the bounds of regions change.
template <typename Visit>
void ForEachPiece(VpnRange span, PageCount piece, Visit visit) {
  if (!IsInPieces(span.size(), piece)) {
    visit(span);
    return;
  }
  for (Vpn start = span.start; start < span.end;) {
    const Vpn next((start.value() / piece.value() + 1) * piece.value());
    const Vpn end = std::min(next, span.end);
    visit(VpnRange{start, end});
    start = end;
  }
}

}  // namespace tmprof
