// SPDX-License-Identifier: Apache-2.0
// The name of a page in a trace: which target, which virtual page.

#pragma once

#include <compare>

#include "base/units.h"

namespace tmprof {

// Ordered by target, then virtual page. Every profile column is sorted by it, and it is the last
// tie-break of every ranking.
struct PageKey {
  TargetId target;
  Vpn vpn;

  friend constexpr auto operator<=>(const PageKey&, const PageKey&) = default;
  friend constexpr bool operator==(const PageKey&, const PageKey&) = default;
};

}  // namespace tmprof
