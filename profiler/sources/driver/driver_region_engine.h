// SPDX-License-Identifier: Apache-2.0
// Regions that the driver looks at by a thread of its own: the engine only takes what it found.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "profiler/complaint.h"
#include "profiler/sources/abit/abit_kernel.h"
#include "profiler/sources/abit/engine.h"
#include "profiler/sources/abit/region_evidence.h"
#include "profiler/sources/driver/session.h"

namespace tmprof::driver {

// The papers' one bit per monitoring interval, whatever `options.mode` says. The driver bounds its
// time by `options.own_share` of a CPU, over all targets, and its clears by
// `options.overhead_share` of each target's CPU time at `options.cost`.
class DriverRegionEngine final : public abit::Engine {
 public:
  // Fails when the driver cannot look at regions, or refuses the parameters. `kernel` is of the
  // same session.
  static Result<std::unique_ptr<DriverRegionEngine>> Start(std::shared_ptr<Session> session,
                                                           abit::AbitKernel& kernel,
                                                           const abit::ScanOptions& options);

  void SetTargets(const std::vector<TrackedProcess>& processes) override;
  void SetActive(bool active) override;
  std::optional<Error> Failure() const override;
  MonotonicTime Step() override;
  abit::Harvest TakeEpoch() override;

 private:
  struct Target {
    TrackedProcess process;
    Session::Target held;
    // The address space that the knowledge of its memory belongs to; unset: the first one to come.
    std::optional<std::uint32_t> address_space;
    bool mappings_stale = false;
    std::uint64_t observations = 0;  // in `seen`
    abit::RegionEvidenceTable seen;
    std::size_t regions = 0;
  };

  DriverRegionEngine(std::shared_ptr<Session> session, abit::AbitKernel& kernel,
                     const abit::ScanOptions& options, const tmprof_stats& before);
  Target* Named(std::uint32_t driver_id);
  void Drain();
  void Take(std::vector<tmprof_region_record>& aggregation);
  void Deliver(Target& target);
  std::uint64_t RegionBytes() const;

  std::shared_ptr<Session> session_;
  abit::AbitKernel& kernel_;
  abit::ScanOptions options_;
  std::map<TargetId, Target> targets_;
  std::optional<Error> failure_;
  Complaint unwatched_;

  std::vector<tmprof_region_record> batch_;
  std::vector<tmprof_region_record> aggregation_;  // not all of it has come yet
  std::vector<abit::RegionEvidence> delivered_;    // evidence of targets that have left
  std::uint64_t overwritten_ = 0;                  // since the start, like the next two
  std::uint64_t records_read_ = 0;
  std::uint64_t looks_read_ = 0;  // in those records
  std::uint64_t observations_ = 0;
  std::uint64_t lost_ = 0;
  tmprof_stats before_;  // at the latest epoch's end

  bool active_ = true;
  MonotonicTime epoch_start_;
  MonotonicTime active_since_;
  std::chrono::nanoseconds active_ns_{0};
  MonotonicTime next_drain_{};
};

}  // namespace tmprof::driver
