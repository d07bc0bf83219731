// SPDX-License-Identifier: Apache-2.0

#include "mover/placement_survey.h"

#include <algorithm>

namespace tmprof {
namespace {

// Some milliseconds where all of it is there (LinuxPageLocator).
constexpr std::uint64_t kStepPages = 16384;

Vpn EndOfStep(Vpn from, Vpn end) {
  return Vpn(std::min((from.value() / kStepPages + 1) * kStepPages, end.value()));
}

}  // namespace

PlacementSurvey::PlacementSurvey(PageLocator& locator, const Clock& cpu_clock)
    : locator_(&locator), cpu_clock_(&cpu_clock) {}

bool PlacementSurvey::LookOn(std::span<const SurveyedTarget> targets,
                             std::chrono::nanoseconds budget, PlacementMap& map) {
  const MonotonicTime began = cpu_clock_->Now();
  auto target = std::ranges::lower_bound(targets, next_.target, {}, &SurveyedTarget::id);
  for (; target != targets.end(); ++target) {
    if (target->id != next_.target) next_ = {target->id, Vpn(0)};
    auto range = std::ranges::upper_bound(target->mapped, next_.vpn, {}, &VpnRange::end);
    for (; range != target->mapped.end(); ++range) {
      next_.vpn = std::max(next_.vpn, range->start);
      while (next_.vpn < range->end) {
        if (cpu_clock_->Now() - began >= budget) return false;
        const VpnRange step{next_.vpn, EndOfStep(next_.vpn, range->end)};
        if (const auto runs = locator_->Locate(target->pid, step))
          map.Learn(target->id, step, *runs);
        next_.vpn = step.end;
      }
    }
  }
  next_ = {};
  complete_ = true;
  return true;
}

}  // namespace tmprof
