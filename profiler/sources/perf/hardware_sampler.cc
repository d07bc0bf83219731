// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/hardware_sampler.h"

#include <unistd.h>
#include <algorithm>

#include <cerrno>
#include <string_view>
#include <utility>

#include "driver/core/sample_decode.h"

namespace tmprof {
namespace {

constexpr std::string_view kIbs = "ibs";
constexpr std::size_t kRingBytes =
    512 * 1024;  // all that kernel.perf_event_mlock_kb gives, 516 KiB

Status TryOnSelf(PerfApi& api, const HardwareSetup& setup) {
  for (const TaskEvents::Event& event : setup.events) {
    NamedEvent probe = event.event;
    probe.attr.size = sizeof probe.attr;
    probe.attr.disabled = 1;
    auto fd = OpenEvent(api, probe, Tid(::gettid()), std::nullopt);
    if (!fd && setup.name == kIbs && fd.error().system_error == EINVAL) {
      // arch/x86/events/amd/ibs.c: before, the PMU had no task context.
      fd.error().advice = "IBS can be bound to a process from Linux 6.2 on";
    }
    if (!fd) return std::unexpected(fd.error());
  }
  return {};
}

Result<HardwareSetup> Tried(PerfApi& api, Result<HardwareSetup> setup) {
  if (!setup) return setup;
  if (const Status opened = TryOnSelf(api, *setup); !opened) return std::unexpected(opened.error());
  return setup;
}

}  // namespace

Result<std::unique_ptr<HardwareSampler>> HardwareSampler::Create(PerfApi& api, const Clock& clock,
                                                                 HardwareSetup setup) {
  if (const Status opened = TryOnSelf(api, setup); !opened) return std::unexpected(opened.error());
  auto events = TaskEvents::Create(api, std::move(setup.events), kRingBytes);
  if (!events) return std::unexpected(events.error());
  return std::unique_ptr<HardwareSampler>(new HardwareSampler(
      clock, std::move(setup.name), std::move(setup.label), std::move(*events)));
}

HardwareSampler::HardwareSampler(const Clock& clock, std::string name, std::string label,
                                 TaskEvents events)
    : clock_(&clock),
      name_(std::move(name)),
      label_(std::move(label)),
      events_(std::move(events)),
      epoch_start_(clock.Now()),
      active_since_(epoch_start_) {}

Status HardwareSampler::SetTargets(const std::vector<TrackedProcess>& targets) {
  std::vector<Pid> wanted;
  for (const TrackedProcess& target : targets) wanted.push_back(target.pid);
  table_.SetTargets(targets);
  const Status followed =
      events_.Follow(wanted, [this](const PerfRecord& record) { Handle(record); });
  if (followed) return {};
  if (!events_.HasEvents()) return followed;
  attach_note_ = followed.error().Message();
  return {};
}

void HardwareSampler::AccountActiveTime() {
  const MonotonicTime now = clock_->Now();
  if (active_) active_time_ += now - active_since_;
  active_since_ = now;
}

void HardwareSampler::SetActive(bool active) {
  if (active == active_) return;
  AccountActiveTime();
  active_ = active;
  events_.SetEnabled(active);
}

void HardwareSampler::Service() {
  events_.Drain([this](const PerfRecord& record) { Handle(record); });
}

void HardwareSampler::Handle(const PerfRecord& record) {
  if (const auto* sample = std::get_if<PerfSample>(&record)) {
    Handle(*sample);
  } else if (const auto* lost = std::get_if<PerfLost>(&record)) {
    counts_.lost += lost->count;
  } else if (std::holds_alternative<PerfThrottle>(record)) {
    ++counts_.throttled;
  }
}

void HardwareSampler::Handle(const PerfSample& sample) {
  switch (tmprof_decode_data_source(*sample.data_source)) {
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
  // The kernel leaves the address 0 where the hardware had none; the upper half is the kernel's own
  // memory (arch/x86, Documentation/arch/x86/x86_64/mm.rst).
  constexpr std::uint64_t kKernelHalf = std::uint64_t{1} << 63;
  if (*sample.address == 0 || *sample.address >= kKernelHalf) {
    ++counts_.no_address;
    return;
  }
  ++counts_.counted;
  table_.Add(
      sample.process, VpnOfAddress(*sample.address),
      tmprof_data_src_is_store(*sample.data_source) ? AccessKind::kStore : AccessKind::kLoad);
}

SourceEpoch HardwareSampler::TakeEpoch() {
  Service();
  AccountActiveTime();
  const MonotonicTime now = active_since_;
  SampleTable::Taken taken = table_.Take();
  const Counts counts = std::exchange(counts_, {});
  SourceEpoch epoch;
  epoch.samples = std::move(taken.samples);
  SourceStatus& status = epoch.status;
  status.name = name_;
  status.label = label_;
  status.role = SourceRole::kSamples;
  status.state = active_ || active_time_.count() > 0 ? SourceState::kActive : SourceState::kGated;
  if (now > epoch_start_) {
    // A quotient of equal times may round to above 1.
    status.duty_cycle =
        std::min(1.0, std::chrono::duration<double>(active_time_) / (now - epoch_start_));
  }
  status.observations = counts.counted;
  status.lost = counts.lost;
  const std::uint64_t corrupt = events_.corrupt_bytes();
  status.details = {{"served_by_cache", counts.cache},
                    {"not_demand", counts.not_demand},
                    {"uncached", counts.uncached},
                    {"unknown_source", counts.unknown_source},
                    {"no_address", counts.no_address},
                    {"unknown_process", taken.unknown_process},
                    {"throttled", counts.throttled},
                    {"corrupt_bytes", corrupt - std::exchange(corrupt_bytes_before_, corrupt)}};
  status.note = attach_note_;
  epoch_start_ = now;
  active_time_ = std::chrono::nanoseconds(0);
  return epoch;
}

Result<HardwareSetup> FindHardware(PerfApi& api, SampleRate rate,
                                   const std::filesystem::path& devices) {
  if (auto ibs = Tried(api, FindIbs(devices, rate)); ibs) return ibs;
  return Tried(api, FindPebs(devices, EncodeWithPfm, rate));
}

std::vector<Probe> ProbeHardware(PerfApi& api, const std::filesystem::path& devices) {
  std::vector<Probe> probes;
  const auto add = [&](const char* name, Result<HardwareSetup> setup) {
    const auto tried = Tried(api, std::move(setup));
    Probe probe{.name = name,
                .job = ProbeJob::kAddressSamples,
                .usable = tried.has_value(),
                .label = {},
                .system_error = std::nullopt,
                .detail = {},
                .fix = {}};
    if (tried) {
      probe.label = tried->label;
      probe.detail = "opened on own thread";
    } else {
      probe.system_error = tried.error().system_error;
      probe.detail = tried.error().Fact();
      probe.fix = tried.error().advice;
    }
    probes.push_back(std::move(probe));
  };
  add("ibs", FindIbs(devices, SampleRate::k1x));
  add("pebs", FindPebs(devices, EncodeWithPfm, SampleRate::k1x));
  return probes;
}

}  // namespace tmprof
