// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/timeline.h"

#include <algorithm>

namespace tmprof::workload {

std::optional<Stretch> Timeline::Next(std::chrono::nanoseconds from) const {
  std::chrono::nanoseconds pause = duration;
  if (duty.idle.count() > 0) {
    const std::chrono::nanoseconds cycle = duty.busy + duty.idle;
    if (from % cycle >= duty.busy) from += cycle - from % cycle;
    pause = from - from % cycle + duty.busy;
  }
  if (from >= duration) return std::nullopt;
  const std::int64_t phase = from / shift;
  return Stretch{.phase = static_cast<std::uint64_t>(phase),
                 .start = from,
                 .end = std::min({duration, pause, shift * (phase + 1)})};
}

}  // namespace tmprof::workload
