// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/epoch_pacer.h"

#include <algorithm>

#include "base/check.h"

namespace tmprof {

EpochPacer::EpochPacer(std::chrono::nanoseconds shortest, double cpu_share)
    : shortest_(shortest), cpu_share_(cpu_share) {
  TMPROF_CHECK(shortest.count() > 0 && cpu_share > 0);
}

void EpochPacer::Note(std::chrono::nanoseconds cpu_time) {
  // One that took long is followed by a long one at once; back it goes by halves.
  expected_ = std::max(cpu_time, (expected_ + cpu_time) / 2);
}

std::chrono::nanoseconds EpochPacer::Next() const {
  const std::chrono::duration<double, std::nano> affordable = expected_ / cpu_share_;
  const auto longest = std::max(shortest_, kLongest);
  if (affordable >= longest) return longest;
  return std::max(shortest_, std::chrono::duration_cast<std::chrono::nanoseconds>(affordable));
}

}  // namespace tmprof
