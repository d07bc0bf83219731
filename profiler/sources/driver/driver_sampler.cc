// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/driver/driver_sampler.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "driver/core/gate.h"
#include "driver/core/params_check.h"

namespace tmprof::driver {
namespace {

constexpr std::size_t kSamplesPerRead = 1024;

// The driver's form of an event of perf_event_open(2). `flags` are those of the use.
tmprof_event EventOf(const perf_event_attr& attr, std::uint32_t flags) {
  tmprof_event event{};
  event.type = attr.type;
  event.flags = TMPROF_EVENT_PRESENT | flags;
  if (attr.exclude_kernel) event.flags |= TMPROF_EVENT_EXCLUDE_KERNEL;
  event.config = attr.config;
  event.config1 = attr.config1;
  event.config2 = attr.config2;
  return event;
}

Error NotSampled(const NamedEvent& event, int system_error) {
  const char* advice = "";
  if (system_error == ENOENT || system_error == EOPNOTSUPP || system_error == EINVAL)
    advice = "this machine's PMU does not sample such an event";
  // x86_pmu.flags & PMU_FL_MEM_LOADS_AUX, arch/x86/events/intel/core.c, intel_pmu_hw_config().
  if (system_error == ENODATA)
    advice = "this CPU samples loads only in a group of two events, which tmprof does not make";
  if (system_error == EBUSY) advice = "another user of the PMU has it: 'perf list', 'perf stat'";
  return Refused("have the driver sample", event.name, system_error, advice);
}

// True if the error concerns this one process: it has gone, or there are too many.
bool OfTheTarget(int error) {
  return error == ESRCH || error == EEXIST || error == ENOSPC || error == EINVAL || error == ENOMEM;
}

Error SamplesUnreadable(int error) {
  return Refused("sample through the driver", TMPROF_DEVICE_PATH, error,
                 "the kernel's log may say more; without --source driver, perf samples it");
}

}  // namespace

struct DriverSampler::EpochSum {
  std::uint64_t counted = 0;
  std::uint64_t lost = 0;
  std::uint64_t active_ns = 0;
  std::uint64_t length_ns = 0;
  std::uint64_t cache = 0;
  std::uint64_t not_demand = 0;
  std::uint64_t unknown_source = 0;
  std::uint64_t no_address = 0;
  std::uint64_t other_processes = 0;
  std::uint64_t unmapped = 0;
  std::uint64_t unresolved = 0;
  std::uint64_t guest = 0;
  std::uint64_t throttled = 0;
  std::uint64_t saturated_pages = 0;
  std::uint64_t cpus_failed = 0;
};

Result<DriverSampler::Counter> DriverSampler::Start(const DeviceOpener& open_device,
                                                    const NamedEvent& event, bool only_misses,
                                                    const std::optional<Gate>& gate) {
  auto device = open_device();
  if (!device) return Fail(std::move(device.error()));
  auto session = Session::Open(*std::move(device), Purpose::kSamples);
  if (!session) return Fail(std::move(session.error()));
  Counter counter;
  counter.session = *std::move(session);

  tmprof_params params{};
  if (const int error = Call(counter.session->device(), TMPROF_IOC_GET_PARAMS, params); error != 0)
    return Fail(NotSampled(event, error));
  const std::uint32_t precise = event.attr.precise_ip;
  std::uint32_t flags = TMPROF_EVENT_DATA_SRC | precise << TMPROF_EVENT_PRECISE_SHIFT;
  if (only_misses) flags |= TMPROF_EVENT_ONLY_MISSES;
  params.sample_event = EventOf(event.attr, flags);
  params.sample_period = event.attr.sample_period;
  if (gate) {
    params.gate_period_ns = static_cast<std::uint64_t>(gate->period.count());
    params.gate[TMPROF_SAMPLER] = {.mode = TMPROF_GATE_COUNTED,
                                   .threshold_permille = TMPROF_GATE_THRESHOLD_PERMILLE,
                                   .event = EventOf(gate->event.attr, 0)};
  }
  if (const int error = Call(counter.session->device(), TMPROF_IOC_SET_PARAMS, params);
      error != 0) {
    Error refused = NotSampled(event, error);
    if (const auto verdict = tmprof_params_check(&params); verdict.error != 0)
      refused.reason = fmt::format("{} {}", verdict.field, verdict.reason);
    return Fail(std::move(refused));
  }
  tmprof_control control{};
  control.sources = TMPROF_MASK_SAMPLER;
  control.command = TMPROF_START;
  if (const int error = Call(counter.session->device(), TMPROF_IOC_CONTROL, control); error != 0)
    return Fail(NotSampled(event, error));
  return counter;
}

Result<std::unique_ptr<DriverSampler>> DriverSampler::Open(const DeviceOpener& open_device,
                                                           HardwareSetup setup,
                                                           std::optional<Gate> gate) {
  std::vector<Counter> counters;
  for (const TaskEvents::Event& event : setup.events) {
    auto counter = Start(open_device, event.event, setup.only_misses, gate);
    if (!counter) return Fail(std::move(counter.error()));
    counters.push_back(*std::move(counter));
  }
  return std::unique_ptr<DriverSampler>(
      new DriverSampler(setup, std::move(counters), std::move(gate)));
}

DriverSampler::DriverSampler(const HardwareSetup& setup, std::vector<Counter> counters,
                             std::optional<Gate> gate)
    : kind_(setup.kind),
      accesses_per_sample_(setup.accesses_per_sample),
      counters_(std::move(counters)),
      gate_(std::move(gate)),
      batch_(kSamplesPerRead) {}

Status DriverSampler::Follow(Counter& counter, const std::vector<TrackedProcess>& targets) {
  std::map<TargetId, Session::Target> kept;
  std::vector<Error> refusals;
  std::optional<Error> lost;
  for (const TrackedProcess& process : targets) {
    if (auto known = counter.targets.extract(process.id)) {
      kept.insert(std::move(known));
      continue;
    }
    auto target = Session::Hold(counter.session, process.pid, process.start_time_ticks);
    if (target) {
      counter.named.insert_or_assign(target->id(), process.id);
      kept.emplace(process.id, *std::move(target));
    } else if (!OfTheTarget(target.error().system_error.value_or(0))) {
      lost = SamplesUnreadable(target.error().system_error.value_or(0));
    } else if (target.error().system_error != ESRCH) {
      refusals.push_back(std::move(target.error()));
    }
  }
  for (auto& [id, target] : counter.targets) counter.leaving.push_back(std::move(target));
  counter.targets = std::move(kept);
  if (!refusals.empty()) {
    unfollowed_.Raise(fmt::format("{} target{} not sampled: {}", refusals.size(),
                                  refusals.size() == 1 ? " is" : "s are",
                                  refusals.front().Message()));
  }
  if (lost) return Fail(*std::move(lost));
  return {};
}

Status DriverSampler::SetTargets(const std::vector<TrackedProcess>& targets) {
  unfollowed_.Settle();
  for (Counter& counter : counters_) {
    if (failure_) break;
    if (Status followed = Follow(counter, targets); !followed) failure_ = followed.error();
  }
  if (failure_) return Fail(*failure_);
  return {};
}

void DriverSampler::SetActive(bool active) {
  tmprof_control control{};
  control.sources = TMPROF_MASK_SAMPLER;
  control.command = active ? TMPROF_RESUME : TMPROF_PAUSE;
  for (Counter& counter : counters_) {
    const int error = Call(counter.session->device(), TMPROF_IOC_CONTROL, control);
    if (error != 0 && error != EALREADY) failure_ = SamplesUnreadable(error);
  }
}

Status DriverSampler::Take(Counter& counter, SourceEpoch& epoch, EpochSum& sum) {
  Device& device = counter.session->device();
  tmprof_epoch ended{};
  if (const int error = Call(device, TMPROF_IOC_EPOCH_END, ended); error != 0)
    return Fail(SamplesUnreadable(error));
  while (true) {
    const auto count = device.Read(batch_);
    if (!count) return Fail(SamplesUnreadable(count.error()));
    if (*count == 0) break;
    for (std::size_t i = 0; i < *count; ++i) {
      const tmprof_page_record& record = batch_[i];
      const std::uint64_t samples = std::uint64_t{record.load_samples} + record.store_samples;
      const auto named = counter.named.find(record.target_id);
      if (named == counter.named.end()) {
        sum.lost += samples;
        continue;
      }
      const PageKey key{named->second, Vpn(record.vpn)};
      sum.counted += samples;
      sum.saturated_pages += (record.page_flags & TMPROF_PAGE_SATURATED) != 0;
      epoch.samples.push_back(
          {.key = key, .loads = record.load_samples, .stores = record.store_samples});
      ReferenceRecord span{.key = key, .span = PageCount(record.span_pages)};
      if (record.node != TMPROF_NO_NODE) span.node = NodeId(record.node);
      epoch.huge_spans.push_back(span);
    }
  }
  tmprof_stats now{};
  if (const int error = Call(device, TMPROF_IOC_STATS, now); error != 0)
    return Fail(SamplesUnreadable(error));
  const tmprof_stats before = std::exchange(counter.last, now);
  sum.lost += ended.samples_lost + (now.pages_refused - before.pages_refused);
  sum.active_ns += ended.active_ns[TMPROF_SAMPLER];
  sum.length_ns += ended.end_ns - ended.start_ns;
  sum.cache += now.samples_near - before.samples_near;
  sum.not_demand += now.samples_not_demand - before.samples_not_demand;
  sum.unknown_source += now.samples_unknown_source - before.samples_unknown_source;
  sum.no_address += now.samples_no_address - before.samples_no_address;
  sum.other_processes += now.samples_foreign - before.samples_foreign;
  sum.unmapped += now.samples_unmapped - before.samples_unmapped;
  sum.unresolved += now.samples_unresolved - before.samples_unresolved;
  sum.guest += now.samples_guest - before.samples_guest;
  sum.throttled += now.samples_throttled - before.samples_throttled;
  sum.cpus_failed += now.cpus_failed - before.cpus_failed;

  // The counts of the leaving targets have been read.
  for (const Session::Target& target : counter.leaving) counter.named.erase(target.id());
  counter.leaving.clear();
  for (const auto& [id, target] : counter.targets) counter.named.insert_or_assign(target.id(), id);
  return {};
}

// The gate's note, from the first event's session: all sessions count the same.
std::string DriverSampler::GateNote() const {
  if (!gate_) return {};
  const tmprof_stats& stats = counters_.front().last;
  const std::uint64_t count = stats.gate_count[TMPROF_SAMPLER];
  if (count == TMPROF_UNKNOWN)
    return fmt::format("gate: {} could not be read: on", gate_->event.name);
  return fmt::format("gate: {} {} in the last period, on above {} % of at most {}", count,
                     gate_->event.name, TMPROF_GATE_THRESHOLD_PERMILLE / 10,
                     stats.gate_max[TMPROF_SAMPLER]);
}

SourceEpoch DriverSampler::TakeEpoch() {
  SourceEpoch epoch;
  SourceStatus& status = epoch.status;
  status.name = kind_.name;
  status.label = fmt::format("{}, by the driver", kind_.label);
  status.role = kind_.role;
  status.samples_of = kind_.samples_of;
  status.accesses_per_sample = accesses_per_sample_;
  const bool failed_before = failure_.has_value();
  EpochSum sum;
  for (Counter& counter : counters_) {
    if (failure_) break;
    if (Status taken = Take(counter, epoch, sum); !taken) failure_ = taken.error();
  }
  if (failure_) {
    // Nobody knows what is missing.
    epoch.samples.clear();
    epoch.huge_spans.clear();
    if (!failed_before) status.note = failure_->Message();
    return epoch;
  }
  status.state = sum.active_ns > 0 ? SourceState::kActive : SourceState::kGated;
  if (sum.length_ns > 0) {
    status.duty_cycle =
        std::min(1.0, static_cast<double>(sum.active_ns) / static_cast<double>(sum.length_ns));
  }
  status.observations = sum.counted;
  status.lost = sum.lost;
  status.details = {{"served_by_cache", sum.cache},
                    {"not_demand", sum.not_demand},
                    {"unknown_source", sum.unknown_source},
                    {"no_address", sum.no_address},
                    {"other_processes", sum.other_processes},
                    {"unmapped", sum.unmapped},
                    {"unresolved", sum.unresolved},
                    {"virtual_machines", sum.guest},
                    {"throttled", sum.throttled},
                    {"saturated_pages", sum.saturated_pages}};
  status.note = GateNote();
  const auto add = [&](const std::string& text) {
    if (!status.note.empty() && !text.empty()) status.note += "; ";
    status.note += text;
  };
  add(unfollowed_.TakeEpoch());
  if (sum.throttled > 0) {
    add(
        fmt::format("perf held samples back {} time{} until the next tick: how many that cost is "
                    "not known",
                    sum.throttled, sum.throttled == 1 ? "" : "s"));
  }
  if (sum.cpus_failed > 0) add("a CPU came online and could not be sampled");
  return epoch;
}

Probe ProbeDriverSampler(const Places& places, const Result<HardwareSetup>& setup) {
  constexpr SourceKind kRow{kDriverSource.name, "address samples by tmprof.ko",
                            SourceRole::kSamples, false, SampleSubject::kMemory};
  if (!setup) return Unusable(kRow, setup.error());
  const auto sampler = DriverSampler::Open(places.open_device, *setup, std::nullopt);
  if (!sampler) return Unusable(kRow, sampler.error());
  return Usable(kRow, fmt::format("{}, on every CPU: {}", setup->kind.label, SampledShare(*setup)));
}

}  // namespace tmprof::driver
