// SPDX-License-Identifier: Apache-2.0
// Watches how a target has run of late, to foretell when it will have used some CPU time.

#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "base/units.h"
#include "profiler/sources/abit/switch_clock.h"

namespace tmprof::abit {

class Pace {
 public:
  // Each look lets the pace follow.
  void See(MonotonicTime now, const RunningTime& running) {
    if (!started_) {
      started_ = true;
      share_at_ = seen_at_ = ran_at_ = now;
      share_cpu_ = seen_cpu_ = running.cpu;
    }
    stay_ = running.longest_stay;
    const std::chrono::nanoseconds time = now - seen_at_;
    const std::chrono::nanoseconds used = running.cpu - seen_cpu_;
    if (running.threads > 0 || used > std::chrono::nanoseconds(0)) ran_at_ = now;
    // A stay under way is not among those that have ended.
    const bool throughout = running.threads > 0 && used >= time - time / 8;
    current_stay_ = throughout ? current_stay_ + time : std::chrono::nanoseconds(0);
    seen_at_ = now;
    seen_cpu_ = running.cpu;
    if (const auto window = now - share_at_; window >= kShareWindow) {
      const double share = static_cast<double>((running.cpu - share_cpu_).count()) /
                           static_cast<double>(window.count());
      share_ = (share_ + share) / 2;
      share_at_ = now;
      share_cpu_ = running.cpu;
    }
  }

  // A thread stays on a CPU for so long.
  std::chrono::nanoseconds stay() const { return std::max(stay_, current_stay_); }

  // It has not run for so long that nothing can be foretold.
  bool rests(MonotonicTime now) const { return now - ran_at_ > kRests; }

  // The time by which it has very likely used that much CPU time.
  std::chrono::nanoseconds Takes(std::chrono::nanoseconds cpu, std::uint32_t threads) const {
    const double fastest = std::max(threads, 1u);
    const double share = std::clamp(share_, fastest / kMostStretch, fastest);
    const double margin = share < kAlways * fastest ? kMargin : 1;
    return std::chrono::nanoseconds(
        std::llround(margin * static_cast<double>(cpu.count()) / share));
  }

  // The time by which it has used that much CPU time if it goes on as before; less if it rests so
  // much that a sudden run would make the next look far too late.
  std::chrono::nanoseconds Likely(std::chrono::nanoseconds cpu) const {
    return std::chrono::nanoseconds(
        std::llround(static_cast<double>(cpu.count()) / std::max(share_, 1 / kMostUnwoken)));
  }

 private:
  // These are choices. A look that comes too early costs 5 us of the scanner, one that comes late
  // lengthens an exposure, which is recorded as it was.
  static constexpr std::chrono::nanoseconds kShareWindow = std::chrono::milliseconds(50);
  static constexpr std::chrono::nanoseconds kRests = std::chrono::milliseconds(20);
  static constexpr double kMostStretch = 32;
  static constexpr double kMostUnwoken = 16;  // of a target that wakes nobody when it runs
  static constexpr double kMargin = 1.5;
  static constexpr double kAlways = 0.95;  // a share above is of a program that does not rest

  bool started_ = false;
  double share_ = 1;  // CPU time a second
  MonotonicTime share_at_;
  std::chrono::nanoseconds share_cpu_{0};
  MonotonicTime seen_at_;
  std::chrono::nanoseconds seen_cpu_{0};
  MonotonicTime ran_at_;
  std::chrono::nanoseconds stay_{0};
  std::chrono::nanoseconds current_stay_{0};
};

}  // namespace tmprof::abit
