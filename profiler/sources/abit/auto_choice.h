// SPDX-License-Identifier: Apache-2.0
// When a full scan is too much, so that Looked::kAuto goes over to regions.

#pragma once

#include <chrono>
#include <optional>

namespace tmprof::abit {

// A full scan may take at most this long for a pass over all pages, in CPU time of the targets: ten
// epochs of a second. Programs change in less time than a longer one takes.
inline constexpr std::chrono::nanoseconds kLongestVisit = std::chrono::seconds(10);

class AutoChoice {
 public:
  // Once an epoch; nullopt: too few pages were visited for an estimate. True: it is too long, and
  // was in the epoch before, as one may be that of a start.
  bool GoesOver(std::optional<std::chrono::nanoseconds> visit_cpu_time) {
    if (!visit_cpu_time) return false;
    const bool before = too_long_;
    too_long_ = *visit_cpu_time > kLongestVisit;
    return before && too_long_;
  }

 private:
  bool too_long_ = false;
};

}  // namespace tmprof::abit
