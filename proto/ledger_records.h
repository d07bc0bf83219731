// SPDX-License-Identifier: Apache-2.0
// The parts of a ledger: its header, and an epoch's moves.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/move.h"
#include "base/tiers.h"
#include "base/trace_info.h"
#include "base/units.h"

namespace tmprof {

// Everything needed to read a ledger alone.
struct LedgerInfo {
  std::string tool_version;                          // "tmprof 0.1.0"
  std::string kernel_release;                        // uname -r
  std::chrono::system_clock::time_point wall_start;  // at `start`
  MonotonicTime start;
  std::chrono::nanoseconds epoch_length{0};
  Tiers tiers;
  std::string rank_model;  // its unit is that of scores and weights: "rate"
  std::string policy;      // "history"
  bool dry_run = false;    // no page was moved: each outcome has the error ECANCELED
  std::vector<Setting> settings;
  std::vector<std::string> warnings;
  friend bool operator==(const LedgerInfo&, const LedgerInfo&) = default;
};

struct LedgerTarget {
  TargetId id;
  Pid pid;
  std::uint64_t start_time_ticks = 0;  // /proc/PID/stat field 22
  std::string name;                    // comm
  std::string command;                 // argv joined by spaces
  friend bool operator==(const LedgerTarget&, const LedgerTarget&) = default;
};

struct LedgerEpoch {
  std::uint64_t index = 0;  // a gap means lost epochs
  MonotonicTime start;
  MonotonicTime end;
  // Ascending by id: new ones, and those whose name or command has changed.
  std::vector<LedgerTarget> targets;
  NotMoved not_moved;
  std::uint64_t replaced = 0;  // moves dropped untried, because newer decisions replaced them
  // Names the evidence behind the scores and weights of the epoch: "memory", "combined",
  // "references", "samples". Empty: unknown.
  std::string ranked_by;
  // Moves that ended in this epoch, in that order. Their targets are here or in an earlier epoch.
  std::vector<MoveOutcome> moves;
  std::vector<SettledMove> settled;  // moves of this epoch and of earlier ones
  friend bool operator==(const LedgerEpoch&, const LedgerEpoch&) = default;
};

}  // namespace tmprof
