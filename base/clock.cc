// SPDX-License-Identifier: Apache-2.0

#include "base/clock.h"

#include <ctime>

namespace tmprof {

MonotonicTime SystemClock::Now() const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return MonotonicTime(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
}

}  // namespace tmprof
