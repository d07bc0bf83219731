// SPDX-License-Identifier: Apache-2.0
// An attempted migration, from its reason to its outcome.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "base/epoch_profile.h"
#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

enum class MoveReason : std::uint8_t {
  kWanted,        // a promotion: the plan wants it in tier 1
  kRoom,          // a demotion: what the plan wants takes its room
  kOverCapacity,  // a demotion: tier 1 holds more than it may
};

struct Move {
  PageKey key;
  PageCount span{1};  // of one leaf of the page table: moved whole
  NodeId from;
  NodeId to;
  double score = 0;  // that it was decided by
  MoveReason reason = MoveReason::kWanted;
  bool joint = false;  // several mappings hold it, and it moves for all of them
  // The page's name in SharedPages, under which it is known when `key` is no mapping of it any
  // more. Nothing: the page is in no shared file. Ledgers do not have it.
  std::optional<PageKey> shared_page{};
  // The file and place that `key` maps, if several mappings hold the page. Ledgers do not have it.
  std::optional<FilePlace> file{};

  PageKey page() const { return shared_page.value_or(key); }
  friend bool operator==(const Move&, const Move&) = default;
};

// What became of a move, once it is over.
struct MoveOutcome {
  Move move;
  int error = 0;               // errno, positive; 0: it is on `move.to` now
  std::uint32_t attempts = 0;  // 0: it was never tried
  // Its share, by pages, of the calls that tried it; what a refusal takes is of the refused.
  std::chrono::nanoseconds latency{0};
  friend bool operator==(const MoveOutcome&, const MoveOutcome&) = default;
};

// Of the spans wanted in tier 1 that are not there, those that no move was decided for, by the
// first reason that held.
struct NotMoved {
  std::uint64_t bound = 0;             // by a memory policy or cpuset, to where it is
  std::uint64_t binding_unknown = 0;   // what binds it could not be read, or not yet
  std::uint64_t shared = 0;            // several mappings hold it, and CAP_SYS_NICE is missing
  std::uint64_t mapped_elsewhere = 0;  // moves were refused: unknown mappings hold it, too
  std::uint64_t let_be = 0;            // for a while, as moves of it were refused
  std::uint64_t cooling = 0;
  std::uint64_t without_gain = 0;  // too little over what would give way, or over their cost
  std::uint64_t without_room = 0;  // in tier 1, or below it for what would give way
  std::uint64_t over_quota = 0;    // of the pages that may be moved at all
  std::uint64_t unplaced = 0;      // nobody knows where they are, or they are in no tier
  friend bool operator==(const NotMoved&, const NotMoved&) = default;
};

// By the names that people and programs are told, in that order.
inline constexpr std::array<std::pair<std::string_view, std::uint64_t NotMoved::*>, 10>
    kReasonsNotMoved = {{
        {"bound", &NotMoved::bound},
        {"binding_unknown", &NotMoved::binding_unknown},
        {"shared", &NotMoved::shared},
        {"mapped_elsewhere", &NotMoved::mapped_elsewhere},
        {"let_be", &NotMoved::let_be},
        {"cooling", &NotMoved::cooling},
        {"without_gain", &NotMoved::without_gain},
        {"without_room", &NotMoved::without_room},
        {"over_quota", &NotMoved::over_quota},
        {"unplaced", &NotMoved::unplaced},
    }};

enum class SettledCause : std::uint8_t {
  kMoved,      // it, or a part of it, moved again
  kGone,       // its target is no longer tracked
  kEnd,        // nobody watches any longer
  kForgotten,  // too many moves to watch them all
};

// Whether a move paid back: what was seen of the span where it was moved to, once no more is to be
// learnt.
struct SettledMove {
  PageKey key;
  PageCount span{1};
  NodeId from;
  NodeId to;
  std::uint64_t moved_in = 0;  // epoch
  SettledCause cause = SettledCause::kMoved;
  std::uint64_t epochs = 0;  // whole ones that it stayed: not those of its own move and of the next
  std::uint64_t epochs_known = 0;  // those of them in which anything was known of its pages
  // Sums over those, 0 where there are none, which is unknown. A span's share of what was seen of a
  // larger one is by pages.
  double seen = 0;    // references and samples, or exact accesses
  double weight = 0;  // scores by the rank model, which may suppose what was not seen
  friend bool operator==(const SettledMove&, const SettledMove&) = default;
};

std::string_view Name(MoveReason reason);  // "wanted", "room", "over-capacity"

}  // namespace tmprof
