// SPDX-License-Identifier: Apache-2.0

#include "rank/epoch_estimates.h"

#include "rank/source_view.h"

namespace tmprof {
namespace {

// Listed at some time, a target was not there in epochs that do not list it.
double CpuSeconds(const TargetTimes& all, const TargetTimes& part, TargetId target) {
  const TargetTime time =
      all.Find(target) ? part.Find(target).value_or(TargetTime{}) : part.Of(target);
  return time.cpu_seconds;
}

}  // namespace

EpochEstimates::EpochEstimates(const TotalRanker& ranker, RankSource source)
    : ranker_(ranker),
      source_(source),
      by_rate_(ranker.model() == RankModel::kRate && !IsExact(source)) {
  if (!by_rate_) return;
  over_time_ = ranker.EstimateOverTime(source);
  for (const EstimatesOverTime::Step& step : over_time_.steps) all_times_.Add(step.times);
}

void EpochEstimates::See(const EpochProfile& epoch) {
  if (by_rate_) {
    SeeByRate(epoch);
    return;
  }
  TakeEvidence(epoch, counted_);
  of_epoch_ = EstimateByCounts(counted_, source_);
}

void EpochEstimates::SeeByRate(const EpochProfile& epoch) {
  while (step_ + 1 < over_time_.steps.size() && epoch.start >= over_time_.steps[step_ + 1].start) {
    ++step_;
  }
  const EvidenceTable& rows = ranker_.table();
  of_epoch_ = NoEstimates(rows.size());
  if (over_time_.steps.empty()) return;
  const EstimatesOverTime::Step& step = over_time_.steps[step_];
  TargetTimes times;
  times.Add(epoch);
  std::optional<TargetId> target;
  double part = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (target != rows.key[i].target) {
      target = rows.key[i].target;
      const double of_step = CpuSeconds(all_times_, step.times, *target);
      part = of_step > 0 ? CpuSeconds(all_times_, times, *target) / of_step : 0;
    }
    of_epoch_.score[i] = step.estimates.score[i] * part;
    of_epoch_.relative_sd[i] = step.estimates.relative_sd[i];
  }
}

}  // namespace tmprof
