// SPDX-License-Identifier: Apache-2.0
// Decides whether a thread sleeps until something is due, or asks for the time again and again.

#pragma once

#include <chrono>

#include "base/units.h"

namespace tmprof::abit {

// A thread that sleeps for a few microseconds wakes far too late: on a virtual machine of an Intel
// Xeon, a sleep of 14 us took 64 us. Nine in ten pages had had their first access by then that the
// first read of a huge page's ladder, 16 us after the clear, is to tell apart.
inline constexpr std::chrono::nanoseconds kLongestSpin = std::chrono::microseconds(20);
// The thread sleeps after this time all the same, so that a clock that stands still never makes it
// take a whole CPU.
inline constexpr std::chrono::nanoseconds kLongestSpinInAll = std::chrono::microseconds(100);

// Not thread-safe.
class ShortWaits {
 public:
  // Returns true if the caller shall not sleep until `next`, but ask again at once.
  bool Spins(MonotonicTime now, MonotonicTime next) {
    if (next <= now || next - now > kLongestSpin) {
      spins_ = false;
      return false;
    }
    if (!spins_) since_ = now;
    spins_ = now - since_ < kLongestSpinInAll;
    return spins_;
  }

 private:
  bool spins_ = false;
  MonotonicTime since_{};  // if it spins
};

}  // namespace tmprof::abit
