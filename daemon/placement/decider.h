// SPDX-License-Identifier: Apache-2.0
// Decides the moves after each epoch, checks what earlier ones were worth, and paces the epochs by
// what that takes.

#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/epoch_profile.h"
#include "base/host/node_memory.h"
#include "base/latency_gap.h"
#include "base/move.h"
#include "daemon/placement/candidates.h"
#include "daemon/placement/epoch_pacer.h"
#include "daemon/placement/observation.h"
#include "daemon/placement/placer.h"
#include "daemon/placement/promotion_check.h"
#include "mover/page_locator.h"

namespace tmprof {

struct DeciderOptions {
  PlacerOptions placer;
  std::chrono::nanoseconds shortest_epoch{1};
  double max_cpu_share = 1;  // share of one CPU for what is done at the end of epochs
  bool track_only = false;   // decisions are not carried out
};

class Decider {
 public:
  // `cpu_clock` is the calling thread's CPU time. Both must outlive this object.
  Decider(DeciderOptions options, PageLocator& locator, const Clock& cpu_clock);

  // Holds from now on; all that is known of pages stays known. Precondition: the tiers are the
  // same.
  void Configure(DeciderOptions options);

  // Takes the outcomes of moves that end in `epoch`. Returns how many undid an earlier one.
  std::uint64_t Learn(std::span<const MoveOutcome> outcomes, std::uint64_t epoch) {
    return placer_.Learn(outcomes, epoch);
  }
  // Begins to check what the promotions among them save. To be called after Learn().
  void Watch(std::span<const MoveOutcome> outcomes, std::uint64_t epoch);
  // Takes what Placer::Decide() takes.
  PlacementDecision Decide(const EpochProfile& epoch, std::span<const PlacedTarget> targets,
                           std::span<const NodeMemory> memory);
  // Notes the CPU time that the end of an epoch of this length took, the last decision included.
  // Returns true once if more is taken than `max_cpu_share` allows even in the longest epochs.
  bool Pace(std::chrono::nanoseconds epoch_length, std::chrono::nanoseconds cpu_time);

  std::chrono::nanoseconds NextEpoch() const { return pacer_.Next(); }
  // True: enough was seen to know if there is anything to gain.
  bool may_rest() const { return rest_.may_rest(); }
  // True: accessed bits need not be read now, because no moves that pay were found lately.
  bool RestsAt(MonotonicTime now) const { return rest_.RestsAt(now, pacer_.futile()); }
  // Returns Placer::Hottest().
  std::vector<HotSpan> Hottest(std::size_t most) { return placer_.Hottest(most); }
  // The placer as of the last decision.
  const Placer& placer() const { return placer_; }
  const PromotionSavings& savings() const { return promotions_.savings(); }

 private:
  DeciderOptions options_;
  Placer placer_;
  EpochPacer pacer_;
  Rest rest_;
  PromotionCheck promotions_;
  bool paid_ = true;  // what was decided last is worth what deciding takes, as far as is known
  bool told_overdrawn_ = false;
};

}  // namespace tmprof
