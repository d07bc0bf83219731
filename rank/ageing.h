// SPDX-License-Identifier: Apache-2.0
// Computes how much of each target's own time passes from epoch to epoch, and the weight of older
// evidence.

#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

// A value for each listed target, and one for all others.
template <typename Value>
class ByTarget {
 public:
  ByTarget() = default;
  explicit ByTarget(Value of_all) : of_others_(of_all) {}

  // Precondition: targets ascend.
  void Append(TargetId target, Value value) { listed_.emplace_back(target, value); }

  const Value& Of(TargetId target) const {
    const auto at =
        std::ranges::lower_bound(listed_, target, {}, &std::pair<TargetId, Value>::first);
    return at != listed_.end() && at->first == target ? at->second : of_others_;
  }
  const Value& of_others() const { return of_others_; }
  const std::vector<std::pair<TargetId, Value>>& listed() const { return listed_; }

 private:
  std::vector<std::pair<TargetId, Value>> listed_;
  Value of_others_{};
};

// Weight of older evidence beside newer.
struct Keep {
  double evidence = 1;
  double accesses = 1;  // exact counts may be of their own epoch only
};
using Keeps = ByTarget<Keep>;

// Seconds by which evidence from before an epoch is older at its end. A target ages by the CPU time
// that it used, but by no more than the time that passed. A program that rests does not change, and
// threads that run side by side do not make it change faster. If the CPU time is unknown, the time
// that passed counts: between epochs, and for a target that the epoch does not list.
using Ages = ByTarget<double>;
Ages AgesAfter(const EpochProfile& profile, std::optional<MonotonicTime> end_of_last);

// Returns the ages over two successive stretches.
Ages Sum(const Ages& first, const Ages& second);

// Halves the weight of evidence that is `half_life_seconds` older; exact counts are not kept.
Keeps KeepsAfter(const Ages& ages, double half_life_seconds);

}  // namespace tmprof
