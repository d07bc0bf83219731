// SPDX-License-Identifier: Apache-2.0
// An exact part of a whole, as in "tier 1 holds 1/16 of the footprint".

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace tmprof {

// It is in lowest terms, with 0 < numerator <= denominator.
struct Ratio {
  std::uint64_t numerator = 1;
  std::uint64_t denominator = 1;

  friend bool operator==(const Ratio&, const Ratio&) = default;
};

// Parses "1/16", "0.0625" or "6.25%", exactly. Refuses 0, anything above 1, and more digits than an
// exact fraction of 64 bits holds.
Result<Ratio> ParseRatio(std::string_view text);
std::string ToString(Ratio ratio);  // "1/16"; "1" for the whole

// Returns floor(ratio x whole), but at least one page.
PageCount CapacityAt(Ratio ratio, PageCount whole);

}  // namespace tmprof
