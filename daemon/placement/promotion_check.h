// SPDX-License-Identifier: Apache-2.0
// Has promotions watched, to compare what they save with what was predicted.

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/epoch_profile.h"
#include "base/latency_gap.h"
#include "base/move.h"
#include "base/tiers.h"
#include "base/units.h"
#include "daemon/placement/candidates.h"
#include "daemon/placement/ledger_keeper.h"
#include "mover/move_calibration.h"
#include "mover/page_owners.h"
#include "rank/evidence.h"
#include "rank/rank_model.h"

namespace tmprof {

class PromotionCheck {
 public:
  // Watches the promotions among moves that ended in `epoch`, at the prices of `gaps`. With
  // `dry_run` it watches assumed ones, too: what they would save follows from the pages' accesses.
  // Promotions before the first decision, or by scores that predict no time, are not watched.
  void Watch(std::span<const MoveOutcome> outcomes, std::uint64_t epoch, const Tiers& tiers,
             const LatencyGaps& gaps, bool dry_run);

  // Notes the decision that this epoch led to, and what the epoch saw of watched pages. `targets`
  // are alive. `scores` are of `table`, estimated from `rank`. `predicts_time` is false if they are
  // no accesses.
  void Check(const EpochProfile& epoch, std::span<const PlacedTarget> targets, RankSource rank,
             bool predicts_time, const EvidenceTable& table, const Scores& scores,
             const PageOwners& owners);

  const PromotionSavings& savings() const { return calibration_.savings(); }

 private:
  MoveCalibration calibration_{kMostMovesWatched};
  std::optional<std::chrono::nanoseconds> decided_over_;  // length of the last decision's epoch
  bool predicts_time_ = false;
  std::optional<RankSource> rank_;  // nullopt: nothing was decided yet
  std::vector<TargetId> known_;     // targets and files as of the last epoch, ascending
};

}  // namespace tmprof
