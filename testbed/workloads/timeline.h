// SPDX-License-Identifier: Apache-2.0
// When a workload works, at which phase of its pattern, and when it pauses.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "testbed/workloads/timing.h"

namespace tmprof::workload {

// Work and pause in turns, work first. An idle time of 0: no pauses.
struct Duty {
  std::chrono::nanoseconds busy{0};
  std::chrono::nanoseconds idle{0};
};

// Work within one phase and without a pause, [start, end) from the start of the first phase.
struct Stretch {
  std::uint64_t phase = 0;
  std::chrono::nanoseconds start{0};
  std::chrono::nanoseconds end{0};
};

struct Timeline {
  Instant start{0};                   // of phase 0
  std::chrono::nanoseconds shift{0};  // length of a phase; above 0
  std::chrono::nanoseconds duration{0};
  Duty duty;

  Instant end() const { return start + duration; }

  // The first stretch that begins `from` after the start or later; none where the duration is over
  // by then. With the end of one as the start of the search for the next: all, in order.
  std::optional<Stretch> Next(std::chrono::nanoseconds from) const;
};

}  // namespace tmprof::workload
