// SPDX-License-Identifier: Apache-2.0

#include "profiler/found_targets.h"

#include <utility>

namespace tmprof {

FoundTargets::FoundTargets(const ProcFs& procfs, CpuTimeOf cpu_time_of, TargetRules rules,
                           const TargetTracker::Options& tracking)
    : procfs_(&procfs),
      cpu_time_of_(std::move(cpu_time_of)),
      finder_(std::in_place, procfs, cpu_time_of_, std::move(rules), tracking.observer),
      tracker_(procfs, cpu_time_of_, tracking) {}

void FoundTargets::Configure(TargetRules rules, const TargetTracker::Options& tracking) {
  finder_.emplace(*procfs_, cpu_time_of_, std::move(rules), tracking.observer);
  tracker_.Configure(tracking);
}

std::vector<Error> FoundTargets::Look(MonotonicTime now) {
  return tracker_.Follow(finder_->Look(now).targets);
}

}  // namespace tmprof
