// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/true_hit_rates.h"

#include <algorithm>
#include <chrono>
#include <map>

namespace tmprof {
namespace {

const TruthPhase* PhaseOf(const Truth& truth, const EpochProfile& epoch) {
  const MonotonicTime middle = epoch.start + epoch.length() / 2;
  for (const TruthPhase& phase : truth.phases) {
    if (phase.start <= middle && middle < phase.end) return &phase;
  }
  return nullptr;
}

double CpuSeconds(const EpochProfile& epoch) {
  std::chrono::duration<double> used{0};
  for (const Target& target : epoch.targets) used += target.cpu_time.value_or(epoch.length());
  return used.count();
}

}  // namespace

void TrueHitRateJudge::Add(const EpochProfile& epoch, const ChosenSpans& chosen) {
  if (const TruthPhase* phase = PhaseOf(*truth_, epoch)) {
    const double seconds = CpuSeconds(epoch);
    for (Choice& choice : choices_) {
      if (choice.pages.empty()) continue;
      choice.hit_seconds += seconds * ShareOf(*phase, choice.pages);
      choice.seconds += seconds;
    }
  }
  if (choices_.empty()) {
    for (const PageCount capacity : chosen.capacities)
      choices_.push_back({.capacity = capacity, .pages = {}});
  }
  std::map<TargetId, Pid> pids;
  for (const Target& target : epoch.targets) pids[target.id] = target.pid;
  for (Choice& choice : choices_) choice.pages.clear();
  for (std::size_t row = 0; row < chosen.key.size(); ++row) {
    const PageKey key = chosen.key[row];
    const auto pid = pids.find(key.target);
    const PagesOfProcess pages{.pid = pid == pids.end() ? std::nullopt : std::optional(pid->second),
                               .pages = {key.vpn, key.vpn + PageCount(chosen.span_pages[row])}};
    for (std::size_t i = chosen.first_choice[row]; i < choices_.size(); ++i) {
      choices_[i].pages.push_back(pages);
    }
  }
}

TrueHitRates TrueHitRateJudge::At(PageCount capacity) const {
  const TruthPhase& last = truth_->phases.back();
  TrueHitRates rates{.best = BestShare(last, capacity), .ranked = {}, .history = {}};
  const auto at = std::ranges::find(choices_, capacity, &Choice::capacity);
  if (at == choices_.end()) return rates;
  if (!at->pages.empty()) rates.ranked = ShareOf(last, at->pages);
  if (at->seconds > 0) rates.history = at->hit_seconds / at->seconds;
  return rates;
}

}  // namespace tmprof
