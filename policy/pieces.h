// SPDX-License-Identifier: Apache-2.0
// Cuts spans into the parts that can be in tier 1 by themselves. A page-table entry moves whole. A
// region has many entries and may be larger than all of tier 1; it was looked at as one because
// nothing finer is known.

#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "base/epoch_profile.h"
#include "base/units.h"

namespace tmprof {

// Returns the piece size of regions: a huge page or a thousandth of the memory, whichever is
// smaller. A tier 1 that is a small part of the memory can then still hold some pieces. The size
// depends on the memory alone, so that no tier depends on other capacities that are asked about.
constexpr PageCount PieceOf(PageCount memory) {
  constexpr std::uint64_t kPieces = 1024;
  constexpr std::uint64_t kLeast = 8;
  constexpr std::uint64_t kMost = 512;
  return PageCount(std::clamp(std::bit_floor(memory.value() / kPieces), kLeast, kMost));
}

constexpr bool IsInPieces(PageCount span, PageCount piece) {
  return span > piece && !IsOneEntry(span.value());
}

// Calls visit(VpnRange) for each piece, ascending. Pieces end at multiples of `piece`, so that they
// stay the same if the bounds of regions change.
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
