// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/true_hit_rates.h"

#include <algorithm>
#include <chrono>
#include <cstddef>

namespace tmprof {
namespace {

using std::chrono::nanoseconds;

double CpuSeconds(const EpochProfile& epoch) {
  std::chrono::duration<double> used{0};
  for (const Target& target : epoch.targets) used += target.cpu_time.value_or(epoch.length());
  return used.count();
}

// At least 0.
nanoseconds Overlap(const TruthPhase& phase, const EpochProfile& epoch) {
  return std::max(nanoseconds(0),
                  std::min(phase.end, epoch.end) - std::max(phase.start, epoch.start));
}

}  // namespace

void TrueHitRateJudge::Add(const EpochProfile& epoch, const ChosenSpans& chosen) {
  // The pauses of a program lie between its phases.
  nanoseconds in_phases{0};
  for (const TruthPhase& phase : truth_->phases) {
    if (Overlap(phase, epoch) == nanoseconds(0)) continue;
    in_phases += Overlap(phase, epoch);
    last_ = &phase;
  }
  const double cpu_seconds = CpuSeconds(epoch);
  for (const TruthPhase& phase : truth_->phases) {
    if (!any_chosen_ || Overlap(phase, epoch) == nanoseconds(0)) continue;
    const double seconds = cpu_seconds * static_cast<double>(Overlap(phase, epoch).count()) /
                           static_cast<double>(in_phases.count());
    for (Choice& choice : choices_) {
      choice.hit_seconds += seconds * ShareOf(phase, choice.pages);
      choice.seconds += seconds;
    }
  }
  if (choices_.empty()) {
    for (const PageCount capacity : chosen.capacities)
      choices_.push_back({.capacity = capacity, .pages = {}, .in_phase = {}});
  }
  for (const Target& target : epoch.targets) pids_[target.id] = target.pid;
  any_chosen_ = !chosen.key.empty();
  for (Choice& choice : choices_) choice.pages.clear();
  for (std::size_t row = 0; row < chosen.key.size(); ++row) {
    const PageKey key = chosen.key[row];
    const auto pid = pids_.find(key.target);
    const PagesOfProcess pages{
        .pid = pid == pids_.end() ? std::nullopt : std::optional(pid->second),
        .pages = {key.vpn, key.vpn + PageCount(chosen.span_pages[row])}};
    for (std::size_t i = chosen.first_choice[row]; i < choices_.size(); ++i) {
      choices_[i].pages.push_back(pages);
    }
  }
  if (in_phases == nanoseconds(0)) return;
  any_in_phase_ = any_chosen_;
  for (Choice& choice : choices_) choice.in_phase = choice.pages;
}

TrueHitRates TrueHitRateJudge::At(PageCount capacity) const {
  if (last_ == nullptr) return {};
  TrueHitRates rates{.best = BestShare(*last_, capacity), .ranked = {}, .history = {}};
  const auto at = std::ranges::find(choices_, capacity, &Choice::capacity);
  if (at == choices_.end()) return rates;
  if (any_in_phase_) rates.ranked = ShareOf(*last_, at->in_phase);
  if (at->seconds > 0) rates.history = at->hit_seconds / at->seconds;
  return rates;
}

}  // namespace tmprof
