// SPDX-License-Identifier: Apache-2.0
// The state of the daemon, which its loop publishes for all who ask.

#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/epoch_profile.h"
#include "base/latency_gap.h"
#include "base/move.h"
#include "base/text/format.h"
#include "base/text/text_table.h"
#include "base/tiers.h"
#include "base/units.h"
#include "mover/move_calibration.h"
#include "rank/rank_model.h"

namespace tmprof {

enum class DaemonState : std::uint8_t {
  kRunning,
  kPaused,     // the operator asked for it: observes, and moves no page
  kTrackOnly,  // decides no moves, by its configuration
  kDryRun,     // decides moves and makes none, by its configuration
};

struct EpochStatus {
  std::uint64_t index = 0;
  std::chrono::nanoseconds length{0};
};

struct TargetStatus {
  TargetId id;
  Pid pid;
  std::string name;
  std::optional<PageCount> tracked;
  std::optional<PageCount> in_tier1;                 // the part of those tracked
  std::optional<std::chrono::nanoseconds> cpu_time;  // used within the last epoch
};

struct TierStatus {
  Tier tier;
  std::vector<NodeId> nodes;
  std::optional<PageCount> capacity;  // that the targets may have; nothing: no limit but the memory
  std::optional<PageCount> used;      // memory of the targets
  std::optional<PageCount> free;
};

struct ObservingSource {
  SourceStatus last_epoch;
  std::optional<std::uint64_t> lost_total;  // since the daemon began
};

struct DecisionStatus {
  PageCount wanted;  // in tier 1
  std::uint64_t moves = 0;
  std::optional<double> saved_per_second;  // see PlacementDecision
  NotMoved not_moved;
};

// Since the daemon began.
struct MoveTotals {
  struct Way {
    Tier from;
    Tier to;
    MoveReason reason = MoveReason::kWanted;
    friend auto operator<=>(const Way&, const Way&) = default;
  };

  std::map<Way, PageCount> moved;
  PageCount dry_run;                      // that would have been tried, but for the dry run
  std::map<int, std::uint64_t> failures;  // moves by errno
  std::uint64_t ping_pong = 0;            // moves that undid another one

  // Precondition: `tiers` has both nodes of the move.
  void Add(const MoveOutcome& outcome, const Tiers& tiers);
};

struct DaemonStatus {
  std::string version;
  DaemonState state = DaemonState::kRunning;
  std::string config_file;           // empty: it runs by defaults
  std::optional<EpochStatus> epoch;  // the last one that is over
  std::uint64_t epochs_total = 0;
  std::vector<TargetStatus> targets;
  std::vector<TierStatus> tiers;
  std::vector<ObservingSource> sources;
  std::optional<DecisionStatus> decision;  // the last one
  MoveTotals totals;
  std::uint64_t pending_moves = 0;
  std::chrono::nanoseconds own_cpu_time{0};  // user + system, all threads
  std::optional<double> tier1_hit_ratio;     // estimated, of the last epoch
  // The accesses that the last decision ranked by. `tier1_hit_ratio` is a share of them. nullopt:
  // there was no decision yet.
  std::optional<RankSource> ranked_by;
  LatencyGaps gaps;  // the price of an access
  PromotionSavings savings;
  std::vector<std::string> warnings;
  std::optional<std::string> refusal;  // the last configuration was refused; nullopt: no
};

struct StatusReading {
  std::shared_ptr<const DaemonStatus> status;  // never null
  std::chrono::nanoseconds age{0};             // since it was published
  std::chrono::nanoseconds uptime{0};          // since the board was made
};

// Between the daemon's loop, which publishes, and whoever reads. Neither holds up the other: both
// hold the lock for the exchange of a pointer.
class StatusBoard {
 public:
  // `clock` must outlive the board.
  StatusBoard(const Clock& clock, DaemonStatus first);

  void Publish(DaemonStatus status);
  // Leaves all else, and its age, as it was published.
  void Amend(const std::function<void(DaemonStatus&)>& change);
  StatusReading Read() const;

 private:
  const Clock* clock_;
  const MonotonicTime started_;
  mutable std::mutex mutex_;
  std::shared_ptr<const DaemonStatus> status_;
  MonotonicTime published_;
};

std::string_view Name(DaemonState state);  // "running", "paused", "track-only", "dry-run"

Json AsJson(const StatusReading& reading);
std::string AsText(const StatusReading& reading, TextWidth width = {});
// In a line: "running: 2 targets, 81 % of the accesses hit tier 1 by estimate, 4 096 pages moved".
std::string Summary(const DaemonStatus& status);
// These hold the targets alone.
Json TargetsAsJson(const DaemonStatus& status);
std::string TargetsAsText(const DaemonStatus& status, TextWidth width = {});

}  // namespace tmprof
