// SPDX-License-Identifier: Apache-2.0
// Which hardware can sample data addresses, and how it is asked.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "profiler/source_kind.h"
#include "profiler/sources/perf/perf_api.h"
#include "profiler/sources/perf/task_events.h"

namespace tmprof {

// --sample-rate.
enum class SampleRate : std::uint8_t { k1x = 1, k4x = 4, k8x = 8 };
Result<SampleRate> ParseSampleRate(std::string_view text);

// Accesses to memory between two samples, of samplers whose every sample is one. This is a choice:
// programs that missed 1.3 to 4.1 million times in a second of CPU time in the virtual machine
// (bench/results/memory.md) got 80 to 250 samples at 1x, so that the 300 that a rank by memory
// wants (docs/design/hit-rates.md) take 1 to 4 s. One that misses 100 million times would get 6100.
// The period is fixed: with a frequency instead, a sample would stand for a number of accesses that
// differs by target and by time.
constexpr std::uint64_t MissPeriod(SampleRate rate) {
  return 16'384 / static_cast<std::uint64_t>(rate);
}
// The largest prime below MissPeriod(), for hardware that does not vary its periods. With a power
// of two, a loop that misses a multiple of it would have the same lines sampled in each turn.
constexpr std::uint64_t PrimeMissPeriod(SampleRate rate) {
  switch (rate) {
    case SampleRate::k1x:
      return 16'381;
    case SampleRate::k4x:
      return 4'093;
    case SampleRate::k8x:
      return 2'039;
  }
  return 16'381;
}
// Operations between two samples, of samplers that take any operation and drop those that a cache
// served (TMP, IPDPS 2021).
constexpr std::uint64_t OperationPeriod(SampleRate rate) {
  return 262'144 / static_cast<std::uint64_t>(rate);
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
  // The events sample nothing but accesses that missed the last-level cache: a sample that does not
  // say where its data came from is one. A sample of another event may be a hit.
  bool only_misses = false;
  std::optional<std::uint64_t> accesses_per_sample;  // SourceStatus
};

// For people: "1 of 16384 accesses to memory".
std::string SampledShare(const HardwareSetup& setup);

// AMD IBS op sampling, described by `devices`/ibs_op (Documentation/ABI, "event_source/devices"):
// a PMU's existence there is the evidence, not that an event opens. Operations that missed the L3,
// where the hardware can discard the others (Zen 4 on), else all operations.
Result<HardwareSetup> FindIbs(const std::filesystem::path& devices, SampleRate rate);
// Intel PEBS, where `devices`/cpu/caps/max_precise is above 0. Loads that missed the L3 (Haswell
// on), else all loads and stores.
Result<HardwareSetup> FindPebs(const std::filesystem::path& devices, const EventEncoder& encode,
                               SampleRate rate);
// The testbed's virtual PMU, `devices`/vibs_op: its event llc-misses, else mem-samples.
Result<HardwareSetup> FindVirtual(const std::filesystem::path& devices, SampleRate rate);

// The first of these three that is there; the error is PEBS'. None is tried.
Result<HardwareSetup> FindSamplingHardware(const std::filesystem::path& devices,
                                           const EventEncoder& encode, SampleRate rate);

// Uses the events of the virtual PMU if there is one: perf::LLC-LOAD-MISSES is its event
// llc-load-misses, and so on. All else is left to `otherwise`.
EventEncoder WithVirtualPmu(const std::filesystem::path& devices, EventEncoder otherwise);

}  // namespace tmprof
