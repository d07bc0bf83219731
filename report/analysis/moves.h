// SPDX-License-Identifier: Apache-2.0
// Adds up a ledger: pages moved, moves refused, and whether it was worth it.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/epoch_stream.h"
#include "base/latency_gap.h"
#include "base/move.h"
#include "base/result.h"
#include "base/text/text_table.h"
#include "base/units.h"
#include "proto/ledger_file.h"
#include "proto/trace.h"

namespace tmprof {

inline constexpr std::uint64_t kPingPongEpochs = 10;

struct MovesOptions {
  EpochRange epochs;
  // A move is ping-pong if it undoes one of at most this many epochs before.
  std::uint64_t ping_pong_epochs = kPingPongEpochs;
};

struct MoveTally {
  std::uint64_t moves = 0;
  PageCount pages;
};

// Evidence of moved spans in the tier that they were moved to.
struct PaybackTally {
  std::uint64_t settled = 0;
  std::uint64_t known = 0;   // settled moves about whose pages anything was known
  std::uint64_t unseen = 0;  // known moves whose pages were not seen accessed
  double seen = 0;           // references and samples, or exact accesses
  double weight = 0;         // in the unit of the rank model
  // Pages times the whole epochs in which anything was known of them.
  double page_epochs = 0;
};

// Memory time that promotions save, by the ledger's latency gap of the tier they left. The sums are
// over settled promotions about whose pages anything was known. Each is taken over the time of the
// epochs that knew the pages.
struct SavedTime {
  double predicted_s = 0;   // saving by the scores for which pages were promoted
  double realised_s = 0;    // saving by the scores of the epochs after the move
  double page_seconds = 0;  // pages times the time of these epochs; 0: no such promotion
};

struct MoveLatency {
  std::chrono::nanoseconds mean{0};
  std::chrono::nanoseconds p99{0};  // to 2.2 % (base/log_duration.h)
  std::chrono::nanoseconds max{0};
};

// Covers the moves of the chosen epochs. A dry run covers the moves that would have been tried, as
// if all had succeeded.
struct MovesSummary {
  struct Row {
    LedgerTarget target;  // its last description
    MoveTally promotions;
    MoveTally demotions;
    std::uint64_t failed = 0;
  };

  std::string ledger;
  LedgerInfo info;
  StreamEnd end;
  std::uint64_t ping_pong_epochs = 0;
  std::uint64_t epochs = 0;
  std::uint64_t lost_epochs = 0;  // gaps between them
  MonotonicTime start;
  MonotonicTime stop;
  MoveTally promotions;                   // to a faster tier
  MoveTally demotions;                    // to a slower one
  MoveTally others;                       // within a tier, or with a node that is in no tier
  std::map<int, std::uint64_t> failures;  // key: errno
  std::uint64_t retries = 0;              // attempts after the first
  std::optional<MoveLatency> latency;     // latency of moves that were tried; unset: none was
  std::uint64_t ping_pongs = 0;
  NotMoved not_moved;
  std::uint64_t replaced = 0;
  std::vector<std::string> ranked_by;  // in order of appearance; empty: unknown
  LatencyGaps gaps;                    // the price of an access in the ledger
  SavedTime saved;
  std::chrono::nanoseconds moving{0};  // time that calls took to try moves
  PaybackTally promoted;
  PaybackTally demoted;
  std::vector<Row> targets;  // ascending by id

  std::chrono::nanoseconds duration() const { return stop - start; }
  std::uint64_t moved() const { return promotions.moves + demotions.moves + others.moves; }
  PageCount pages() const { return promotions.pages + demotions.pages + others.pages; }
  std::uint64_t failed() const;
  std::optional<double> PingPong() const;  // share of moves that succeeded
  // Returns the share of promotions without an access until they left their tier or were watched no
  // longer. Promotions of which nothing is known do not count.
  std::optional<double> Wasted() const;
  // False: scores are no accesses, or the ledger has scores of two units. Such scores are no
  // estimate of time.
  bool ScoresTellTime() const;
  // nullopt: no promotion gives the time, or ScoresTellTime() is false.
  std::optional<SavedTime> Saved() const;
  // Returns the time that calls took to try moves. nullopt: no call tried one, as in a dry run.
  std::optional<std::chrono::nanoseconds> Moving() const;
};

// Reads the rest of the ledger. Memory is bounded by the largest epoch, the spans that moved within
// `ping_pong_epochs`, the promotions that are not settled, and the number of targets.
MovesSummary SummarizeMoves(LedgerReader& ledger, const MovesOptions& options = {});

std::string MovesText(const MovesSummary& summary, TextWidth width = {});
std::string MovesJson(const MovesSummary& summary);
std::string MovesCsv(const MovesSummary& summary);

}  // namespace tmprof
