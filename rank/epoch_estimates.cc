// SPDX-License-Identifier: Apache-2.0

#include "rank/epoch_estimates.h"

#include "rank/source_view.h"

namespace tmprof {

EpochEstimates::EpochEstimates(const TotalRanker& ranker, RankSource source)
    : ranker_(ranker), source_(source), by_rate_(IsEstimated(ranker.model(), source)) {
  if (!by_rate_) return;
  steps_ = ranker.EstimateOverTime(source);
  for (const StepEstimates& step : steps_) all_times_.Add(step.times);
  FindTargets();
}

void EpochEstimates::See(const EpochProfile& epoch) {
  if (!by_rate_) {
    TakeEvidence(epoch, counted_);
    counts_ = EstimateByCounts(counted_, source_);
    FindTargets();
    ++step_;
    return;
  }
  while (step_ + 1 < steps_.size() && epoch.start >= steps_[step_ + 1].start) ++step_;
  TargetTimes times;
  times.Add(epoch);
  for (TargetRows& rows : targets_) rows.share = ShareOf(rows.target, times);
}

void EpochEstimates::FindTargets() {
  targets_.clear();
  const EvidenceTable& rows = table();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const TargetId target = rows.key[row].target;
    if (targets_.empty() || targets_.back().target != target) {
      targets_.push_back({.target = target, .first = row, .end = row, .share = 1});
    }
    targets_.back().end = row + 1;
  }
}

double EpochEstimates::ShareOf(TargetId target, const TargetTimes& of_epoch) const {
  const double of_step = all_times_.In(steps_[step_].times, target).cpu_seconds;
  return of_step > 0 ? all_times_.In(of_epoch, target).cpu_seconds / of_step : 0;
}

Estimates EpochEstimates::estimates() const {
  if (!by_rate_) return counts_;
  Estimates of_epoch = NoEstimates(table().size());
  for (const TargetRows& rows : targets_) {
    for (std::size_t row = rows.first; row < rows.end; ++row) {
      of_epoch.score[row] = StepScore(row) * rows.share;
      if (of_epoch.score[row] > 0) of_epoch.relative_sd[row] = StepRelativeSd(row);
    }
  }
  return of_epoch;
}

}  // namespace tmprof
