// SPDX-License-Identifier: Apache-2.0

#include "mover/placement_survey.h"

#include <algorithm>

namespace tmprof {
namespace {

// Some milliseconds where all of it is there (LinuxPageLocator).
constexpr std::uint64_t kStepPages = 16384;
// What was looked at before changes by other hands than ours only, and moves tell where they fail.
constexpr int kAgainIsSlower = 10;

Vpn EndOfStep(Vpn from, Vpn end) {
  return Vpn(std::min((from.value() / kStepPages + 1) * kStepPages, end.value()));
}

}  // namespace

PlacementSurvey::PlacementSurvey(PageLocator& locator, const Clock& cpu_clock)
    : locator_(&locator), cpu_clock_(&cpu_clock) {}

bool PlacementSurvey::LookOn(std::span<const SurveyedTarget> targets,
                             std::chrono::nanoseconds budget, PlacementMap& map) {
  GoToNewTarget(targets);
  left_ = std::min(left_ + (complete_ ? budget / kAgainIsSlower : budget), budget);
  MonotonicTime before = cpu_clock_->Now();
  auto target = std::ranges::lower_bound(targets, next_.target, {}, &SurveyedTarget::id);
  for (; target != targets.end(); ++target) {
    if (target->id != next_.target) next_ = {target->id, Vpn(0)};
    auto range = std::ranges::upper_bound(target->mapped, next_.vpn, {}, &VpnRange::end);
    for (; range != target->mapped.end(); ++range) {
      next_.vpn = std::max(next_.vpn, range->start);
      while (next_.vpn < range->end) {
        if (left_ <= std::chrono::nanoseconds(0)) return false;
        const VpnRange step{next_.vpn, EndOfStep(next_.vpn, range->end)};
        if (const auto runs = locator_->Locate(target->pid, step))
          map.Learn(target->id, step, *runs);
        next_.vpn = step.end;
        const MonotonicTime now = cpu_clock_->Now();
        left_ -= now - before;
        before = now;
      }
    }
  }
  next_ = {};
  complete_ = whole_round_;
  whole_round_ = true;
  return true;
}

void PlacementSurvey::GoToNewTarget(std::span<const SurveyedTarget> targets) {
  const auto newcomer = std::ranges::find_if(targets, [this](const SurveyedTarget& target) {
    return !std::ranges::binary_search(known_, target.id);
  });
  if (newcomer != targets.end()) {
    whole_round_ = next_ == PageKey{} && newcomer == targets.begin();
    next_ = {newcomer->id, Vpn(0)};
    complete_ = false;
  }
  known_.clear();
  for (const SurveyedTarget& target : targets) known_.push_back(target.id);
}

}  // namespace tmprof
