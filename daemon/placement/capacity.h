// SPDX-License-Identifier: Apache-2.0
// How much of a tier the targets may have together.

#pragma once

#include <variant>

#include "base/ratio.h"
#include "base/units.h"

namespace tmprof {

// The memory that the targets have there, and the free memory beyond the reserve.
struct FreeCapacity {
  friend bool operator==(const FreeCapacity&, const FreeCapacity&) = default;
};

// A ratio is of their footprint.
using Capacity = std::variant<FreeCapacity, PageCount, Ratio>;

}  // namespace tmprof
