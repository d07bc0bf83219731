// SPDX-License-Identifier: Apache-2.0
// The part of tmprofd's configuration that its targets and sources do not need: valid by itself,
// with every default in force. proto/config.proto is the manual.

#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tiers.h"
#include "base/trace_info.h"
#include "base/units.h"
#include "daemon/control/control_address.h"
#include "daemon/control/listen_address.h"
#include "daemon/placement/capacity.h"
#include "daemon/settings.h"
#include "mover/move_planner.h"
#include "mover/page_mover.h"
#include "policy/policy.h"
#include "proto/given_settings.h"
#include "proto/setting_rows.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"

namespace tmprof {

struct TierConfig {
  std::optional<Tiers> given;  // nullopt: to be discovered
  // Capacity of tier 1, for all targets together; a ratio is of their footprint.
  Capacity capacity;
  // Capacities of tiers 2, 3 and so on, as far as they are given.
  std::vector<Capacity> lower_capacities;
  PageCount reserve{512ULL * 256};  // 512 MiB, kept free on each node that pages are moved to
};

struct PlacementConfig {
  Ranker::Options ranker = Ranker::DefaultOptions(Ranker::Options{}.model);
  RankSource rank = RankSource::kMemory;               // see PlacerOptions; never exact
  RankWeight weight = RankWeight::kMemory;             // never kStall
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

struct DaemonConfig {
  GivenSettings given;  // all that this was made of; the rest are defaults
  TierConfig tiers;
  PlacementConfig placement;
  MoverConfig mover;
  LedgerConfig ledger;
  std::filesystem::path control_socket{kDefaultControlSocket};
  std::optional<ListenAddress> metrics;  // nullopt: not served
  LogConfig log;
};

// The settings of these structs, in the proto's order, but those of `tiers.tier`: it is a list of
// groups, which Settle() and GiveTiers() read and write.
std::span<const SettingRow<DaemonConfig>> DaemonSettingRows();

// Refuses the value with this index, which is 0 unless the field is repeated.
using RefuseSetting =
    std::function<void(std::string_view path, std::string why, std::size_t index)>;

// Derives the members that depend on several settings, once all rows have set theirs, and refuses
// settings that contradict each other.
void Settle(DaemonConfig& config, const RefuseSetting& refuse);

// Sets one setting as an operator does: see GivenSettings::Set(). Tier 1 has one capacity, wherever
// it was given. The error is a reason, and advice behind it.
std::expected<void, std::string> SetGiven(GivenSettings& given, const Setting& setting);

// Gives the tiers of `config`. Precondition: `settings` has none.
void GiveTiers(const TierConfig& config, GivenSettings& settings);

}  // namespace tmprof
