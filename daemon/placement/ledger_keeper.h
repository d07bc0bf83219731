// SPDX-License-Identifier: Apache-2.0
// Keeps the ledger while pages are moved, whatever becomes of its file.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/epoch_profile.h"
#include "daemon/settings.h"
#include "mover/page_owners.h"
#include "mover/payback.h"
#include "proto/ledger_file.h"
#include "rank/evidence.h"
#include "rank/rank_model.h"

namespace tmprof {

// Moves whose pages are watched at a time, some 128 bytes each.
inline constexpr std::size_t kMostMovesWatched = 1'000'000;

// Returns what an epoch's records saw of pages, with the scores of `table`, as Payback takes it. A
// page that several mappings hold is there once, by its name. Records without looks, samples or
// counted accesses are left out: nothing is known of accesses to their pages.
std::vector<SeenSpan> SeenSpansOf(const EpochProfile& epoch, const EvidenceTable& table,
                                  const Scores& scores, const PageOwners& owners);

// Tells if a page without a record in this epoch was not accessed: a sampler of accesses watches
// all memory.
Payback::Elsewhere WhatNoRecordMeans(const EpochProfile& epoch);

class LedgerKeeper {
 public:
  // A ledger that lies there already becomes FILE.1. Fails where it cannot be written, or where
  // another daemon writes it.
  static Result<LedgerKeeper> Begin(const LedgerConfig& config, LedgerInfo info);

  // After each epoch: what became of moves in it, and what is known of pages. `observed` are those
  // of its targets whose memory is being looked at, ascending. `owners` names the pages that these
  // share, and `scores` are estimated from `rank`. Returns the error by which the ledger has ended,
  // once; it is kept no longer then.
  Status Note(const EpochProfile& epoch, std::span<const TargetId> observed,
              const NotMoved& not_moved, std::uint64_t replaced, std::vector<MoveOutcome> outcomes,
              RankSource rank, const EvidenceTable& table, const Scores& scores,
              const PageOwners& owners);
  // Settles what is still watched, and closes the file. `outcomes` and `dropped` are of moves since
  // the last epoch: those that are over, and how many will not be tried.
  Status End(std::vector<MoveOutcome> outcomes, std::uint64_t dropped);

 private:
  LedgerKeeper(LedgerConfig config, LedgerInfo info);

  Status Open();
  // Leaves those of targets that the ledger knows, and watches them.
  void TakeIn(std::vector<MoveOutcome>& outcomes, std::uint64_t epoch);
  void TellTargets(const EpochProfile& epoch, std::span<const TargetId> observed,
                   std::vector<LedgerTarget>& news);
  void ForgetTargets(std::uint64_t epoch, const PageOwners& owners);
  void Observe(const EpochProfile& epoch, const EvidenceTable& table, const Scores& scores,
               const PageOwners& owners);

  LedgerConfig config_;
  LedgerInfo info_;
  std::optional<LedgerWriter> writer_;  // none: it has ended
  Payback payback_;
  struct Listed {
    LedgerTarget target;              // the last state that was reported
    std::uint64_t last_observed = 0;  // epoch
  };
  std::map<TargetId, Listed> listed_;
  std::vector<TargetId> files_;  // that targets shared as of the last epoch
  bool tell_all_ = false;        // with the next epoch
  std::uint64_t next_index_ = 0;
  MonotonicTime last_end_;
};

}  // namespace tmprof
