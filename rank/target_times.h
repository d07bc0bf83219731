// SPDX-License-Identifier: Apache-2.0
// CPU time of each target, and how much of it a sampler watched.

#pragma once

#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"
#include "rank/ageing.h"

namespace tmprof {

struct TargetTime {
  TargetId target;
  double cpu_seconds = 0;
  double watched_seconds = 0;         // the part of it with the sampler on
  double remembered_cpu_seconds = 0;  // over all epochs, faded like their evidence
};

class TargetTimes {
 public:
  // Adds the times of one epoch. A target whose CPU clock could not be read has run throughout.
  void Add(const EpochProfile& profile);
  void Add(const TargetTimes& other);
  // Forgets the CPU time of the epochs so far; remembered time fades as evidence does.
  void Fade(const Keeps& keeps);

  void Set(TargetTime time) { At(time.target) = time; }

  // nullopt: no profile listed the target.
  std::optional<TargetTime> Find(TargetId target) const;
  // The same, where a target that no profile listed has run throughout.
  TargetTime Of(TargetId target) const { return Find(target).value_or(throughout_); }
  // The target's times in `part`, which was added here. A target that is listed at some time was
  // not there in parts that do not list it.
  TargetTime In(const TargetTimes& part, TargetId target) const {
    return Find(target) ? part.Find(target).value_or(TargetTime{}) : part.Of(target);
  }

 private:
  TargetTime& At(TargetId target);

  std::vector<TargetTime> times_;  // ascending by target
  TargetTime throughout_;
};

}  // namespace tmprof
