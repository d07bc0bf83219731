// SPDX-License-Identifier: Apache-2.0
// A process's CPU time at the moment of a look, finer than the kernel reports it.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

#include "base/units.h"

namespace tmprof::abit {

// The kernel brings the CPU time of a running thread up to date at its timer ticks and when it
// leaves the CPU, so a process's clock stands still for milliseconds and then jumps, while
// exposures begin at fractions of one. With no thread on a CPU the kernel's figure is exact.
// Otherwise this clock advances by the number of threads seen on a CPU at both ends of the
// interval, in the mean, between the kernel's figure and that figure plus one tick for each running
// thread.
class CpuClock {
 public:
  explicit CpuClock(std::chrono::nanoseconds tick) : tick_(tick), longest_stay_(tick) {}

  // Threads leave the CPU so soon, and the kernel's figure is brought up to date as they do. This
  // is believed while the target rests some of the time: a thread that never leaves would show.
  void ExpectShortStays(std::chrono::nanoseconds longest_stay) {
    longest_stay_ = std::min(tick_, longest_stay);
  }

  // `reported` is the kernel's figure at `now`. Returns the CPU time, which goes back by up to a
  // tick per thread where it had been taken for more than it was.
  std::chrono::nanoseconds Advance(MonotonicTime now, std::chrono::nanoseconds reported,
                                   std::uint32_t running_threads) {
    SeeIfItRests(now, reported, std::max(running_before_, running_threads));
    if (!started_ || running_threads == 0) {
      estimate_ = reported;
    } else if (now > last_) {
      const auto predicted = estimate_ + (now - last_) * (running_before_ + running_threads) / 2;
      const auto behind =
          (rests_ ? longest_stay_ : tick_) * std::max(running_before_, running_threads);
      estimate_ = std::clamp(predicted, reported, reported + behind);
    }
    started_ = true;
    last_ = std::max(last_, now);
    running_before_ = running_threads;
    return estimate_;
  }

  // Goes on by an exact clock, which counts from another moment. The first call takes both clocks
  // to show the same CPU time, so Advance() is called right before it.
  std::chrono::nanoseconds Follow(MonotonicTime now, std::chrono::nanoseconds exact,
                                  std::uint32_t running_threads) {
    if (!ahead_) ahead_ = estimate_ - exact;
    started_ = true;
    last_ = std::max(last_, now);
    running_before_ = running_threads;
    estimate_ = exact + *ahead_;
    return estimate_;
  }
  // Returns by how much this clock is ahead of the exact one; nullopt: there was no Follow() yet.
  std::optional<std::chrono::nanoseconds> ahead() const { return ahead_; }

  std::uint32_t running_threads() const { return running_before_; }

 private:
  static constexpr int kTicksOfWindow = 4;

  void SeeIfItRests(MonotonicTime now, std::chrono::nanoseconds reported, std::uint32_t threads) {
    if (started_ && now - window_at_ < kTicksOfWindow * tick_) return;
    rests_ = started_ && reported - window_cpu_ + tick_ * threads < now - window_at_;
    window_at_ = now;
    window_cpu_ = reported;
  }

  std::chrono::nanoseconds tick_;
  std::chrono::nanoseconds longest_stay_;
  bool rests_ = false;  // no thread was on a CPU for some of the latest window
  MonotonicTime window_at_;
  std::chrono::nanoseconds window_cpu_{0};
  bool started_ = false;
  MonotonicTime last_;
  std::chrono::nanoseconds estimate_{0};
  std::uint32_t running_before_ = 0;
  std::optional<std::chrono::nanoseconds> ahead_;
};

}  // namespace tmprof::abit
