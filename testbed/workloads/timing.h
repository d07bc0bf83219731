// SPDX-License-Identifier: Apache-2.0
// Clocks and waiting.

#pragma once

#include <time.h>

#include <cerrno>
#include <chrono>
#include <cstdint>

namespace tmprof::workload {

// Nanoseconds on the line of CLOCK_MONOTONIC, or of the clock that was named.
using Instant = std::chrono::nanoseconds;

inline Instant Now(clockid_t clock = CLOCK_MONOTONIC) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

inline timespec ToTimespec(std::chrono::nanoseconds duration) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(duration);
  return {.tv_sec = seconds.count(), .tv_nsec = (duration - seconds).count()};
}

inline void SleepUntil(Instant wake) {
  const timespec until = ToTimespec(wake);
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

// Sleeps while `done` since `start` is ahead of the rate, at the longest until `end`. What was
// missed is caught up.
inline void Pace(Instant start, std::uint64_t done, double per_s, Instant end) {
  const double due_s = static_cast<double>(done) / per_s;
  const Instant due = start + std::chrono::nanoseconds(static_cast<std::int64_t>(due_s * 1e9));
  if (due > Now()) SleepUntil(due < end ? due : end);
}

}  // namespace tmprof::workload
