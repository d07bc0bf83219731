// SPDX-License-Identifier: Apache-2.0
// A clear of one page takes part of the time in which the page can be accessed.

#pragma once

#include <array>
#include <chrono>
#include <cstddef>

#include "base/epoch_profile.h"

namespace tmprof::abit {

// The least times from a clear of one page to its read. The clear takes some 7 us and the read
// 2 us, so the exposures of the last rung are some 8 to 11 us long.
inline constexpr std::array kFastRungs = kFastTryDelays;

// The time from the middle of a clear to the read is known. The exposure is shorter: the bit goes
// at some other moment of the clear, each CPU that runs the target is interrupted, and the
// scanner's own work slows a target that runs on the same core.
struct ClearLoss {
  // The loss by the page's own clear, by rung; negative: the bit went before the middle.
  std::array<std::chrono::nanoseconds, kFastRungs.size()> own{};
  std::chrono::nanoseconds others{0};  // loss by each clear of another page meanwhile
  // Without a measurement the loss is taken to be a quarter of the clear: the bit goes between its
  // middle and its end, as the clear waits for the interrupts at its end. Where a clear took 42 us,
  // it was 10 us (docs/design/recording.md). That may be wrong by a quarter, so the last rung is
  // left out.
  bool is_measured = false;

  std::size_t rungs() const { return is_measured ? kFastRungs.size() : kFastRungs.size() - 1; }
};

}  // namespace tmprof::abit
