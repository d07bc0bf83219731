// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/hardware_sampler.h"

#include <cerrno>
#include <string>
#include <utility>

namespace tmprof {
namespace {

Status TryAllOnSelf(PerfApi& api, const HardwareSetup& setup) {
  for (const TaskEvents::Event& event : setup.events) {
    Status opened = TryOnSelf(api, event.event);
    if (!opened && setup.kind.name == kIbsSource.name && opened.error().system_error == EINVAL) {
      // arch/x86/events/amd/ibs.c: before, the PMU had no task context.
      opened.error().advice = "IBS can be bound to a process from Linux 6.2 on";
    }
    if (!opened) return opened;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<HardwareSampler>> HardwareSampler::Create(PerfApi& api, const Clock& clock,
                                                                 HardwareSetup setup) {
  if (const Status opened = TryAllOnSelf(api, setup); !opened)
    return std::unexpected(opened.error());
  auto events = TaskEvents::Create(api, std::move(setup.events), kRingBytes);
  if (!events) return std::unexpected(events.error());
  return std::unique_ptr<HardwareSampler>(new HardwareSampler(clock, setup, std::move(*events)));
}

HardwareSampler::HardwareSampler(const Clock& clock, const HardwareSetup& setup, TaskEvents events)
    : PerfSampler(clock, setup.kind, std::move(events)),
      only_misses_(setup.only_misses),
      accesses_per_sample_(setup.accesses_per_sample) {}

void HardwareSampler::HandleSample(const PerfSample& sample) {
  const tmprof_data_source source = tmprof_decode_data_source(*sample.data_source);
  if (!tmprof_beyond_llc(source, only_misses_)) {
    CountOther(source);
    return;
  }
  // The kernel leaves the address 0 where the hardware had none; the upper half is the kernel's own
  // memory (arch/x86, Documentation/arch/x86/x86_64/mm.rst).
  constexpr std::uint64_t kKernelHalf = std::uint64_t{1} << 63;
  if (*sample.address == 0 || *sample.address >= kKernelHalf) {
    ++counts_.no_address;
    return;
  }
  ++counts_.counted;
  Count(sample.process, *sample.address,
        tmprof_data_src_is_store(*sample.data_source) ? AccessKind::kStore : AccessKind::kLoad);
}

void HardwareSampler::CountOther(tmprof_data_source source) {
  switch (source) {
    case TMPROF_SOURCE_NOT_DEMAND:
      ++counts_.not_demand;
      return;
    case TMPROF_SOURCE_CACHE:
      ++counts_.cache;
      return;
    case TMPROF_SOURCE_UNCACHED:
      ++counts_.uncached;
      return;
    case TMPROF_SOURCE_UNKNOWN:
      ++counts_.unknown_source;
      return;
    case TMPROF_SOURCE_LOCAL_MEMORY:
    case TMPROF_SOURCE_REMOTE_MEMORY:
      break;
  }
}

void HardwareSampler::TakeCounts(SourceStatus& status) {
  const Counts counts = std::exchange(counts_, {});
  status.observations = counts.counted;
  status.accesses_per_sample = accesses_per_sample_;
  status.details = {{"served_by_cache", counts.cache},
                    {"not_demand", counts.not_demand},
                    {"uncached", counts.uncached},
                    {"unknown_source", counts.unknown_source},
                    {"no_address", counts.no_address}};
}

Result<HardwareSetup> FindHardware(PerfApi& api, const SourceKind& kind, SampleRate rate,
                                   const std::filesystem::path& devices) {
  auto setup = kind.name == kIbsSource.name          ? FindIbs(devices, rate)
               : kind.name == kVirtualPmuSource.name ? FindVirtual(devices, rate)
                                                     : FindPebs(devices, EncodeWithPfm, rate);
  if (!setup) return setup;
  if (const Status opened = TryAllOnSelf(api, *setup); !opened)
    return std::unexpected(opened.error());
  return setup;
}

std::vector<Probe> ProbeHardware(PerfApi& api, const std::filesystem::path& devices) {
  std::vector<Probe> probes;
  for (const SourceKind& kind : {kIbsSource, kVirtualPmuSource, kPebsSource}) {
    // Nobody misses it where it is not.
    if (kind.name == kVirtualPmuSource.name && !FindVirtual(devices, SampleRate::k1x)) continue;
    const auto found = FindHardware(api, kind, SampleRate::k1x, devices);
    probes.push_back(found ? Usable(kind, "opened on own thread: " + SampledShare(*found))
                           : Unusable(kind, found.error()));
  }
  return probes;
}

}  // namespace tmprof
