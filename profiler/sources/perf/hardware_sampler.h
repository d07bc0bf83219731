// SPDX-License-Identifier: Apache-2.0
// Address samples from AMD IBS or Intel PEBS through perf_event_open(2).

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "profiler/probe.h"
#include "profiler/source.h"
#include "profiler/sources/perf/hardware_events.h"
#include "profiler/sources/perf/perf_api.h"
#include "profiler/sources/perf/sample_table.h"
#include "profiler/sources/perf/task_events.h"

namespace tmprof {

// Only demand accesses served from beyond the last-level cache count (TMP, IPDPS 2021). Not run on
// hardware yet: decoding follows include/uapi/linux/perf_event.h.
class HardwareSampler final : public Source {
 public:
  // Fails where the kernel refuses one of the events. `api` and `clock` outlive the sampler.
  static Result<std::unique_ptr<HardwareSampler>> Create(PerfApi& api, const Clock& clock,
                                                         HardwareSetup setup);

  std::string_view name() const override { return name_; }
  SourceRole role() const override { return SourceRole::kSamples; }
  Status SetTargets(const std::vector<TrackedProcess>& targets) override;
  void SetActive(bool active) override;
  std::vector<int> PollFds() const override { return events_.RingFds(); }
  void Service() override;
  SourceEpoch TakeEpoch() override;

 private:
  struct Counts {
    std::uint64_t counted = 0;
    std::uint64_t lost = 0;
    std::uint64_t throttled = 0;
    std::uint64_t cache = 0;
    std::uint64_t not_demand = 0;
    std::uint64_t uncached = 0;
    std::uint64_t unknown_source = 0;
    std::uint64_t no_address = 0;
  };

  HardwareSampler(const Clock& clock, std::string name, std::string label, TaskEvents events);

  void Handle(const PerfRecord& record);
  void Handle(const PerfSample& sample);
  void AccountActiveTime();

  const Clock* clock_;
  std::string name_;
  std::string label_;
  TaskEvents events_;
  SampleTable table_;
  bool active_ = true;
  MonotonicTime epoch_start_;
  MonotonicTime active_since_;
  std::chrono::nanoseconds active_time_{0};
  Counts counts_;
  std::uint64_t corrupt_bytes_before_ = 0;
  std::string attach_note_;
};

// What doctor says: one entry for IBS, one for PEBS.
std::vector<Probe> ProbeHardware(
    PerfApi& api, const std::filesystem::path& devices = "/sys/bus/event_source/devices");

// The best that this machine has: IBS, else PEBS. The error is that of the one it should have had.
Result<HardwareSetup> FindHardware(
    PerfApi& api, SampleRate rate,
    const std::filesystem::path& devices = "/sys/bus/event_source/devices");

}  // namespace tmprof
