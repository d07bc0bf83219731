// SPDX-License-Identifier: Apache-2.0
// Decides whether a thread sleeps until something is due, or asks for the time again and again.

#pragma once

#include <chrono>
#include <utility>

#include "base/units.h"

namespace tmprof::abit {

// A thread that sleeps for a few microseconds wakes far too late: on a virtual machine of an Intel
// Xeon, a sleep of 14 us took 64 us. Nine in ten pages had had their first access by then that the
// first read of a huge page's ladder, 16 us after the clear, is to tell apart.
inline constexpr std::chrono::nanoseconds kLongestSpin = std::chrono::microseconds(20);
// A clock that stands still never comes nearer to `next`. After this time the thread sleeps, and
// spins again only once something was due or far off.
inline constexpr std::chrono::nanoseconds kLongestSpinInAll = std::chrono::microseconds(100);

// Not thread-safe.
class ShortWaits {
 public:
  // Returns true if the caller shall not sleep until `next`, but ask again at once.
  bool Spins(MonotonicTime now, MonotonicTime next) {
    if (next <= now || next - now > kLongestSpin) {
      is_near_ = false;
      return false;
    }
    if (!std::exchange(is_near_, true)) since_ = now;
    return now - since_ < kLongestSpinInAll;
  }

 private:
  bool is_near_ = false;  // `next` is so near, and has been since then
  MonotonicTime since_{};
};

}  // namespace tmprof::abit
