// SPDX-License-Identifier: Apache-2.0
// Follows the processes that rules find, under rules that may change.

#pragma once

#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/host/procfs.h"
#include "base/result.h"
#include "base/units.h"
#include "profiler/target_finder.h"
#include "profiler/target_tracker.h"

namespace tmprof {

class FoundTargets {
 public:
  // `procfs` must outlive it. `tracking.observer` is nobody's target.
  FoundTargets(const ProcFs& procfs, CpuTimeOf cpu_time_of, TargetRules rules,
               const TargetTracker::Options& tracking);

  // Goes by other rules from now on. Processes that are still targets keep their numbers.
  void Configure(TargetRules rules, const TargetTracker::Options& tracking);
  // The process numbers in the rules that no process had.
  const std::vector<Pid>& missing() const { return finder_->missing(); }

  // Has the tracker follow what the rules find now. To be called once a second. Returns an error
  // for each process that cannot be followed, once.
  std::vector<Error> Look(MonotonicTime now);

  TargetTracker& tracker() { return tracker_; }

 private:
  const ProcFs* procfs_;
  CpuTimeOf cpu_time_of_;
  std::optional<TargetFinder> finder_;  // always one
  TargetTracker tracker_;
};

}  // namespace tmprof
