// SPDX-License-Identifier: Apache-2.0
// The accesses of single epochs, such that those of all epochs add up to the estimates over the
// whole trace: the one definition behind every view that tells of time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "rank/rank_model.h"
#include "rank/total_ranker.h"

namespace tmprof {

// By RankModel::kRate, every row of the whole trace has its estimate in every epoch, whether its
// pages were looked at in the epoch or not: that of the step around it (EstimatesOverTime), shared
// out by the CPU time of its target. By kSum and by exact sources an epoch has its own counts.
class EpochEstimates {
 public:
  // `ranker` has absorbed all epochs; it must stay.
  EpochEstimates(const TotalRanker& ranker, RankSource source);

  // To be called with the epochs that the ranker absorbed, oldest first.
  void See(const EpochProfile& epoch);

  // Of the last epoch seen, until the next one is.
  const EvidenceTable& table() const { return by_rate_ ? ranker_.table() : counted_; }
  const Estimates& estimates() const { return of_epoch_; }

 private:
  void SeeByRate(const EpochProfile& epoch);

  const TotalRanker& ranker_;
  RankSource source_;
  bool by_rate_;
  EstimatesOverTime over_time_;
  TargetTimes all_times_;
  std::size_t step_ = 0;
  EvidenceTable counted_;
  Estimates of_epoch_;
};

}  // namespace tmprof
