// SPDX-License-Identifier: Apache-2.0
// Which hardware can sample data addresses, and how it is asked.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "profiler/source_kind.h"
#include "profiler/sources/perf/perf_api.h"
#include "profiler/sources/perf/task_events.h"

namespace tmprof {

// Micro-operations between two samples at rate 1x (TMP, IPDPS 2021).
inline constexpr std::uint64_t kDefaultSamplePeriod = 262'144;

// --sample-rate.
enum class SampleRate : std::uint8_t { k1x = 1, k4x = 4, k8x = 8 };
Result<SampleRate> ParseSampleRate(std::string_view text);
constexpr std::uint64_t PeriodOf(SampleRate rate) {
  return kDefaultSamplePeriod / static_cast<std::uint64_t>(rate);
}

// Encodes an event of the host's core PMU by name.
using EventEncoder = std::function<Result<perf_event_attr>(const std::string& name)>;
// libpfm4, user mode only.
Result<perf_event_attr> EncodeWithPfm(const std::string& name);

inline constexpr const char* kPmuDevices = "/sys/bus/event_source/devices";

// An event as its PMU's folder describes it: `devices`/PMU/events/NAME, "config=0x1,config1=0x2"
// (Documentation/ABI/testing/sysfs-bus-event_source-devices-events; fields by their name in
// perf_event_attr only).
Result<perf_event_attr> ReadPmuEvent(const std::filesystem::path& devices, const std::string& pmu,
                                     const std::string& name);

struct HardwareSetup {
  SourceKind kind;
  std::vector<TaskEvents::Event> events;
};

// AMD IBS op sampling, described by `devices`/ibs_op (Documentation/ABI, "event_source/devices"):
// a PMU's existence there is the evidence, not that an event opens.
Result<HardwareSetup> FindIbs(const std::filesystem::path& devices, SampleRate rate);
// Intel PEBS loads and stores, where `devices`/cpu/caps/max_precise is above 0.
Result<HardwareSetup> FindPebs(const std::filesystem::path& devices, const EventEncoder& encode,
                               SampleRate rate);
// The testbed's virtual PMU, `devices`/vibs_op: its event mem-samples.
Result<HardwareSetup> FindVirtual(const std::filesystem::path& devices, SampleRate rate);

// The first of these three that is there; the error is PEBS'. None is tried.
Result<HardwareSetup> FindSamplingHardware(const std::filesystem::path& devices,
                                           const EventEncoder& encode, SampleRate rate);

// Where there is a virtual PMU, what it counts: perf::LLC-LOAD-MISSES is its event
// llc-load-misses, and so on. All else is left to `otherwise`.
EventEncoder WithVirtualPmu(const std::filesystem::path& devices, EventEncoder otherwise);

}  // namespace tmprof
