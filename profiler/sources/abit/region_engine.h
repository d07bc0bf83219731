// SPDX-License-Identifier: Apache-2.0
// The engine that looks at one page of each region (Daptrace; driver/core/regions.h): what it costs
// is bounded by the number of regions, whatever the footprint.

#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "driver/core/ladder.h"
#include "driver/core/regions.h"
#include "profiler/complaint.h"
#include "profiler/source.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/budget.h"
#include "profiler/sources/abit/cpu_clock.h"
#include "profiler/sources/abit/engine.h"
#include "profiler/sources/abit/region_evidence.h"

namespace tmprof::abit {

// In a step, a random page of each region is looked up; where its bit is set, it is cleared by
// itself, all in one batch; reads follow at growing delays until the first access (kLadder), or one
// after the monitoring interval (kPlain). A bit that is unset already needs no clear.
//
// What is affordable decides how often there is a step: a target's share of its CPU time, and the
// scanner's own share of a CPU. An aggregation holds as many steps as it needs to tell rates apart,
// and takes at least the aggregation interval. Where that gets too long, fewer regions are kept.
class RegionEngine final : public Engine {
 public:
  RegionEngine(AbitKernel& kernel, const ScanOptions& options);

  void SetTargets(const std::vector<TrackedProcess>& processes) override;
  void SetActive(bool active) override;
  std::optional<Error> Failure() const override { return kernel_.Failure(); }
  MonotonicTime Step() override;
  // The most sampled pages become regions of their own with the next aggregation.
  void SeeSamples(const std::vector<SampleRecord>& samples) override;
  Harvest TakeEpoch() override;

 private:
  // The page that stands for a region in a step.
  struct Probe {
    Vpn page;
    PageCount unit{1};
    bool sampled = false;                // it lies in a mapping, and its entry was read
    bool cleared = false;                // its bit was set before; else that was not needed
    std::uint8_t state = 0;              // enum tmprof_unit
    std::chrono::nanoseconds cpu_at{0};  // of the target, when its bit was last known to be unset
    tmprof_tally tally{};
  };

  struct TargetState {
    explicit TargetState(std::chrono::nanoseconds tick) : clock(tick) {}
    TrackedProcess process;
    std::unique_ptr<AbitProcess> handle;  // null: it could not be opened yet
    bool gone = false;
    bool watched() const { return handle && !gone; }
    bool mappings_stale = false;  // of a program that the process ran before
    bool mappings_changed = true;
    std::optional<std::uint64_t> address_space;
    CpuClock clock;
    std::chrono::nanoseconds earned_at{0};
    tmprof_budget budget{};

    std::vector<VpnRange> mapped;  // whose memory is a program's; adjacent ones joined
    std::vector<tmprof_region> memory;
    tmprof_region_set set{};
    RegionEvidenceTable seen;           // in this epoch, by region
    std::vector<SampleRecord> samples;  // since the last aggregation

    std::vector<Probe> probes;  // of the step, by region
    bool in_step = false;
    std::uint32_t unset = 0;  // probes
    std::uint32_t rung = 0;
    bool read_since_clear = false;
    std::uint32_t tries_idle = 0;  // in a row, to begin a step while the target was on a CPU
    MonotonicTime next{};          // piece of work
    MonotonicTime began{};         // the step
    MonotonicTime cleared_at{};    // the last of the batch
    std::chrono::nanoseconds cpu_cleared{0};
    std::chrono::nanoseconds cpu_at{0};  // of the last read

    std::uint32_t steps = 0;  // of this aggregation
    MonotonicTime aggregation_began{};
  };

  struct Areas {
    std::array<tmprof_area, TMPROF_REGION_AREAS> area{};
    std::uint32_t count = 0;
  };

  std::optional<Error> Open(TargetState& target);
  void ComplainOf(const std::vector<Error>& refusals);
  bool Usable(TargetState& target, const ReadResult& read);
  void Watch(MonotonicTime now);

  void Begin(TargetState& target, MonotonicTime now);
  bool PrepareRegions(TargetState& target);
  static Areas TakeMappings(TargetState& target);
  void Pick(TargetState& target, Probe& probe, tmprof_region& region);
  bool LookUp(TargetState& target);
  bool Clear(TargetState& target);
  void Read(TargetState& target);
  void RejectUncleared(TargetState& target, const std::vector<std::uint32_t>& set_at_once);
  void ScheduleRead(TargetState& target, MonotonicTime now);
  void EndStep(TargetState& target, MonotonicTime now);
  void Aggregate(TargetState& target, MonotonicTime now);
  static void SplitAtSamples(TargetState& target);
  void FitBounds(TargetState& target, std::chrono::nanoseconds took);
  void Charge(TargetState& target, std::uint64_t points, std::uint64_t sets, std::uint64_t lines);
  void Forget(TargetState& target);

  AbitKernel& kernel_;
  ScanOptions options_;
  tmprof_ladder ladder_;
  tmprof_cost cost_;
  std::mt19937_64 engine_;
  tmprof_random random_;

  std::map<TargetId, std::unique_ptr<TargetState>> targets_;
  std::vector<RegionEvidence> departed_;  // of targets that are no longer tracked
  OwnBudget own_budget_;
  MonotonicTime next_watch_{};

  bool active_ = true;
  MonotonicTime epoch_start_;
  MonotonicTime active_since_;
  std::chrono::nanoseconds active_ns_{0};
  ScanCounts counts_;
  std::uint64_t steps_ = 0;
  std::uint64_t checked_ = 0;  // probes
  std::uint64_t aggregations_ = 0;
  Complaint pressure_;  // standing: nothing is cleared
  Complaint unopened_;
  Complaint unread_;

  std::vector<Vpn> pages_;
  std::vector<std::uint32_t> probe_of_page_;
  std::vector<PointEntry> entries_;
};

}  // namespace tmprof::abit
