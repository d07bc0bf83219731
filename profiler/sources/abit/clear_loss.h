// SPDX-License-Identifier: Apache-2.0
// What a clear of one page takes from the time in which the page can be accessed.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>

namespace tmprof::abit {

// The least times from a clear of one page to its read. The clear takes some 7 us and the read
// 2 us, so the exposures of the last rung are 5 to 8 us long.
inline constexpr std::array<std::chrono::nanoseconds, 3> kFastRungs{
    std::chrono::microseconds(64), std::chrono::microseconds(16), std::chrono::microseconds(4)};

// The time from the middle of a clear to the read is known. The exposure is shorter: the bit goes
// at some other moment of the clear, each CPU that runs the target is interrupted, and the
// scanner's own work slows a target that runs on the same core.
struct ClearLoss {
  // By rung, of the page's own clear; negative: the bit went before the middle.
  std::array<std::chrono::nanoseconds, kFastRungs.size()> own{};
  std::chrono::nanoseconds others{0};  // of each clear of another page meanwhile
  // Without a measurement the bit is taken to go at the end of the clear, right before an interrupt
  // as long as `others`. That may be wrong by half a clear, so the last rung is left out.
  bool is_measured = false;

  std::size_t rungs() const { return is_measured ? kFastRungs.size() : kFastRungs.size() - 1; }
};

}  // namespace tmprof::abit
