// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/clock/clock_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/host/capabilities.h"
#include "base/sample_pairs.h"

namespace tmprof {

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
  const double rate_hz = std::clamp(options.max_overhead / (cost * 1e-9), kMinRateHz, kMaxRateHz);
  const auto period = std::chrono::nanoseconds(static_cast<std::int64_t>(1e9 / rate_hz));
  std::optional<NamedEvent> misses = options.misses;
  if (misses && !TryOnSelf(api, *misses)) misses.reset();
  auto events = TaskEvents::Create(api, {MakeClockEvent(*setup, PrimePeriod(period))}, kRingBytes,
                                   std::move(misses));
  if (!events) return std::unexpected(events.error());
  return std::unique_ptr<ClockSampler>(
      new ClockSampler(api, clock, *setup, std::move(*events), cost, rate_hz));
}

ClockSampler::ClockSampler(PerfApi& api, const Clock& clock, ClockSetup setup, TaskEvents events,
                           double ns_per_sample, double rate_hz)
    : PerfSampler(clock, kClockSource, std::move(events)),
      setup_(setup),
      cache_(api),
      ns_per_sample_(ns_per_sample),
      rate_hz_(rate_hz) {}

void ClockSampler::HandleCodeChange(const PerfCodeChange& change) {
  cache_.Forget(change.process);
  MonotonicTime& since = code_since_[change.process];
  since = std::max(since, change.time);
}

void ClockSampler::HandleExit(const PerfExit& exit) {
  if (exit.thread.value() != exit.process.value()) return;
  cache_.Forget(exit.process);
  line_pairs_.Forget(exit.process);
  code_since_.erase(exit.process);
}

void ClockSampler::HandleSample(const PerfSample& sample) {
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
  Age(sample.time);
  recent_samples_ += 1;
  recent_waits_ += WaitsForMemory(culprit.outcome) ? 1 : 0;
  ++counts_.outcomes[static_cast<std::size_t>(culprit.outcome)];
  if (culprit.outcome != OperandOutcome::kAddress) return;
  line_pairs_.Add(sample.process, culprit.first.Address(sample.registers->general));
  CountOperand(sample, culprit.first);
  if (culprit.second) CountOperand(sample, *culprit.second);
}

void ClockSampler::CountOperand(const PerfSample& sample, const MemoryOperand& operand) {
  const std::uint64_t address = operand.Address(sample.registers->general);
  ++(operand.is_store ? counts_.stores : counts_.loads);
  Count(sample.process, address, operand.is_store ? AccessKind::kStore : AccessKind::kLoad);
}

// Never below what the share needs, and before that nothing is forgotten.
void ClockSampler::Age(MonotonicTime now) {
  if (now <= newest_sample_) return;  // rings of several CPUs are drained one after the other
  const double age = std::chrono::duration<double>(now - newest_sample_) / kStallWindow;
  newest_sample_ = now;
  if (recent_samples_ <= kEnoughForStall) return;
  const double kept = std::max(std::exp(-age), kEnoughForStall / recent_samples_);
  recent_samples_ *= kept;
  recent_waits_ *= kept;
}

std::optional<double> ClockSampler::MemoryStallShare() const {
  if (recent_samples_ < kEnoughForStall) return std::nullopt;
  return recent_waits_ / recent_samples_;
}

void ClockSampler::TakeCounts(SourceStatus& status) {
  const Counts counts = std::exchange(counts_, {});
  const auto of = [&](OperandOutcome outcome) {
    return counts.outcomes[static_cast<std::size_t>(outcome)];
  };
  status.observations = of(OperandOutcome::kAddress);
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
  if (const auto misses = TakeCount())
    status.details.push_back({std::string(kCountedMisses), *misses});
  const LinePairs::Counts pairs = line_pairs_.Take();
  status.details.push_back({std::string(kPagePairs), pairs.pairs});
  status.details.push_back({std::string(kLinePairs), pairs.of_one_line});
  status.details.push_back(
      {"decoded", cache_.decoded() - std::exchange(decoded_before_, cache_.decoded())});
  status.note = fmt::format("{:.0f} samples per second of CPU time; {}", rate_hz_,
                            setup_.kernel_seen ? "kernel time counted" : "kernel time not seen");
}

Probe ProbeClock(PerfApi& api) {
  const auto setup = FindClockSetup(api);
  if (!setup) return Unusable(kClockSource, setup.error());
  if (setup->kernel_seen) return Usable(kClockSource, "cpu-clock events with user registers open");
  Probe probe = Usable(kClockSource, "cpu-clock events open for user mode only");
  probe.fix = CapabilityAdvice(kAddressSampleCapabilities);
  return probe;
}

}  // namespace tmprof
