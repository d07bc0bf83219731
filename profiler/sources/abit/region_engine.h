// SPDX-License-Identifier: Apache-2.0
// The engine that looks at one page of each region (Daptrace; driver/core/regions.h): what it costs
// is bounded by the number of regions, whatever the footprint.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "base/units.h"
#include "driver/core/ladder.h"
#include "driver/core/regions.h"
#include "profiler/source.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/engine.h"
#include "profiler/sources/abit/region_target.h"
#include "profiler/sources/abit/targeted_engine.h"

namespace tmprof::abit {

// In a step, a random page of each region is looked up; where its bit is set, it is cleared by
// itself, some pages at a time, so that writers of the target's mmap_lock get their turn; reads
// follow at growing delays until the first access (kLadder), or one after the monitoring interval
// (kPlain). A bit that is unset already needs no clear.
//
// Two budgets decide how often there is a step: a target's share of its CPU time, and the scanner's
// own share of a CPU. An aggregation holds as many steps as it needs to tell rates apart, and takes
// at least the aggregation interval. Where budgets make that too long, fewer regions are kept.
class RegionEngine final : public TargetedEngine<RegionTarget> {
 public:
  RegionEngine(AbitKernel& kernel, const ScanOptions& options);

  MonotonicTime Step() override;
  // The most sampled pages become regions of their own with the next aggregation.
  void SeeSamples(const std::vector<SampleRecord>& samples) override;
  Harvest TakeEpoch() override;

 private:
  struct Areas {
    std::array<tmprof_area, TMPROF_REGION_AREAS> area{};
    std::uint32_t count = 0;
  };

  void Refresh(RegionTarget& target, bool mappings_changed) override;
  void Leave(RegionTarget& target) override;
  void Pause(RegionTarget& target) override;
  bool Usable(RegionTarget& target, const ReadResult& read);
  void AbandonStep(RegionTarget& target);
  void Fold(RegionTarget& target);
  void TakeEvidence(RegionTarget& target, std::vector<RegionEvidence>& out);

  void Begin(RegionTarget& target, MonotonicTime now);
  bool PrepareRegions(RegionTarget& target, MonotonicTime now);
  static Areas TakeMappings(RegionTarget& target);
  static RegionMapping* MappingOf(RegionTarget& target, Vpn page);
  void Pick(RegionTarget& target, RegionProbe& probe, tmprof_region& region);
  static bool Clearable(RegionTarget& target, const RegionProbe& probe, MonotonicTime now);
  bool LookUp(RegionTarget& target);
  void PlanClears(RegionTarget& target);
  bool KeepUnchanged(RegionTarget& target, std::vector<RegionClear>& batch);
  template <typename Do>
  static void ForProbesOf(RegionTarget& target, const RegionClear& clear, Do act);
  void CountLost(RegionTarget& target, const RegionClear& clear);
  void LeaveUnclearable(RegionTarget& target, RegionMapping& mapping, MonotonicTime now);
  void ClearSome(RegionTarget& target);
  void Read(RegionTarget& target);
  void RejectUncleared(RegionTarget& target, const std::vector<std::uint32_t>& set_at_once);
  void CountUnset(RegionTarget& target);
  void Proceed(RegionTarget& target, MonotonicTime now);
  void EndStep(RegionTarget& target, MonotonicTime now);
  void Aggregate(RegionTarget& target, MonotonicTime now);
  void Charge(RegionTarget& target, std::uint64_t points);
  void Forget(RegionTarget& target);

  tmprof_ladder ladder_;
  std::mt19937_64 engine_;
  tmprof_random random_;

  std::vector<RegionEvidence> departed_;  // evidence of targets that are no longer tracked
  std::uint64_t steps_ = 0;
  std::uint64_t checked_ = 0;       // pages, each once, of steps that were finished
  std::uint64_t entries_read_ = 0;  // reads of their entries, repeats included
  std::uint64_t aggregations_ = 0;

  std::vector<Vpn> pages_;
  std::vector<std::uint32_t> probe_of_page_;
  std::vector<PointEntry> entries_;
};

}  // namespace tmprof::abit
