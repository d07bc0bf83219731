// SPDX-License-Identifier: Apache-2.0
// Hand-made profiles for the tests of rank/.

#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "base/epoch_profile.h"

namespace tmprof {

// Epoch `index` is the second [index, index + 1).
inline EpochProfile Epoch(std::uint64_t index, const std::vector<PageRecord>& records) {
  EpochProfile epoch;
  epoch.index = index;
  epoch.start = MonotonicTime(std::chrono::seconds(index));
  epoch.end = MonotonicTime(std::chrono::seconds(index + 1));
  for (const PageRecord& record : records) Append(epoch.pages, record);
  return epoch;
}

inline PageKey Key(std::uint32_t target, std::uint64_t vpn) { return {TargetId(target), Vpn(vpn)}; }

inline PageRecord Counts(std::uint64_t vpn, std::uint32_t references, std::uint32_t samples,
                         std::uint64_t span = 1) {
  return {.key = Key(0, vpn),
          .span = PageCount(span),
          .looks = 100,
          .references = references,
          .load_samples = samples};
}

inline PageRecord Visited(std::uint64_t vpn, std::uint32_t first_accesses,
                          std::chrono::nanoseconds at_risk, std::uint32_t samples = 0) {
  return {.key = Key(0, vpn),
          .looks = 100,
          .references = first_accesses,
          .first_accesses = first_accesses,
          .time_at_risk = LogDuration::FromNanoseconds(at_risk),
          .load_samples = samples};
}

}  // namespace tmprof
