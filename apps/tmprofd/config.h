// SPDX-License-Identifier: Apache-2.0
// The configuration of tmprofd: valid by itself, with every default in force. proto/config.proto is
// the manual.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tiers.h"
#include "base/units.h"
#include "daemon/control/control_address.h"
#include "daemon/placement/capacity.h"
#include "daemon/settings.h"
#include "mover/move_planner.h"
#include "mover/page_mover.h"
#include "policy/policy.h"
#include "profiler/recorder.h"
#include "profiler/source_choice.h"
#include "profiler/target_tracker.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"

namespace tmprof {

struct TargetConfig {
  std::vector<std::string> commands;     // fnmatch(3) patterns of /proc/PID/comm
  std::vector<std::string> executables;  // for /proc/PID/exe; no flag, so that * matches a slash
  std::vector<std::string> cgroups;      // "/system.slice/redis.service", with those below
  std::vector<Pid> pids;
  // `observer` is not the configuration's to say.
  TargetTracker::Options tracking;

  // Every process that passes tracking.filter, which then is set.
  bool Everything() const {
    return commands.empty() && executables.empty() && cgroups.empty() && pids.empty();
  }
  friend bool operator==(const TargetConfig&, const TargetConfig&) = default;
};

struct TierConfig {
  std::optional<Tiers> given;  // nullopt: to be discovered
  // Capacity of tier 1, for all targets together; a ratio is of their footprint.
  Capacity capacity;
  // Capacities of tiers 2, 3 and so on, as far as they are given.
  std::vector<Capacity> lower_capacities;
  PageCount reserve{512ULL * 256};  // 512 MiB, kept free on each node that pages are moved to
};

struct ProfileConfig {
  std::chrono::nanoseconds epoch = Recorder::Options{}.epoch;  // the shortest
  double max_cpu_share = 0.03;  // share of one CPU, at the end of epochs
  SourceChoice sources;
};

struct PlacementConfig {
  Ranker::Options ranker = Ranker::DefaultOptions(Ranker::Options{}.model);
  bool half_life_given = false;                        // else it is the rank model's own
  RankSource rank = RankSource::kMemory;               // see PlacerOptions; never exact
  bool rank_given = false;                             // else `rank` follows from the weight
  RankWeight weight = RankWeight::kMemory;             // never kStall
  bool weight_given = false;                           // else it is the rank model's own, too
  const PolicyEntry* policy = *FindPolicy("history");  // never `replay_only`
  bool track_only = false;  // `limits.dry_run` of the mover is the other one
};

struct MoverConfig {
  MoverLimits limits;
  // 256 MiB: some 0.12 s of one CPU at 1.35 page faults of 1.4 us a page, what moves cost on the
  // machine that tmprof was developed on.
  PageCount most_pages_per_epoch{65536};
  std::optional<double> cost_of_move;    // see MoveRules; nullopt: to be measured
  std::optional<double> latency_gap_ns;  // nullopt: the firmware's figure, else an assumed one
  double hysteresis = MoveRules{}.hysteresis;
  std::uint64_t cool_down_epochs = MoveRules{}.cool_down_epochs;
};

// On the loopback interface.
struct ListenAddress {
  std::string host;  // in numbers, an IPv6 address without brackets
  std::uint16_t port = 0;
  friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

struct Config {
  TargetConfig targets;
  TierConfig tiers;
  ProfileConfig profile;
  PlacementConfig placement;
  MoverConfig mover;
  LedgerConfig ledger;
  std::filesystem::path control_socket{kDefaultControlSocket};
  std::optional<ListenAddress> metrics;  // nullopt: not served
  LogConfig log;
};

}  // namespace tmprof
