// SPDX-License-Identifier: Apache-2.0
// Turns the profile of an epoch into the moves of the next: rank, policy, places of pages, moves
// that pay.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/epoch_profile.h"
#include "base/host/node_memory.h"
#include "base/latency_gap.h"
#include "base/move.h"
#include "base/move_history.h"
#include "base/shared_pages.h"
#include "base/tiers.h"
#include "base/units.h"
#include "daemon/hot_span.h"
#include "daemon/placement/access_ages.h"
#include "daemon/placement/candidates.h"
#include "daemon/placement/capacity.h"
#include "daemon/placement/mapper_bindings.h"
#include "daemon/placement/ranked_rows.h"
#include "mover/assumed_moves.h"
#include "mover/move_planner.h"
#include "mover/node_rooms.h"
#include "mover/page_locator.h"
#include "mover/page_mover.h"
#include "mover/page_owners.h"
#include "mover/placement_map.h"
#include "mover/placement_survey.h"
#include "policy/policy.h"
#include "policy/ranking.h"
#include "rank/rank_model.h"

namespace tmprof {

struct PlacerOptions {
  Tiers tiers;
  Capacity capacity;                       // capacity of tier 1
  std::vector<Capacity> lower_capacities;  // capacities of tiers 2, 3 and so on that have their own
  PageCount reserve;                       // kept free on each node
  Ranker::Options ranker;
  // The placer goes by kCombined instead of kMemory while too few samples of accesses to memory are
  // remembered.
  RankSource rank = RankSource::kCombined;
  const PolicyEntry* policy = nullptr;
  PageCount most_pages;  // moved for one epoch
  double hysteresis = MoveRules{}.hysteresis;
  std::uint64_t cool_down_epochs = 0;
  // MoveRules, same name. nullopt: it is learnt from what moves take, and what an access gains.
  std::optional<double> cost_of_move;
  LatencyGaps gaps;  // time that an access gains in tier 1
  // Moves are over with ECANCELED, and each decision goes on from where those before it would have
  // led.
  bool dry_run = false;
  // False: pages that several mappings hold stay where they are.
  bool moves_joint = true;
  // Share of one CPU for looking where pages are.
  double survey_share = 0.01;
};

struct PlacementDecision {
  std::vector<Move> moves;  // in the order in which they find room
  NotMoved not_moved;
  RankSource rank = RankSource::kCombined;  // scores, hit ratio and gain are estimated from it
  PageCount wanted;
  PageCount capacity;                                      // capacity of tier 1
  std::vector<std::optional<PageCount>> lower_capacities;  // see MoveRules
  // Share in tier 1, before the moves, of the score of all pages whose place is known. Assumed
  // scores do not count. nullopt: there is no score at all.
  std::optional<double> hit_ratio;
  // Share by which the moves would raise `hit_ratio`; nullopt in the same case.
  std::optional<double> gain;
  // Memory time that the moves are predicted to save, in seconds per second. Scores that count all
  // accesses make it an upper bound: caches serve some of them. nullopt: scores are no accesses.
  std::optional<double> saved_per_second;
  // Share of the pages whose place is known that have recently read accessed bits; 0 if there are
  // no pages.
  double looked_at = 0;
};

class Placer {
 public:
  // `cpu_clock` is the calling thread's CPU time. All must outlive the placer.
  Placer(PlacerOptions options, PageLocator& locator, const Clock& cpu_clock);

  // Holds from now on; all that is known of pages stays known. Precondition: the tiers are the
  // same.
  void Configure(PlacerOptions options);

  // After each epoch. `targets` ascend by id: those that are alive. `memory` is the machine's as
  // of now.
  PlacementDecision Decide(const EpochProfile& epoch, std::span<const PlacedTarget> targets,
                           std::span<const NodeMemory> memory);
  // Takes the outcomes of moves. Returns how many of them undid an earlier one.
  std::uint64_t Learn(std::span<const MoveOutcome> outcomes, std::uint64_t epoch);

  // Returns the spans that the last decision ranked best, at most `most` of them, the best first.
  // It takes about as long as ranking did. Ages of pages are followed for a minute from now on.
  std::vector<HotSpan> Hottest(std::size_t most);
  // These are of the last decision: the number of spans that it ranked, and by what.
  std::size_t ranked_spans() const { return ranking_.size(); }
  RankSource ranked_by() const { return ranked_by_; }

  const PlacementMap& map() const { return map_; }
  // Owners as of the last decision.
  const PageOwners& owners() const { return owners_; }
  // These are of the last decision, and parallel.
  const EvidenceTable& table() const { return ranker_.table(); }
  const Scores& scores() const { return scores_; }

 private:
  RankSource RankNow() const;
  void FollowTargets(const EpochProfile& epoch, std::span<const PlacedTarget> targets);
  void FollowOwners(const EpochProfile& epoch, std::span<const PlacedTarget> targets);
  // Places of pages are known by their new owners' addresses from now on.
  void TakeOver(const PageOwners::Changes& changes);
  void Survey(std::span<const PlacedTarget> targets, std::chrono::nanoseconds look_for);
  // The next epoch's survey begins with these pages.
  void LookAgainAt(TargetId target, VpnRange pages);
  void LookAgain(std::span<const PlacedTarget> targets, std::chrono::nanoseconds look_for);
  // Takes in where these pages are. Returns whether any was found.
  bool Look(TargetId target, Pid pid, VpnRange pages);
  void RankCandidates(std::span<const PlacedTarget> targets);
  // For the best whose place is unknown, as far as the capacity goes. Returns whether any was
  // found.
  bool LookForTheBest(std::span<const PlacedTarget> targets, PageCount capacity,
                      std::chrono::nanoseconds look_for);
  // Returns the rooms that the assumed moves leave.
  std::vector<NodeRoom> RoomsAt(std::span<const NodeMemory> memory, MonotonicTime now);
  PageCount CapacityNow(std::span<const TargetId> targets, std::span<const NodeRoom> rooms) const;
  PageCount Footprint(std::span<const TargetId> targets) const;
  // nullopt: all free memory. A share counts at least the memory in the tier of each target whose
  // pages were not all found once. A share of a part of its pages would be too little, and would
  // drive pages from the tier.
  std::optional<PageCount> LimitOf(const Capacity& capacity, std::span<const TargetId> targets,
                                   Tier tier) const;
  PageCount PagesIn(std::span<const TargetId> targets, Tier tier) const;
  std::vector<std::optional<PageCount>> LowerCapacities(std::span<const TargetId> targets) const;
  std::optional<double> HitRatio(std::span<const PlacedSpan> placed) const;
  std::optional<double> Gain(std::span<const Move> moves, std::span<const PlacedSpan> placed) const;
  double LookedAt(std::span<const TargetId> targets) const;
  bool IsOwner(PageKey address) const {
    return owners_.OwnerOf(owners_.NameOf(address)) == address;
  }
  // `mappers_let` must outlive the answer.
  std::vector<PlacedSpan> PlacedSpans(std::span<const PlacedTarget> targets, std::uint64_t epoch,
                                      MapperBindings& mappers,
                                      const PlacedSpan::OthersLet& mappers_let);
  // Turns moves of pieces that hold several leaves into moves of leaves, without leaves in backoff.
  std::vector<Move> LeafByLeaf(std::span<const Move> moves, std::uint64_t epoch) const;
  void FollowAges(const EpochProfile& epoch);
  void LearnRefusal(const MoveOutcome& refused, std::uint64_t epoch);
  // Why the kernel would not move the leaf of late.
  Held HeldOf(PageKey leaf, std::uint64_t epoch) const;
  // Returns it in accesses of an epoch, or in accesses to memory, from tiers 2, 3 and so on.
  std::vector<double> CostsOfMove(std::chrono::nanoseconds epoch_length) const;
  std::optional<double> SavedPerSecond(const PlacementDecision& decision,
                                       std::chrono::nanoseconds epoch_length) const;

  PlacerOptions options_;
  AssumedMoves locator_;  // none, but for a dry run
  const Clock* cpu_clock_;
  std::unique_ptr<const Policy> policy_;
  Ranker ranker_;
  Scores scores_;
  std::vector<RowlessScore> rowless_;
  RankedRows rows_;
  Candidates candidates_;
  Ranking ranking_;
  SharedPages shared_;
  PageOwners owners_;
  PlacementMap map_;  // knows pages that several mappings hold by their owners' addresses alone
  PlacementSurvey survey_;
  NodeRooms rooms_;
  MoveHistory history_;
  std::vector<TargetId> known_targets_;  // and the files that they share, ascending
  struct Sought {
    TargetId target;
    VpnRange pages;
    // The next one, which begins no earlier, is worth the same look.
    bool CanHold(const Sought& next) const;
  };
  std::vector<Sought> look_again_;  // their places may have changed
  // Pages that the kernel would not move.
  struct Backoff {
    std::uint64_t until = 0;  // epoch
    std::uint64_t epochs = 0;
    bool mapped_elsewhere = false;
  };
  std::map<PageKey, Backoff> backoffs_;  // keyed by the page's name
  AccessAges ages_;                      // by the pages' names
  MonotonicTime decided_;                // end of the epoch of the last decision
  RankSource ranked_by_ = RankSource::kCombined;
  // Sums over moves, in which older ones weigh less.
  double moving_ns_ = 0;
  double moved_pages_ = 0;
};

}  // namespace tmprof
