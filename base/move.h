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
  kRoom,          // a demotion: wanted pages take its room
  kOverCapacity,  // a demotion: tier 1 holds more than its capacity
};

struct Move {
  PageKey key;
  PageCount span{1};  // one leaf of the page table, which moves whole
  NodeId from;
  NodeId to;
  double score = 0;  // the score that decided it
  MoveReason reason = MoveReason::kWanted;
  bool joint = false;  // several mappings hold it, and it moves for all of them
  // The page's name in SharedPages, by which it is known when `key` no longer maps it. Unset: the
  // page is in no shared file. Ledgers do not have it.
  std::optional<PageKey> shared_page{};
  // The file and place that `key` maps, if several mappings hold the page. Ledgers do not have it.
  std::optional<FilePlace> file{};

  PageKey page() const { return shared_page.value_or(key); }
  friend bool operator==(const Move&, const Move&) = default;
};

// The outcome of a move that is over.
struct MoveOutcome {
  Move move;
  int error = 0;               // errno, positive; 0: it is on `move.to` now
  std::uint32_t attempts = 0;  // 0: it was never tried
  // Its share, by pages, of the calls that tried it. The time of a refusal counts for the refused
  // pages.
  std::chrono::nanoseconds latency{0};
  friend bool operator==(const MoveOutcome&, const MoveOutcome&) = default;
};

// Spans that are wanted in tier 1, are not there, and got no move. Each counts once, by the first
// reason that held.
struct NotMoved {
  std::uint64_t bound = 0;             // a memory policy or cpuset binds it to its node
  std::uint64_t binding_unknown = 0;   // its binding could not be read, or not yet
  std::uint64_t shared = 0;            // several mappings hold it, and CAP_SYS_NICE is missing
  std::uint64_t mapped_elsewhere = 0;  // moves were refused: unknown mappings hold it, too
  std::uint64_t backoff = 0;           // backoff, because moves of it were refused
  std::uint64_t cooling = 0;
  // Too little above the page that would give way, or above the cost.
  std::uint64_t without_gain = 0;
  std::uint64_t without_room = 0;  // in tier 1, or below it for the page that would give way
  std::uint64_t over_quota = 0;    // beyond the pages that may be moved at all
  std::uint64_t unplaced = 0;      // their node is unknown or in no tier
  friend bool operator==(const NotMoved&, const NotMoved&) = default;
};

// The reasons by the names that people and programs see, in this order.
inline constexpr std::array<std::pair<std::string_view, std::uint64_t NotMoved::*>, 10>
    kReasonsNotMoved = {{
        {"bound", &NotMoved::bound},
        {"binding_unknown", &NotMoved::binding_unknown},
        {"shared", &NotMoved::shared},
        {"mapped_elsewhere", &NotMoved::mapped_elsewhere},
        {"backoff", &NotMoved::backoff},
        {"cooling", &NotMoved::cooling},
        {"without_gain", &NotMoved::without_gain},
        {"without_room", &NotMoved::without_room},
        {"over_quota", &NotMoved::over_quota},
        {"unplaced", &NotMoved::unplaced},
    }};

enum class SettledCause : std::uint8_t {
  kMoved,      // it, or a part of it, moved again
  kGone,       // its target is no longer tracked
  kEnd,        // the watch ended
  kForgotten,  // too many moves to watch them all
};

// Tells if a move paid back. It holds the evidence about the span at its new node, and is made when
// no more evidence can come.
struct SettledMove {
  PageKey key;
  PageCount span{1};
  NodeId from;
  NodeId to;
  std::uint64_t moved_in = 0;  // epoch
  SettledCause cause = SettledCause::kMoved;
  // Whole epochs that it stayed, without those of its own move and of the next.
  std::uint64_t epochs = 0;
  std::uint64_t epochs_known = 0;  // those in which anything was known of its pages
  // Sums over the known epochs; 0 if there are none, which means unknown. A span has a share, by
  // pages, of the evidence of a larger one.
  double seen = 0;    // references and samples, or exact accesses
  double weight = 0;  // scores by the rank model, which may include assumed evidence
  friend bool operator==(const SettledMove&, const SettledMove&) = default;
};

std::string_view Name(MoveReason reason);  // "wanted", "room", "over-capacity"

}  // namespace tmprof
