// SPDX-License-Identifier: Apache-2.0
// The name of a page in a trace: its target and its virtual page.

#pragma once

#include <compare>

#include "base/units.h"

namespace tmprof {

// Ordered by target, then virtual page. Every profile column is sorted by this order, and every
// ranking uses it as the last tie-break.
struct PageKey {
  TargetId target;
  Vpn vpn;

  friend constexpr auto operator<=>(const PageKey&, const PageKey&) = default;
  friend constexpr bool operator==(const PageKey&, const PageKey&) = default;
};

}  // namespace tmprof
