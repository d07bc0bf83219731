// SPDX-License-Identifier: Apache-2.0
// The engine that looks at every page: which block is cleared or read when, at what price, and what
// that says about its pages.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "driver/core/ladder.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/aged_groups.h"
#include "profiler/sources/abit/budget.h"
#include "profiler/sources/abit/engine.h"
#include "profiler/sources/abit/memcg_ageing.h"
#include "profiler/sources/abit/scan_target.h"
#include "profiler/sources/abit/targeted_engine.h"

namespace tmprof::abit {

// Not thread-safe.
class ScanEngine final : public TargetedEngine<ScanTarget> {
 public:
  ScanEngine(AbitKernel& kernel, const ScanOptions& options);

  // The longest piece of work takes about a tenth of a millisecond, but for a clear of a whole
  // process: 5 ms, and a look at each of its blocks.
  MonotonicTime Step() override;
  void TrustFlushes() override { options_.can_flush = true; }
  Harvest TakeEpoch() override;

  // Estimated target CPU time of one pass over all pages, from the epochs since the last estimate.
  // A lower bound if too few pages were visited but the pass certainly exceeds kLongestVisit.
  // nullopt: not enough data.
  std::optional<std::chrono::nanoseconds> visit_cpu_time() const { return visit_cpu_time_; }

 private:
  struct Due {
    MonotonicTime time;
    std::chrono::nanoseconds slack;  // it may come early by so much
    BlockPtr block;
    std::uint32_t generation;
    bool operator<(const Due& other) const { return other.time < time; }
  };

  // The units of a block, as a read showed them.
  struct View {
    std::array<std::uint8_t, kMostUnits> present{};
    std::array<std::uint8_t, kMostUnits> accessed{};
    std::array<std::uint8_t, kMostUnits> writable{};
    std::array<std::uint64_t, kMostUnits> frame{};
    std::uint32_t present_count = 0;
    std::uint32_t accessed_count = 0;
    bool shape_changed = false;  // a huge page where base pages were, or the reverse

    void NoteFrame(std::size_t unit, UnitRecord& record) const {
      record.frame = frame[unit];
      record.writable = writable[unit] != 0;
    }
  };

  void Refresh(ScanTarget& target, bool mappings_changed) override;
  void SpendReserved(ScanTarget& target);
  void Leave(ScanTarget& target) override;
  const tmprof_ladder& LadderOf(const Block& block) const;
  void DropStaleDues();
  std::optional<RunningTime> LadderClock(ScanTarget& target, MonotonicTime now) const;
  BlockPtr TakeCpuDue(MonotonicTime now, MonotonicTime& next_due, MonotonicTime& next_look);
  BlockPtr PollClock(ScanTarget& target, MonotonicTime now, MonotonicTime& next_look);
  void PollIn(ScanTarget& target, std::chrono::nanoseconds cpu, MonotonicTime now);
  bool MayPollFor(const ScanTarget& target, std::chrono::nanoseconds cpu) const;
  struct Wait {
    MonotonicTime until;
    bool is_due = false;  // something is due then; else it is a time to look
  };
  Wait WaitFor(ScanTarget& target, std::chrono::nanoseconds cpu, std::chrono::nanoseconds slack,
               MonotonicTime now, const RunningTime& running);
  bool IsItsTurn(ScanTarget& target, MonotonicTime now);
  bool WaitsByCpu(ScanTarget& target, std::chrono::nanoseconds cpu, MonotonicTime now);

  bool MayTryFast(const ScanTarget& target, MonotonicTime now) const;
  void OfferForFastTries(ScanTarget& target, const BlockPtr& block, const UnitSet& found);
  std::chrono::nanoseconds RandomPause(std::chrono::nanoseconds least,
                                       std::chrono::nanoseconds most);
  bool TryFastSomewhere(MonotonicTime now);
  // Adds pages to the session that are tried again at the last rung.
  void ChooseFastestPages(FastSession& session, std::size_t rungs);
  // Returns how many rungs sessions try: not the shortest if hardly any of their tries count.
  std::size_t FastRungsThatCount() const;
  void ChooseForFastTries(ScanTarget& target);
  void TryFast(ScanTarget& target);
  bool PrepareFastTries(ScanTarget& target, std::vector<FastTry>& tries);
  void EndFastTries(ScanTarget& target, std::span<const FastTry> tries);
  void RecordIfCleared(ScanTarget& target, std::span<const FastSession::Page> doubted);
  void RecordFastTries(const FastSession::Page& page);

  ScanTarget* NextToPlan();
  void PlanSome(ScanTarget& target);
  bool PlanStep(ScanTarget& target);
  using MappingIterator = std::vector<Mapping>::const_iterator;
  void PlanParts(ScanTarget& target, MappingIterator first);
  void PlanHuge(ScanTarget& target, const Mapping& mapping, const TablePart& part);
  static void PlanTable(ScanTarget& target, MappingIterator first, VpnRange table);
  static void AddBlock(ScanTarget& target, VpnRange range, PageCount unit,
                       std::vector<VpnRange> mappings = {});
  void FlushRun(ScanTarget& target);
  void FollowGrowth(ScanTarget& target);
  void FinishPlan(ScanTarget& target);
  static void InOrder(std::vector<BlockPtr>& blocks);
  void MoveTurns(std::vector<BlockPtr>& blocks);

  BlockPtr NextBlock(ScanTarget& target, MonotonicTime now);
  BlockPtr TakeRevisit(ScanTarget& target, MonotonicTime now);
  void MayRevisit(ScanTarget& target, const BlockPtr& block, MonotonicTime now);
  void PutBack(ScanTarget& target, const BlockPtr& block);
  FirstVisits UnderWay(MonotonicTime now) const;
  void Earn(ScanTarget& target, MonotonicTime now);
  void ClearSomething(MonotonicTime now);
  std::vector<BlockPtr> RunAround(ScanTarget& target, const BlockPtr& block, MonotonicTime now);
  void See(ScanTarget& target, const BlockPtr& block, const UnitSet& units);
  bool BeginRotation(ScanTarget& target, MonotonicTime now);
  bool MayHaveTurn(const ScanTarget& target, const Block& block, MonotonicTime now) const;
  std::chrono::nanoseconds LastRung() const;
  bool LaddersOfWholeHaveEnded(const ScanTarget& target, MonotonicTime now) const;
  bool MayClearWhole(const ScanTarget& target, MonotonicTime now) const;
  bool LookBeforeClear(ScanTarget& target, const BlockPtr& block);
  bool LeavesToWholeUnjudged(const ScanTarget& target, const Block& block, MonotonicTime now);
  bool VisitWhole(ScanTarget& target, MonotonicTime now);
  static WholeNeed NeedOf(const ScanTarget& target, MonotonicTime now);
  bool VisitByClearRefs(ScanTarget& target, const WholeNeed& need, MonotonicTime now);
  struct TargetTime {
    MonotonicTime at;
    std::chrono::nanoseconds cpu;  // the target's CPU time
  };
  struct AgeingPlan {
    struct Member {
      ScanTarget* target;
      WholeNeed need;
    };
    std::string path;
    std::vector<Member> members;
    std::size_t walked = 0;  // entries, those of others included
    PageCount held{0};       // pages that the group holds
    MonotonicTime not_before{};
  };
  static void SetGroup(ScanTarget& target, const std::string& path);
  bool AgeingHasToWait(ScanTarget& target, MonotonicTime now);
  std::optional<AgeingPlan> PlanAgeing(ScanTarget& target, const MemcgAgeing::Group& group,
                                       MonotonicTime now);
  double ForeignShareOf(const MemcgAgeing::Group& group);
  bool VisitByAgeing(ScanTarget& target, const AgeingPlan& plan, MonotonicTime now);
  struct Aged {
    ScanTarget* target;
    std::vector<BlockPtr> ready;
    TargetTime began;
    TargetTime ended;
  };
  std::vector<Aged> PrepareAgeing(const AgeingPlan& plan, MonotonicTime now);
  bool StillHolds(const AgeingPlan& plan, const ScanTarget& target,
                  const MemcgAgeing::Present& present) const;
  void CutShortWhoJoined(const AgeingPlan& plan, const MemcgAgeing::Present& present);
  // Holds the pages of one mapping in a block on one memory node, right after an ageing. Each node
  // is walked by itself.
  struct AgedPart {
    BlockPtr block;
    Vpn mapping;  // its start
    std::optional<NodeId> node;
    std::vector<std::size_t> set;       // units that were set before, and are
    std::vector<std::uint64_t> frames;  // frames of the units in `set`
    std::vector<bool> writable;         // parallel: their entries allowed writes
    std::vector<std::size_t> gone;      // units that were set before, and are not
    bool any_unset = false;
    bool all_set() const { return gone.empty() && !any_unset; }
  };
  std::vector<AgedPart> PartsAfterAgeing(const ScanTarget& target, const BlockPtr& block) const;
  // A read of a target's blocks shows this right after an ageing.
  struct AgedLook {
    struct Tally {
      std::uint64_t set_before = 0;
      std::uint64_t gone = 0;  // those cleared, and those of parts that count as reached
      bool has_failed() const;
    };
    std::vector<BlockPtr> blocks;  // that could be read
    std::vector<AgedPart> parts;
    // The last block of each mapping and node that a bit has gone in.
    std::map<std::pair<Vpn, std::optional<NodeId>>, Vpn> reached_to;
    std::map<std::optional<NodeId>, Tally> by_node;
    Tally All() const;
    // Returns nodes that hold enough of the bits to age all nodes again.
    std::vector<std::optional<NodeId>> FailedNodes() const;
  };
  AgedLook LookAfterAgeing(ScanTarget& target, const std::vector<BlockPtr>& ready,
                           std::uint64_t number);
  bool StayedSetBefore(const AgedPart& part, std::size_t unit, std::uint64_t number) const;
  bool HasReached(const AgedLook& look, const AgedPart& part, std::uint64_t number) const;
  struct AgeingRun {
    std::vector<AgedLook> looks;  // one for each target
    std::chrono::nanoseconds took{0};
    std::chrono::nanoseconds latest_took{0};
  };
  std::optional<AgeingRun> AgeUntilReached(const AgeingPlan& plan, std::vector<Aged>& all,
                                           std::uint64_t number, MonotonicTime now);
  void ChargeForAgeing(const std::vector<Aged>& all, std::chrono::nanoseconds took,
                       std::size_t walked);
  void RejectUnaged(ScanTarget& target, const AgeingPlan& plan, AgedLook look, std::uint64_t number,
                    std::vector<BlockPtr>& ready);
  void SayOnce(AgedGroup& group, AgeingTrouble trouble, const std::string& text);
  void SayWhyNoGroupIsKnown();
  void CannotAge(const std::string& path, AgeingTrouble trouble, const std::string& reason);
  void CutShort(ScanTarget& target, Block& block);
  std::vector<BlockPtr> ReadyForWhole(ScanTarget& target, const std::vector<BlockPtr>& members);
  bool FlushWhole(ScanTarget& target);
  TargetTime TimeOf(ScanTarget& target);
  void OpenWhole(ScanTarget& target, const std::vector<BlockPtr>& members, const TargetTime& began,
                 const TargetTime& ended);
  void CannotClearWhole(ScanTarget& target, ClearOutcome outcome, MonotonicTime until);
  static void DoWithoutWhole(ScanTarget& target, MonotonicTime until);
  bool LeaveToWhole(const ScanTarget& target, Block& block);
  void Abandon(Block& block);
  bool Visit(ScanTarget& target, const BlockPtr& block, MonotonicTime now);
  bool Clear(ScanTarget& target, const std::vector<BlockPtr>& run);
  bool ClearByMapping(ScanTarget& target, const BlockPtr& block);
  void LookAtOnce(ScanTarget& target, Block& block);
  // `took`: own CPU time of the clear. Blocks that a look right after it has dropped stay as they
  // are.
  void Opened(ScanTarget& target, const std::vector<BlockPtr>& run, MonotonicTime cleared,
              std::chrono::nanoseconds took);
  void CannotClear(ScanTarget& target, const BlockPtr& block, ClearOutcome outcome);
  void PrepareExposure(Block& block);
  void ReadDue(const BlockPtr& block);
  void TakeTurnAgain(ScanTarget& target, const BlockPtr& block);
  std::optional<ReadResult> Read(ScanTarget& target, Block& block);
  void Expand(const Block& block);
  std::vector<UnitRecord>& RecordsOf(const BlockPtr& block);
  bool IsBlurred(const Block& block, std::uint32_t running_threads) const;
  struct Folded {
    bool told = false;         // false: what was set could not be told apart
    bool is_interval = false;  // the time since the read before is known for each page
    std::uint32_t found = 0;   // units
    std::uint32_t left = 0;    // unset
  };
  Folded Fold(ScanTarget& target, const BlockPtr& block, const ReadResult& read);
  void CountByRung(Block& block, std::uint32_t rung, const Folded& read);
  std::uint32_t Rounded(std::uint32_t count);
  std::vector<RungCounts> TakeRungCounts();
  void RejectUncleared(ScanTarget& target, const BlockPtr& block);
  // The bit of the unit is set, perhaps only because no clear reached it.
  void Reject(const BlockPtr& block, std::size_t unit, std::uint64_t frame, bool writable);
  void AskForSkipped(ScanTarget& target, Block& block);
  void OpenExposure(ScanTarget& target, const BlockPtr& block, MonotonicTime cleared,
                    std::chrono::nanoseconds cpu);
  std::chrono::nanoseconds Exposed(const Block& block) const;
  void ScheduleNextRead(ScanTarget& target, const BlockPtr& block, MonotonicTime now);
  void ScheduleByCpu(ScanTarget& target, const BlockPtr& block);
  void EndLadder(ScanTarget& target, Block& block);
  void Charge(ScanTarget& target, Block& block, std::uint64_t sets, std::uint64_t lines);
  void Release(ScanTarget& target, Block& block);
  void Drop(ScanTarget& target, Block& block);
  void DropAll(ScanTarget& target);
  void Replaced(ScanTarget& target, std::uint64_t address_space);
  void VoidEvidence(const ScanTarget& target);
  void EstimateVisit(std::uint64_t clearable, std::uint64_t at_once);

  tmprof_ladder base_ladder_;
  tmprof_ladder huge_ladder_;
  std::chrono::nanoseconds fast_own_cpu_{0};  // for fast tries
  // The thread that scans has calibrated before.
  std::optional<std::chrono::nanoseconds> own_cpu_at_start_;
  // Counts the tries of a rung, of all targets. Older ones count less and less.
  struct FastRungTries {
    std::uint64_t made = 0;
    std::uint64_t counted = 0;

    void Add(bool was_counted) {
      constexpr std::uint64_t kMost = 1024;
      if (made >= kMost) {
        made /= 2;
        counted /= 2;
      }
      ++made;
      counted += was_counted;
    }
  };
  std::array<FastRungTries, kFastRungs.size()> fast_rung_tries_;
  FirstVisitLoan loan_;
  std::mt19937_64 random_;
  std::mt19937_64 rounding_;  // apart, so that what is counted changes nothing else
  std::uint64_t epoch_ = 1;   // number of the open epoch
  // Time between reads that are counted by rung, of one ladder.
  struct RungWindows {
    std::array<double, TMPROF_LADDER_MAX_RUNGS> page_ns{};
    std::array<double, TMPROF_LADDER_MAX_RUNGS> pages{};
  };
  // Blocks whose counts by rung are not told: their program was replaced, or they overlap others.
  std::uint64_t rung_blocks_left_out_ = 0;
  std::uniform_real_distribution<double> anywhere_{0, 1};
  // A quarter of a rotation: what a rotation does at one time, none does for some dozens.
  std::uniform_real_distribution<double> turn_moves_by_{0, 0.25};

  std::size_t turn_ = 0;             // among the targets, to clear
  std::optional<TargetId> planned_;  // the last that had its turn
  bool plans_turn_ = true;           // and not a clear's, where both are due
  std::priority_queue<Due> dues_;
  std::optional<TargetId> tried_fast_;   // the last target that was
  std::optional<TargetId> read_by_cpu_;  // the target of the last read that its own clock made due
  std::vector<BlockPtr> touched_;        // with records, or seen
  MonotonicTime next_clear_{};
  MonotonicTime clear_gap_end_{};  // no clear before
  // Since the last estimate of a visit.
  struct Visits {
    std::uint64_t clears = 0;  // pages
    std::uint64_t cost_ns = 0;
    // In epochs in which nothing forbade clears.
    std::uint64_t unhindered_clears = 0;
    std::chrono::nanoseconds cpu_time{0};  // CPU time of the targets
  };
  Visits visits_;
  std::chrono::nanoseconds clock_cost_{0};    // to all targets in this epoch
  std::uint64_t whole_clears_ = 0;            // in this epoch
  std::uint64_t whole_flushes_ = 0;           // ... after which no translation was left
  std::uint64_t whole_too_long_ = 0;          // ... that were not made, as they would take too long
  std::uint64_t whole_by_ageing_ = 0;         // clears of whole targets that were ageings
  std::uint64_t ageings_ = 0;                 // ageings of a cgroup, in this epoch
  std::uint64_t ageings_without_effect_ = 0;  // targets that one did not reach
  Complaint whole_refused_;  // standing: shared and locked memory of some target is not cleared
  std::vector<std::string> ageing_notes_;  // those of this epoch
  std::string no_group_because_;           // said last
  AgedGroups aged_groups_;
  // These are of this epoch.
  std::uint64_t fast_clears_ = 0;
  std::uint64_t fast_counted_ = 0;  // tries
  std::uint64_t fast_doubted_ = 0;  // pages whose clears may have had no effect
  std::uint64_t clears_again_ = 0;  // pages in this epoch, as part of the visit before
  std::chrono::nanoseconds epoch_cpu_time_{0};
  std::optional<std::chrono::nanoseconds> visit_cpu_time_;

  View view_;
  std::vector<TablePart> parts_;
};

}  // namespace tmprof::abit
