// SPDX-License-Identifier: Apache-2.0
// Ranks by what happened over a whole trace, or over one phase of it.

#pragma once

#include <cstddef>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"
#include "rank/evidence.h"
#include "rank/parted_evidence.h"
#include "rank/rank_model.h"
#include "rank/target_times.h"

namespace tmprof {

// Estimates over a whole trace, and the part of them that each of its steps has. A step is one
// epoch, or several successive ones of a long trace.
struct EstimatesOverTime {
  struct Step {
    MonotonicTime start;
    MonotonicTime end;
    TargetTimes times;
    Estimates estimates;  // rows as in `all`, whose scores these add up to
  };
  Estimates all;
  std::vector<Step> steps;
};

// Nothing fades. Memory follows the footprint, however long the trace: kRate keeps the evidence of
// successive steps apart, and makes steps longer once there are more than it needs.
class TotalRanker {
 public:
  explicit TotalRanker(RankModel model) : model_(model) {}

  // Oldest first. Where spans' bounds change, evidence follows its pages (PartedEvidence).
  void Absorb(const EpochProfile& profile);

  // All evidence, added up.
  const EvidenceTable& table() const { return evidence_.table(); }
  const PartedEvidence& evidence() const { return evidence_; }

  // As of Ranker, but over all that was absorbed. kRate: estimated accesses, each target's within
  // the epochs that list it; a rate may change on the way (rate_history.h).
  Scores Score(RankSource source) const { return Estimate(source).score; }
  Estimates Estimate(RankSource source) const;
  // Precondition: kRate and no exact source. Counts are of their own epoch, which tells them.
  EstimatesOverTime EstimateOverTime(RankSource source) const;

  RankModel model() const { return model_; }

 private:
  // Successive epochs.
  struct Step {
    MonotonicTime start;
    MonotonicTime end;
    std::size_t epochs = 0;
    PartedEvidence evidence;
    TargetTimes times;
  };

  static void Append(Step& step, Step&& next);
  void DoubleSteps();
  // `over_time`: null, or what gets the estimates of each step.
  Estimates EstimateByRate(RankSource source, EstimatesOverTime* over_time) const;
  Estimates EstimateByRate(const EvidenceTable& table, RankSource source,
                           EstimatesOverTime* over_time) const;

  RankModel model_;
  PartedEvidence evidence_;
  PartedEvidence spare_;
  std::vector<Step> steps_;  // kRate
  std::size_t epochs_per_step_ = 1;
};

}  // namespace tmprof
