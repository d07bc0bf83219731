// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/observation.h"

#include <algorithm>
#include <chrono>

namespace tmprof {
namespace {

// Share of the pages in use that must have been looked at before it is believed that none of them
// would be worth a move.
constexpr double kEnoughLookedAt = 0.9;

}  // namespace

bool IsObserved(const EpochProfile& epoch) {
  return std::ranges::any_of(epoch.sources,
                             [](const SourceStatus& source) {
                               return source.state != SourceState::kUnavailable;
                             }) &&
         std::ranges::any_of(epoch.targets, [](const Target& target) { return !target.exited; });
}

void Rest::Note(double looked_at, bool decides_moves) {
  may_rest_ = decides_moves && looked_at >= kEnoughLookedAt;
}

bool Rest::RestsAt(MonotonicTime now, bool futile) const {
  if (!may_rest_ || !futile) return false;
  const auto second = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch());
  return second.count() % kActiveSecondOf != 0;
}

}  // namespace tmprof
