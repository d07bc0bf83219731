// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/clock/clock_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tmprof {
namespace {

constexpr const char* kLabel = "clock (memory-stall time)";
constexpr std::size_t kRingBytes =
    512 * 1024;  // all that kernel.perf_event_mlock_kb gives, 516 KiB

}  // namespace

Result<std::unique_ptr<ClockSampler>> ClockSampler::Create(PerfApi& api, const Clock& clock,
                                                           const Options& options) {
  if (!(options.max_overhead > 0 && options.max_overhead <= 1)) {
    return Fail(BadInput("start clock sampling", fmt::format("overhead {}", options.max_overhead),
                         "must be above 0 and at most 100 %"));
  }
  auto setup = FindClockSetup(api);
  if (!setup) return std::unexpected(setup.error());
  double cost = 0;
  if (options.ns_per_sample) {
    cost = *options.ns_per_sample;
  } else {
    const auto measured = MeasureSampleCost(api, *setup);
    if (!measured) return std::unexpected(measured.error());
    cost = *measured;
  }
  const double rate_hz = std::min(kMaxRateHz, options.max_overhead / (cost * 1e-9));
  const auto period = std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / rate_hz));
  auto events = TaskEvents::Create(api, {MakeClockEvent(*setup, PrimePeriod(period))}, kRingBytes);
  if (!events) return std::unexpected(events.error());
  return std::unique_ptr<ClockSampler>(
      new ClockSampler(api, clock, *setup, std::move(*events), cost, rate_hz));
}

ClockSampler::ClockSampler(PerfApi& api, const Clock& clock, ClockSetup setup, TaskEvents events,
                           double ns_per_sample, double rate_hz)
    : clock_(&clock),
      setup_(setup),
      events_(std::move(events)),
      cache_(api),
      ns_per_sample_(ns_per_sample),
      rate_hz_(rate_hz),
      epoch_start_(clock.Now()),
      active_since_(epoch_start_) {}

Status ClockSampler::SetTargets(const std::vector<TrackedProcess>& targets) {
  std::vector<Pid> wanted;
  for (const TrackedProcess& target : targets) wanted.push_back(target.pid);
  table_.SetTargets(targets);
  const Status followed =
      events_.Follow(wanted, [this](const PerfRecord& record) { Handle(record); });
  if (followed) return {};
  // What is followed already stays useful; with nothing followed there is no source.
  if (!events_.HasEvents()) return followed;
  attach_note_ = followed.error().Message();
  return {};
}

void ClockSampler::SetActive(bool active) {
  if (active == active_) return;
  AccountActiveTime();
  active_ = active;
  Service();
  events_.SetEnabled(active);
  // Changes of code were not recorded while the events were off.
  if (active) cache_.Clear();
}

void ClockSampler::AccountActiveTime() {
  const MonotonicTime now = clock_->Now();
  if (active_) active_time_ += now - active_since_;
  active_since_ = now;
}

void ClockSampler::Service() {
  events_.Drain([this](const PerfRecord& record) { Handle(record); });
}

void ClockSampler::Handle(const PerfRecord& record) {
  if (const auto* sample = std::get_if<PerfSample>(&record)) {
    Handle(*sample);
  } else if (const auto* lost = std::get_if<PerfLost>(&record)) {
    counts_.lost += lost->count;
  } else if (std::holds_alternative<PerfThrottle>(record)) {
    ++counts_.throttled;
  } else if (const auto* change = std::get_if<PerfCodeChange>(&record)) {
    cache_.Forget(change->process);
    MonotonicTime& since = code_since_[change->process];
    since = std::max(since, change->time);
  } else if (const auto* exit = std::get_if<PerfExit>(&record)) {
    if (exit->thread.value() != exit->process.value()) return;
    cache_.Forget(exit->process);
    code_since_.erase(exit->process);
  }
}

void ClockSampler::Handle(const PerfSample& sample) {
  if (sample.kernel_mode) {
    ++counts_.kernel_mode;
    return;
  }
  if (!sample.registers) {
    ++counts_.no_registers;
    return;
  }
  static constexpr Culprit kCodeGone;
  const auto since = code_since_.find(sample.process);
  const bool stale = since != code_since_.end() && sample.time < since->second;
  const Culprit& culprit = stale ? kCodeGone : cache_.Find(sample.process, sample.registers->ip);
  constexpr double kMemory = 1.0 - 1.0 / 256;  // of an exponential window, in samples
  recent_samples_ = recent_samples_ * kMemory + 1;
  recent_waits_ = recent_waits_ * kMemory + (WaitsForMemory(culprit.outcome) ? 1 : 0);
  ++counts_.outcomes[static_cast<std::size_t>(culprit.outcome)];
  if (culprit.outcome != OperandOutcome::kAddress) return;
  Count(sample, culprit.first);
  if (culprit.second) Count(sample, *culprit.second);
}

void ClockSampler::Count(const PerfSample& sample, const MemoryOperand& operand) {
  const std::uint64_t address = operand.Address(sample.registers->general);
  ++(operand.is_store ? counts_.stores : counts_.loads);
  table_.Add(sample.process, VpnOfAddress(address),
             operand.is_store ? AccessKind::kStore : AccessKind::kLoad);
}

std::optional<double> ClockSampler::MemoryStallShare() const {
  constexpr double kEnough = 16;  // samples: a standard error of 12 % at worst
  if (recent_samples_ < kEnough) return std::nullopt;
  return recent_waits_ / recent_samples_;
}

SourceEpoch ClockSampler::TakeEpoch() {
  Service();
  AccountActiveTime();
  const MonotonicTime now = active_since_;
  SampleTable::Taken taken = table_.Take();
  const Counts counts = std::exchange(counts_, {});

  SourceEpoch epoch;
  epoch.samples = std::move(taken.samples);
  SourceStatus& status = epoch.status;
  status.name = name();
  status.label = kLabel;
  status.role = SourceRole::kSamples;
  const bool was_active = active_ || active_time_.count() > 0;
  status.state = was_active ? SourceState::kActive : SourceState::kGated;
  if (now > epoch_start_) {
    // A quotient of equal times may round to above 1.
    status.duty_cycle =
        std::min(1.0, std::chrono::duration<double>(active_time_) / (now - epoch_start_));
  }
  const auto of = [&](OperandOutcome outcome) {
    return counts.outcomes[static_cast<std::size_t>(outcome)];
  };
  status.observations = of(OperandOutcome::kAddress);
  status.lost = counts.lost;
  std::uint64_t no_address = counts.no_registers;
  std::vector<NamedCount> reasons;
  for (std::size_t i = 0; i < kOperandOutcomes; ++i) {
    const auto outcome = static_cast<OperandOutcome>(i);
    if (outcome == OperandOutcome::kAddress || counts.outcomes[i] == 0) continue;
    no_address += counts.outcomes[i];
    reasons.push_back({fmt::format("no_address_{}", Name(outcome)), counts.outcomes[i]});
  }
  if (counts.no_registers > 0) reasons.push_back({"no_address_no_registers", counts.no_registers});
  status.details = {
      {"load_samples", counts.loads}, {"store_samples", counts.stores}, {"no_address", no_address}};
  std::ranges::move(reasons, std::back_inserter(status.details));
  if (setup_.kernel_seen) status.details.push_back({"kernel_mode", counts.kernel_mode});
  status.details.push_back({"unknown_process", taken.unknown_process});
  status.details.push_back({"throttled", counts.throttled});
  status.details.push_back(
      {"decoded", cache_.decoded() - std::exchange(decoded_before_, cache_.decoded())});
  const std::uint64_t corrupt = events_.corrupt_bytes();
  status.details.push_back(
      {"corrupt_bytes", corrupt - std::exchange(corrupt_bytes_before_, corrupt)});
  status.note = fmt::format("{:.0f} samples per second of CPU time; {}", rate_hz_,
                            setup_.kernel_seen ? "kernel time counted" : "kernel time not seen");
  if (!attach_note_.empty()) status.note += "; " + attach_note_;

  epoch_start_ = now;
  active_time_ = std::chrono::nanoseconds(0);
  return epoch;
}

Probe ProbeClock(PerfApi& api) {
  Probe probe{.name = "clock",
              .job = ProbeJob::kAddressSamples,
              .usable = false,
              .label = kLabel,
              .system_error = std::nullopt,
              .detail = {},
              .fix = {}};
  const auto setup = FindClockSetup(api);
  if (!setup) {
    probe.system_error = setup.error().system_error;
    probe.detail = setup.error().Fact();
    probe.fix = setup.error().advice;
    return probe;
  }
  probe.usable = true;
  probe.detail = setup->kernel_seen ? "cpu-clock events with user registers open"
                                    : "cpu-clock events open for user mode only";
  return probe;
}

}  // namespace tmprof
