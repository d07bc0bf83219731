// SPDX-License-Identifier: Apache-2.0
// Tells if moves pay back: watches the evidence of spans where they were moved to.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/move.h"
#include "base/page_key.h"
#include "base/units.h"
#include "mover/page_owners.h"

namespace tmprof {

// A span of an epoch's profile, with its score by the rank model.
struct SeenSpan {
  PageKey key;  // in the form of Move::page()
  PageCount span{1};
  double seen = 0;   // references and samples of this epoch, or exact accesses
  double score = 0;  // score of the whole span
};

// Returns the part of the pages of `whole` that lies within [start, end), in [0, 1].
double ShareWithin(const SeenSpan& whole, PageKey start, PageKey end);

class Payback {
 public:
  // The state of knowledge about spans that an epoch's profile does not hold.
  enum class Elsewhere : std::uint8_t {
    kUnknown,
    kUnseen,  // a sampler watched all memory and saw nothing there
  };

  // Watches at most this many moves. For one more, the oldest is settled as forgotten; of equal age
  // the lower key. Precondition: not 0.
  explicit Payback(std::size_t most_moves);

  // Notes a move that ended in `epoch`; pages that did not move are skipped. Precondition: epochs
  // never descend, and an epoch's moves are noted before it is observed. Pages of shared files are
  // watched by their names, whichever target they were moved through.
  void Note(const MoveOutcome& outcome, std::uint64_t epoch);
  // Takes the evidence of `epoch`. `spans` ascend by key and do not overlap. Nothing is known of
  // pages whose name may be that of others by now (PageOwners::KeepsName).
  void Observe(std::uint64_t epoch, std::span<const SeenSpan> spans, Elsewhere elsewhere,
               const PageOwners& owners = {});
  // Forgets pages of a target that is no longer tracked, or of a file that no target maps any more.
  void Forget(TargetId target);
  // True while a move is watched that was made through this target.
  bool Watches(TargetId target) const { return watched_of_.contains(target); }
  // Settles all moves that are still watched.
  void End();

  // Returns moves that were settled since the last call, in that order, and those of one moment by
  // page.
  std::vector<SettledMove> TakeSettled() { return std::exchange(settled_, {}); }
  std::size_t watched() const { return watched_.size(); }

 private:
  // The key is a move's first page; moves do not overlap. SettledMove::cause is not set yet, and
  // SettledMove::key is the move's.
  using Watched = std::map<PageKey, SettledMove>;

  Watched::iterator Settle(Watched::iterator watched, SettledCause cause);

  std::size_t most_moves_;
  Watched watched_;
  std::set<std::pair<std::uint64_t, PageKey>> by_age_;  // epoch and page of each
  std::map<TargetId, std::size_t> watched_of_;          // moves by target; never 0
  std::vector<SettledMove> settled_;
};

}  // namespace tmprof
