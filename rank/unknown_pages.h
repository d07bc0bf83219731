// SPDX-License-Identifier: Apache-2.0
// Resident pages that were neither looked at nor sampled. Only rank/ uses it.

#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "base/units.h"

namespace tmprof {

struct UnknownPages {
  TargetId target;
  double pages = 0;                   // a page that several targets map counts in part for each
  double remembered_cpu_seconds = 0;  // the target's
  // The target shares memory, so that these are like pages of any target.
  bool are_as_all = false;
};

inline PageCount SizeOf(std::span<const UnknownPages> unknown) {
  double sum = 0;
  for (const UnknownPages& each : unknown) sum += each.pages;
  return PageCount(static_cast<std::uint64_t>(std::llround(sum)));
}

}  // namespace tmprof
