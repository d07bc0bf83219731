// SPDX-License-Identifier: Apache-2.0

#include "mover/placement_survey.h"

#include <algorithm>

namespace tmprof {
namespace {

// Takes some milliseconds if all of it is present (LinuxPageLocator).
constexpr std::uint64_t kStepPages = 16384;
// Known places change only by others' moves, and our own moves fail if a place is wrong.
constexpr int kAgainIsSlower = 10;
// A target has grown if it has more by this part. The survey finds smaller growth in its rounds.
constexpr std::uint64_t kGrownBy = 16;
// Programs gain and lose this much from one moment to the next.
constexpr std::uint64_t kLeastGrowth = 1024;

Vpn EndOfStep(Vpn from, Vpn end) {
  return Vpn(std::min((from.value() / kStepPages + 1) * kStepPages, end.value()));
}

}  // namespace

PlacementSurvey::PlacementSurvey(const Clock& cpu_clock) : cpu_clock_(&cpu_clock) {}

void PlacementSurvey::LookOn(std::span<const SurveyedTarget> targets,
                             std::chrono::nanoseconds budget, const Look& look) {
  FindNewTargets(targets);
  QueueGrown(targets);
  left_ = std::min(left_ + (new_.empty() ? budget / kAgainIsSlower : budget), budget);
  if (new_.empty()) {
    LookAgain(targets, look);
  } else {
    LookAtNewTargets(targets, look);
  }
}

void PlacementSurvey::FindNewTargets(std::span<const SurveyedTarget> targets) {
  const auto is_there = [targets](TargetId id) {
    return std::ranges::binary_search(targets, id, {}, &SurveyedTarget::id);
  };
  if (!new_.empty() && !is_there(new_.front())) next_of_new_ = Vpn(0);
  std::erase_if(new_, [&](TargetId id) { return !is_there(id); });
  for (const SurveyedTarget& target : targets) {
    if (!std::ranges::binary_search(known_, target.id)) new_.push_back(target.id);
  }
  known_.clear();
  for (const SurveyedTarget& target : targets) known_.push_back(target.id);
}

bool PlacementSurvey::IsComplete(TargetId target) const { return resident_.contains(target); }

bool PlacementSurvey::complete() const {
  return std::ranges::all_of(new_, [this](TargetId id) { return IsComplete(id); });
}

void PlacementSurvey::QueueGrown(std::span<const SurveyedTarget> targets) {
  std::erase_if(resident_, [this](const auto& known) {
    return !std::ranges::binary_search(known_, known.first);
  });
  for (const SurveyedTarget& target : targets) {
    const auto known = resident_.find(target.id);
    if (known == resident_.end() || !target.resident) continue;
    std::optional<PageCount>& before = known->second;
    // Memory that it frees may come back elsewhere.
    if (!before || *target.resident < *before) before = target.resident;
    const PageCount most(before->value() + std::max(before->value() / kGrownBy, kLeastGrowth));
    if (*target.resident > most && std::ranges::find(new_, target.id) == new_.end()) {
      new_.push_back(target.id);
    }
  }
}

void PlacementSurvey::LookAtNewTargets(std::span<const SurveyedTarget> targets, const Look& look) {
  while (!new_.empty()) {
    const auto target = std::ranges::lower_bound(targets, new_.front(), {}, &SurveyedTarget::id);
    if (next_of_new_ == Vpn(0)) resident_of_new_ = target->resident;
    if (!LookAt(*target, next_of_new_, look)) return;
    resident_[target->id] = resident_of_new_;
    new_.pop_front();
    next_of_new_ = Vpn(0);
  }
}

void PlacementSurvey::LookAgain(std::span<const SurveyedTarget> targets, const Look& look) {
  auto target = std::ranges::lower_bound(targets, next_again_.target, {}, &SurveyedTarget::id);
  for (; target != targets.end(); ++target) {
    if (target->id != next_again_.target) next_again_ = {target->id, Vpn(0)};
    if (!LookAt(*target, next_again_.vpn, look)) return;
  }
  next_again_ = {};
}

bool PlacementSurvey::LookAt(const SurveyedTarget& target, Vpn& next, const Look& look) {
  MonotonicTime before = cpu_clock_->Now();
  auto range = std::ranges::upper_bound(target.mapped, next, {}, &VpnRange::end);
  for (; range != target.mapped.end(); ++range) {
    next = std::max(next, range->start);
    while (next < range->end) {
      if (left_ <= std::chrono::nanoseconds(0)) return false;
      const VpnRange step{next, EndOfStep(next, range->end)};
      look(target, step);
      next = step.end;
      const MonotonicTime now = cpu_clock_->Now();
      left_ -= now - before;
      before = now;
    }
  }
  return true;
}

}  // namespace tmprof
