// SPDX-License-Identifier: Apache-2.0
// Address samples that the driver takes, counts by page and gates.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "profiler/complaint.h"
#include "profiler/probe.h"
#include "profiler/source.h"
#include "profiler/source_kind.h"
#include "profiler/sources/driver/device.h"
#include "profiler/sources/driver/module_probe.h"
#include "profiler/sources/driver/session.h"
#include "profiler/sources/perf/hardware_events.h"

namespace tmprof::driver {

// Against the perf sampler: no ring and no descriptor per thread and CPU, pages counted in the
// kernel, with the huge page and the node that hold them; a child is sampled from when it is a
// target, not from its fork. A session of the driver's samples one event, so there is one for each.
class DriverSampler final : public Source {
 public:
  // The event that switches the sampler in the driver. The sampler is on while the count of the
  // last period is above a fifth of the largest count so far.
  struct Gate {
    NamedEvent event;
    std::chrono::nanoseconds period = std::chrono::milliseconds(100);
  };

  // Sampling has begun. Fails where the driver or perf refuses one of the events.
  static Result<std::unique_ptr<DriverSampler>> Open(const DeviceOpener& open_device,
                                                     HardwareSetup setup, std::optional<Gate> gate);

  std::string_view name() const override { return kind_.name; }
  SourceRole role() const override { return SourceRole::kSamples; }
  Status SetTargets(const std::vector<TrackedProcess>& targets) override;
  void SetActive(bool active) override;
  SourceEpoch TakeEpoch() override;

 private:
  // One event.
  struct Counter {
    std::shared_ptr<Session> session;
    std::map<TargetId, Session::Target> targets;
    // Not wanted any more; the driver would forget with them what it has counted in this epoch.
    std::vector<Session::Target> leaving;
    std::map<std::uint32_t, TargetId> named;  // key: the driver's number
    tmprof_stats last{};
  };
  struct EpochSum;

  DriverSampler(const HardwareSetup& setup, std::vector<Counter> counters,
                std::optional<Gate> gate);
  static Result<Counter> Start(const DeviceOpener& open_device, const NamedEvent& event,
                               bool only_misses, const std::optional<Gate>& gate);
  // The refusals that do not concern the driver as a whole go into the complaint.
  Status Follow(Counter& counter, const std::vector<TrackedProcess>& targets);
  Status Take(Counter& counter, SourceEpoch& epoch, EpochSum& sum);
  std::string GateNote() const;

  SourceKind kind_;
  std::optional<std::uint64_t> accesses_per_sample_;
  std::vector<Counter> counters_;
  std::optional<Gate> gate_;
  std::optional<Error> failure_;
  std::vector<tmprof_page_record> batch_;
  Complaint unfollowed_;
};

// Probe for doctor; `setup` is the result of FindSamplingHardware().
Probe ProbeDriverSampler(const Places& places, const Result<HardwareSetup>& setup);

}  // namespace tmprof::driver
