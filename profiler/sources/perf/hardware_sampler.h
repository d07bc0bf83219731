// SPDX-License-Identifier: Apache-2.0
// Address samples from AMD IBS or Intel PEBS through perf_event_open(2).

#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "driver/core/sample_decode.h"
#include "profiler/probe.h"
#include "profiler/source_kind.h"
#include "profiler/sources/perf/hardware_events.h"
#include "profiler/sources/perf/perf_api.h"
#include "profiler/sources/perf/perf_sampler.h"
#include "profiler/sources/perf/task_events.h"

namespace tmprof {

// Only demand accesses served from beyond the last-level cache count (TMP, IPDPS 2021). Not run on
// hardware yet: decoding follows include/uapi/linux/perf_event.h.
class HardwareSampler final : public PerfSampler {
 public:
  // Fails where the kernel refuses one of the events. `api` and `clock` outlive the sampler.
  static Result<std::unique_ptr<HardwareSampler>> Create(PerfApi& api, const Clock& clock,
                                                         HardwareSetup setup);

 private:
  struct Counts {
    std::uint64_t counted = 0;
    std::uint64_t cache = 0;
    std::uint64_t not_demand = 0;
    std::uint64_t uncached = 0;
    std::uint64_t unknown_source = 0;
    std::uint64_t no_address = 0;
  };

  HardwareSampler(const Clock& clock, const HardwareSetup& setup, TaskEvents events);

  void HandleSample(const PerfSample& sample) override;
  void TakeCounts(SourceStatus& status) override;
  // A sample that does not count, by where its data came from.
  void CountOther(tmprof_data_source source);

  bool only_misses_;
  std::optional<std::uint64_t> accesses_per_sample_;
  Counts counts_;
};

// Probes for doctor: one entry for IBS, one for PEBS, and one for a virtual PMU if there is one.
std::vector<Probe> ProbeHardware(PerfApi& api, const std::filesystem::path& devices = kPmuDevices);

// The setup that this machine has, and the kernel grants, for `kind`, a hardware sampler's.
Result<HardwareSetup> FindHardware(PerfApi& api, const SourceKind& kind, SampleRate rate,
                                   const std::filesystem::path& devices = kPmuDevices);

}  // namespace tmprof
