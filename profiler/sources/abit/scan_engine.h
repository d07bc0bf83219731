// SPDX-License-Identifier: Apache-2.0
// The engine that looks at every page: which block is cleared or read when, at what price, and what
// that says about its pages.

#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "driver/core/ladder.h"
#include "profiler/complaint.h"
#include "profiler/source.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/budget.h"
#include "profiler/sources/abit/cpu_clock.h"
#include "profiler/sources/abit/engine.h"

namespace tmprof::abit {

// Not thread-safe.
class ScanEngine final : public Engine {
 public:
  ScanEngine(AbitKernel& kernel, const ScanOptions& options);

  void SetTargets(const std::vector<TrackedProcess>& processes) override;
  void SetActive(bool active) override;
  std::optional<Error> Failure() const override { return kernel_.Failure(); }
  // The longest piece of work takes about a tenth of a millisecond.
  MonotonicTime Step() override;
  Harvest TakeEpoch() override;

  // The CPU time in which the targets earn a visit to all their pages, by what pages cost in the
  // epoch taken last; nullopt: too few were visited to tell.
  std::optional<std::chrono::nanoseconds> visit_cpu_time() const { return visit_cpu_time_; }

 private:
  static constexpr std::size_t kMostUnits = 512;
  using UnitSet = std::bitset<kMostUnits>;

  struct Block {
    TargetId target;
    VpnRange range;
    PageCount unit{1};

    bool dropped = false;
    bool open = false;       // cleared, and watched since
    bool in_ladder = false;  // with a read to come
    bool seen = false;       // in this epoch, as it cannot be cleared
    std::uint64_t visited_in_rotation = 0;
    MonotonicTime unclearable_until{};

    // Of the open exposure.
    std::vector<std::uint8_t> units;  // enum tmprof_unit
    UnitSet set_before;               // at the clear
    UnitSet settled;                  // outlives the exposure
    std::uint32_t in_view = 0;
    std::uint32_t set = 0;
    std::uint32_t set_before_count = 0;
    std::uint32_t rung = 0;
    std::uint32_t generation = 0;
    bool read_since_clear = false;
    MonotonicTime cleared_at;
    MonotonicTime read_at;
    std::chrono::nanoseconds cpu_cleared{0};
    std::chrono::nanoseconds cpu_at{0};  // of the last read
    std::uint32_t idle_reads = 0;        // in a row, that found the target had not run
    std::int64_t reserved_ns = 0;

    std::vector<UnitRecord> records;  // of this epoch; empty: none

    std::size_t unit_count() const { return range.size().value() / unit.value(); }
    // A giant page is hugetlb, or device memory that a clear would split.
    bool Clearable(MonotonicTime now) const {
      return unit != kGiantPages && unclearable_until <= now;
    }
    bool WorthATurn(MonotonicTime now) const { return !dropped && (!seen || Clearable(now)); }
  };
  using BlockPtr = std::shared_ptr<Block>;

  struct Plan {
    bool running = false;
    Vpn at;  // all below is planned
    std::vector<BlockPtr> blocks;
    std::vector<HugeSpan> huge;
    std::vector<Vpn> run;  // adjacent huge pages not yet made a block
  };

  struct TargetState {
    explicit TargetState(std::chrono::nanoseconds tick) : clock(tick) {}
    TrackedProcess process;
    std::unique_ptr<AbitProcess> handle;  // null: it could not be opened yet
    bool gone = false;
    bool watched() const { return handle && !gone; }
    bool mappings_stale = false;
    MonotonicTime refused_until{};  // nothing is cleared before
    std::optional<std::uint64_t> address_space;
    CpuClock clock;
    std::chrono::nanoseconds earned_at{0};
    tmprof_budget budget{};
    std::uint32_t tries_idle = 0;  // in a row, to clear while the target was on a CPU
    double reset_share = 1;        // of the bits set at a clear, those set again within the ladder
    std::vector<BlockPtr> blocks;  // ascending
    std::vector<BlockPtr> remaining;  // of this rotation, last one next
    std::uint64_t rotation = 1;
    std::vector<HugeSpan> huge;
    Plan plan;
  };

  struct Due {
    MonotonicTime time;
    std::chrono::nanoseconds slack;  // by which it may come early
    BlockPtr block;
    std::uint32_t generation;
    bool operator<(const Due& other) const { return other.time < time; }
  };

  // What a read showed of a block, by unit.
  struct View {
    std::array<std::uint8_t, kMostUnits> present{};
    std::array<std::uint8_t, kMostUnits> accessed{};
    std::array<std::uint64_t, kMostUnits> frame{};
    std::uint32_t present_count = 0;
    std::uint32_t accessed_count = 0;
    bool shape_changed = false;  // a huge page where base pages were, or the reverse
  };

  TargetState* Find(TargetId id);
  std::optional<Error> Open(TargetState& target);
  void ComplainOf(const std::vector<Error>& refusals);
  void ComplainOfRead(const TargetState& target, const ReadResult& read);
  void ComplainOfClear(const TargetState& target);
  void SettleRefused();
  const tmprof_ladder& LadderOf(const Block& block) const;
  void DropStaleDues();
  void Watch(MonotonicTime now);
  std::string TakeNote();

  TargetState* NextToPlan();
  void PlanSome(TargetState& target);
  void PlanParts(TargetState& target, const Mapping& mapping);
  static void AddBlock(TargetState& target, VpnRange range, PageCount unit);
  void FlushRun(TargetState& target);
  void FinishPlan(TargetState& target);
  void Shuffle(std::vector<BlockPtr>& blocks);

  void Earn(TargetState& target);
  BlockPtr NextBlock(TargetState& target, MonotonicTime now);
  void ClearSomething(MonotonicTime now);
  std::vector<BlockPtr> RunAround(TargetState& target, const BlockPtr& block, MonotonicTime now);
  void See(TargetState& target, const BlockPtr& block);
  bool LookBeforeClear(TargetState& target, const BlockPtr& block);
  bool Visit(TargetState& target, const BlockPtr& block, MonotonicTime now);
  bool Clear(TargetState& target, const std::vector<BlockPtr>& run);
  void PrepareExposure(Block& block);
  void ReadDue(const BlockPtr& block);
  std::optional<ReadResult> Read(TargetState& target, Block& block);
  void Expand(const Block& block);
  std::vector<UnitRecord>& RecordsOf(const BlockPtr& block);
  void Fold(TargetState& target, const BlockPtr& block, const ReadResult& read);
  void RejectUncleared(TargetState& target, const BlockPtr& block);
  void OpenExposure(TargetState& target, const BlockPtr& block, MonotonicTime cleared,
                    std::chrono::nanoseconds cpu);
  std::chrono::nanoseconds Exposed(const Block& block) const;
  void ScheduleNextRead(TargetState& target, const BlockPtr& block, MonotonicTime now);
  void EndLadder(TargetState& target, Block& block);
  void Charge(TargetState& target, Block& block, std::uint64_t sets, std::uint64_t lines);
  void Release(TargetState& target, Block& block);
  void Drop(TargetState& target, Block& block);
  void DropAll(TargetState& target);
  void Replaced(TargetState& target, std::uint64_t address_space);
  void VoidEvidence(const TargetState& target);

  AbitKernel& kernel_;
  ScanOptions options_;
  tmprof_ladder base_ladder_;
  tmprof_ladder huge_ladder_;
  tmprof_cost cost_;
  std::mt19937_64 random_;

  std::map<TargetId, std::unique_ptr<TargetState>> targets_;
  std::size_t turn_ = 0;             // among the targets, to clear
  std::optional<TargetId> planned_;  // the last that had its turn
  bool plans_turn_ = true;           // and not a clear's, where both are due
  std::priority_queue<Due> dues_;
  std::vector<BlockPtr> touched_;  // with records, or seen
  MonotonicTime next_clear_{};
  MonotonicTime next_watch_{};
  OwnBudget own_budget_;

  bool active_ = true;
  MonotonicTime epoch_start_;
  MonotonicTime active_since_;
  std::chrono::nanoseconds active_ns_{0};
  ScanCounts counts_;
  std::optional<std::chrono::nanoseconds> visit_cpu_time_;
  Complaint pressure_;  // standing: nothing is cleared
  Complaint unopened_;
  Complaint unread_;
  Complaint refused_;  // standing: nothing of some target is cleared

  View view_;
  std::vector<TablePart> parts_;
};

}  // namespace tmprof::abit
