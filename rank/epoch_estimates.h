// SPDX-License-Identifier: Apache-2.0
// Estimates the accesses of single epochs, which add up to the estimates over the whole trace.
// Every view over time uses this definition.

#pragma once

#include <cstddef>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"
#include "rank/rank_model.h"
#include "rank/target_times.h"
#include "rank/total_ranker.h"

namespace tmprof {

// The estimates of each epoch of a whole trace. With RankModel::kRate every row of the trace has an
// estimate in every epoch, even if its pages were not looked at in the epoch. It is a part of the
// estimate for the step around the epoch (StepEstimates): the epoch's part of the CPU time that the
// target used in that step. With kSum and with exact sources an epoch has its own counts, and is a
// step of its own.
class EpochEstimates {
 public:
  // `ranker` has absorbed all epochs; it must stay.
  EpochEstimates(const TotalRanker& ranker, RankSource source);

  // The caller passes the epochs that the ranker absorbed, oldest first. An epoch by rate takes
  // time for each target, but not for its rows.
  void See(const EpochProfile& epoch);

  // The following functions describe the last epoch seen, until the next one is.

  const EvidenceTable& table() const { return by_rate_ ? ranker_.table() : counted_; }
  // Returns the estimate of every row, which takes time and memory for each.
  Estimates estimates() const;

  // A sum over rows of one target is valid in all epochs of a step, except for the epoch's share.
  // Sums therefore need not visit all rows in each epoch.
  struct TargetRows {
    TargetId target;
    std::size_t first;  // rows [first, end) of table()
    std::size_t end;
    double share;  // the epoch's share of the step's scores; 0: the target did not run in it
  };
  const std::vector<TargetRows>& targets() const { return targets_; }  // ascending
  // Returns a number that changes when a row may have another score.
  std::size_t step() const { return step_; }
  double StepScore(std::size_t row) const {
    return by_rate_ ? steps_[step_].score[row] : counts_.score[row];
  }
  double StepRelativeSd(std::size_t row) const {
    return by_rate_ ? steps_[step_].relative_sd[row] : counts_.relative_sd[row];
  }

 private:
  void FindTargets();
  double ShareOf(TargetId target, const TargetTimes& of_epoch) const;

  const TotalRanker& ranker_;
  RankSource source_;
  bool by_rate_;
  std::vector<StepEstimates> steps_;
  TargetTimes all_times_;
  std::vector<TargetRows> targets_;
  std::size_t step_ = 0;
  EvidenceTable counted_;
  Estimates counts_;
};

}  // namespace tmprof
