// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/promotion_check.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tmprof {

void PromotionCheck::Watch(std::span<const MoveOutcome> outcomes, std::uint64_t epoch,
                           const Tiers& tiers, const LatencyGaps& gaps, bool dry_run) {
  if (!decided_over_ || decided_over_->count() <= 0 || !predicts_time_) return;
  for (const MoveOutcome& outcome : outcomes) {
    const Move& move = outcome.move;
    const bool is_assumed = dry_run && outcome.error == ECANCELED;
    if (outcome.error != 0 && !is_assumed) continue;
    const std::optional<Tier> from = tiers.TierOf(move.from);
    if (tiers.TierOf(move.to) == kTier1 && from && *from != kTier1) {
      calibration_.Promoted(move, *decided_over_, gaps.Of(*from).ns, epoch);
    } else {
      calibration_.Moved(move);
    }
  }
}

void PromotionCheck::Check(const EpochProfile& epoch, std::span<const PlacedTarget> targets,
                           RankSource rank, bool predicts_time, const EvidenceTable& table,
                           const Scores& scores, const PageOwners& owners) {
  std::vector<TargetId> known = owners.Files();
  for (const PlacedTarget& target : targets) known.push_back(target.id);
  std::ranges::sort(known);
  for (const TargetId before : std::exchange(known_, std::move(known))) {
    if (!std::ranges::binary_search(known_, before)) calibration_.Forget(before);
  }
  // Scores of another unit cannot be compared.
  if (rank_ && *rank_ != rank) calibration_.ForgetAll();
  if (calibration_.watches_any()) {
    calibration_.Observe(epoch.index, epoch.length(), SeenSpansOf(epoch, table, scores, owners),
                         WhatNoRecordMeans(epoch), owners);
  }
  decided_over_ = epoch.length();
  predicts_time_ = predicts_time;
  rank_ = rank;
}

}  // namespace tmprof
