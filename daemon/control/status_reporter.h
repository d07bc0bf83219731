// SPDX-License-Identifier: Apache-2.0
// Reports each epoch of a session to the daemon's log and to the board that others read.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/epoch_profile.h"
#include "base/host/node_memory.h"
#include "base/latency_gap.h"
#include "base/move.h"
#include "base/tiers.h"
#include "base/units.h"
#include "daemon/control/daemon_status.h"
#include "daemon/control/log.h"
#include "mover/move_calibration.h"
#include "mover/placement_map.h"
#include "rank/rank_model.h"

namespace tmprof {

// An epoch that is over, and the decision that it led to.
struct EpochReport {
  const EpochProfile& epoch;
  const PlacementMap& map;                        // where pages are
  std::span<const NodeMemory> memory;             // empty: it could not be read
  std::vector<std::pair<TargetId, Pid>> targets;  // those that are alive, ascending
  std::vector<std::optional<PageCount>>
      capacities;  // by tier, fastest first; those beyond have none
  DecisionStatus decision;
  RankSource rank = RankSource::kCombined;  // what the decision ranked pages by
  std::optional<double> gain;               // share by which the moves would raise the hit ratio
  std::optional<double> hit_ratio;          // estimated share of tier 1 in all accesses
  double looked_at = 0;                     // share of the pages that were looked at lately
  std::size_t moves_over = 0;               // moves that ended since the last epoch
  PromotionSavings savings;
  std::size_t pending_moves = 0;
  std::chrono::nanoseconds own_cpu_time{0};
  std::vector<std::string> warnings;  // those that stand
};

class StatusReporter {
 public:
  // The configuration decides if pages are moved.
  struct Mode {
    bool track_only = false;
    bool dry_run = false;
  };

  // `paused` tells if the operator has paused moves; any thread may call it. `status` holds what
  // lasts from one session to the next. All must outlive this object.
  StatusReporter(Tiers tiers, Mode mode, std::function<bool()> paused, const Log& log,
                 DaemonStatus& status, StatusBoard& board);

  // Takes another configuration's mode and prices, and publishes the state and these warnings.
  void Configure(Mode mode, const LatencyGaps& gaps, std::vector<std::string> warnings);
  // Takes the prices and warnings that the next epochs are published with.
  void Begin(const LatencyGaps& gaps, std::vector<std::string> warnings);

  // Adds moves to the totals; `undone` of them undid an earlier one.
  void CountMoves(std::span<const MoveOutcome> outcomes, std::uint64_t undone);
  void LogDecision(const EpochReport& report) const;
  void Publish(const EpochReport& report);
  // Publishes that moves were paused or go on. Any thread may call it.
  void PublishState();

 private:
  DaemonState StateNow() const;  // the mutex is held
  std::vector<TargetStatus> TargetsOf(const EpochReport& report) const;
  std::vector<TierStatus> TiersOf(const EpochReport& report) const;
  // Returns the sources of the epoch, with their losses until now.
  std::vector<ObservingSource> SourcesOf(const EpochProfile& epoch) const;

  Tiers tiers_;
  std::function<bool()> paused_;
  const Log& log_;
  DaemonStatus& status_;
  StatusBoard& board_;
  // Guards the mode, and keeps what is published in order: the last one is the current state.
  std::mutex publishing_;
  Mode mode_;
};

}  // namespace tmprof
