// SPDX-License-Identifier: Apache-2.0

#include "daemon/placement/decider.h"

#include <utility>

namespace tmprof {
namespace {

// Gain in the hit ratio below which moves are not worth ranking all pages for.
constexpr double kGainWorthLooking = 0.01;

}  // namespace

Decider::Decider(DeciderOptions options, PageLocator& locator, const Clock& cpu_clock)
    : options_(std::move(options)),
      placer_(options_.placer, locator, cpu_clock),
      pacer_(options_.shortest_epoch, options_.max_cpu_share) {}

void Decider::Configure(DeciderOptions options) {
  options_ = std::move(options);
  placer_.Configure(options_.placer);
  pacer_.Configure(options_.shortest_epoch, options_.max_cpu_share);
  told_overdrawn_ = false;
}

void Decider::Watch(std::span<const MoveOutcome> outcomes, std::uint64_t epoch) {
  promotions_.Watch(outcomes, epoch, options_.placer.tiers, options_.placer.gaps,
                    options_.placer.dry_run);
}

PlacementDecision Decider::Decide(const EpochProfile& epoch, std::span<const PlacedTarget> targets,
                                  std::span<const NodeMemory> memory) {
  PlacementDecision decision = placer_.Decide(epoch, targets, memory);
  paid_ =
      !decision.gain || *decision.gain >= kGainWorthLooking || decision.not_moved.over_quota > 0;
  rest_.Note(decision.looked_at, !options_.track_only);
  promotions_.Check(epoch, targets, decision.rank, decision.saved_per_second.has_value(),
                    placer_.table(), placer_.scores(), placer_.owners());
  return decision;
}

bool Decider::Pace(std::chrono::nanoseconds epoch_length, std::chrono::nanoseconds cpu_time) {
  pacer_.Note(epoch_length, cpu_time, paid_);
  return pacer_.overdrawn() && !std::exchange(told_overdrawn_, true);
}

}  // namespace tmprof
