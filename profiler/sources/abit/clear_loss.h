// SPDX-License-Identifier: Apache-2.0
// When a page whose accessed bit is cleared by itself can be found accessed again.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace tmprof::abit {

// The least times from a clear of one page to its read. The clear takes some 7 us and the read
// 2 us, so the exposures of the last rung are 5 to 8 us long.
inline constexpr std::array<std::chrono::nanoseconds, 3> kFastRungs{
    std::chrono::microseconds(64), std::chrono::microseconds(16), std::chrono::microseconds(4)};

// The moment in a clear of one page from which accesses set its bit again, as a part of the time
// that the clear takes.
struct ClearMoment {
  double part = 0.5;
  // Without a measurement it may be any part from 0 to 1. The last rung, whose exposure is as short
  // as a clear, is then left out.
  bool is_measured = false;

  std::size_t rungs() const { return is_measured ? kFastRungs.size() : kFastRungs.size() - 1; }
};

}  // namespace tmprof::abit
