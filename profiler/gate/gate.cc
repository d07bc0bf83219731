// SPDX-License-Identifier: Apache-2.0
#include "profiler/gate/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tmprof {
namespace {

// The kernel's generic events, which libpfm4 encodes for every CPU model.
constexpr const char* kLlcMisses = "perf::LLC-LOAD-MISSES";
constexpr const char* kDtlbMisses = "perf::DTLB-LOAD-MISSES";

constexpr unsigned kThresholdPercent = TMPROF_GATE_THRESHOLD_PERMILLE / 10;

}  // namespace

Result<GateMode> ParseGateMode(std::string_view text) {
  if (text == "auto") return GateMode{};
  if (text == "off")
    return GateMode{.samples = false, .references = false, .best_available = false};
  GateMode mode{.samples = false, .references = false, .best_available = false};
  const auto bad = [&] {
    return Fail(BadInput("read gate mode", std::string(text),
                         "must be auto, off, or a list of llc and tlb"));
  };
  for (std::string_view rest = text;;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    if (item == "llc" && !mode.samples) {
      mode.samples = true;
    } else if (item == "tlb" && !mode.references) {
      mode.references = true;
    } else {
      return bad();
    }
    if (item.size() == rest.size()) return mode;
    rest.remove_prefix(item.size() + 1);
  }
}

Result<SystemCounter> SystemCounter::Open(PerfApi& api, const EventEncoder& encode,
                                          const std::string& event) {
  auto attr = encode(event);
  if (!attr) return std::unexpected(attr.error());
  attr->read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
  SystemCounter counter(api);
  for (const CpuId cpu : api.OnlineCpus()) {
    auto fd = OpenEvent(api, {.name = event, .attr = *attr}, std::nullopt, cpu);
    if (!fd) return std::unexpected(fd.error());
    counter.cpus_.push_back({std::move(*fd), {}});
  }
  return counter;
}

std::optional<std::uint64_t> SystemCounter::TakeRate() {
  constexpr double kNanosecondsPerSecond = 1e9;
  double total = 0;
  bool known = true;
  for (PerCpu& cpu : cpus_) {
    const auto now = api_->Read(cpu.fd.get());
    if (!now) {
      known = false;
      continue;
    }
    const CounterReading last = std::exchange(cpu.last, *now);
    // Over the time it ran, which is shorter than the period where the kernel multiplexed it.
    const std::uint64_t running = now->running_ns - last.running_ns;
    if (running == 0) {
      known = false;
    } else {
      total += static_cast<double>(now->count - last.count) * kNanosecondsPerSecond /
               static_cast<double>(running);
    }
  }
  if (!known) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(total));
}

Result<Gate> Gate::Create(PerfApi& api, const EventEncoder& encode, const GateMode& mode) {
  Gate gate;
  const auto set_up = [&](Role& role, bool gated, const char* event, const char* unit) -> Status {
    role.gated = gated;
    role.unit = unit;
    if (!gated) return {};
    auto counter = SystemCounter::Open(api, encode, event);
    if (counter) {
      role.counter = std::move(*counter);
      return {};
    }
    if (!mode.best_available) return std::unexpected(counter.error());
    role.refused = counter.error();
    return {};
  };
  if (Status done = set_up(gate.samples_, mode.samples, kLlcMisses, "LLC misses"); !done) {
    return std::unexpected(done.error());
  }
  if (Status done = set_up(gate.references_, mode.references, kDtlbMisses, "dTLB misses"); !done) {
    return std::unexpected(done.error());
  }
  return gate;
}

Result<NamedEvent> MissEvent(const EventEncoder& encode) {
  auto attr = encode(kLlcMisses);
  if (!attr) return std::unexpected(attr.error());
  return NamedEvent{.name = "LLC misses", .attr = *attr};
}

Result<NamedEvent> SampleGateEvent(PerfApi& api, const EventEncoder& encode) {
  if (auto counter = SystemCounter::Open(api, encode, kLlcMisses); !counter)
    return std::unexpected(counter.error());
  return MissEvent(encode);
}

RoleDecision Gate::DecideByRate(Role& role, std::optional<std::uint64_t> rate) {
  // The count of a role that is off begins anew at each look, so a period's count has its last part
  // only.
  const auto decide = role.last.active ? tmprof_gate_decide : tmprof_gate_decide_part;
  const tmprof_gate_decision decision =
      decide(role.state, rate.has_value(), rate.value_or(0), TMPROF_GATE_THRESHOLD_PERMILLE);
  role.state = decision.next;
  RoleDecision result{.active = decision.active, .basis = {}, .refused = role.refused};
  result.basis = decision.known
                     ? fmt::format("{} {}/s in the period, on above {} % of at most {}", *rate,
                                   role.unit, kThresholdPercent, decision.next.max_count)
                     : fmt::format("{} could not be read: on", role.unit);
  return result;
}

RoleDecision Gate::DecideReferencesByStall(std::optional<double> memory_stall_share) {
  constexpr double kResolution = 1e6;  // the gate compares whole numbers
  std::optional<std::uint64_t> count;
  if (memory_stall_share) {
    count = static_cast<std::uint64_t>(
        std::llround(std::clamp(*memory_stall_share, 0.0, 1.0) * kResolution));
  }
  const std::uint64_t before = references_.state.max_count;
  const tmprof_gate_decision decision = tmprof_gate_decide(
      references_.state, count.has_value(), count.value_or(0), TMPROF_GATE_THRESHOLD_PERMILLE);
  references_.state = decision.next;
  RoleDecision result{.active = decision.active, .basis = {}, .refused = references_.refused};
  if (!decision.known) {
    result.basis = before > 0 ? "memory-stall share unknown in this period: on"
                              : "no dTLB counter and no memory-stall share: always on";
    return result;
  }
  result.basis = fmt::format("memory-stall share {:.1f} %, on above {} % of at most {:.1f} %",
                             100 * *memory_stall_share, kThresholdPercent,
                             100 * static_cast<double>(decision.next.max_count) / kResolution);
  return result;
}

GateDecision Gate::Decide(std::optional<double> memory_stall_share) {
  DecideSamples();
  DecideReferences(memory_stall_share);
  return {.samples = samples_.last, .references = references_.last};
}

GateDecision Gate::DecideWhatIsOff(std::optional<double> memory_stall_share) {
  if (!samples_.last.active) DecideSamples();
  if (!references_.last.active) DecideReferences(memory_stall_share);
  return {.samples = samples_.last, .references = references_.last};
}

void Gate::DecideSamples() {
  const auto always_on = [this](const char* basis) {
    return RoleDecision{.active = true, .basis = basis, .refused = samples_.refused};
  };
  samples_.last = !samples_.gated    ? always_on("not gated")
                  : samples_.counter ? DecideByRate(samples_, samples_.counter->TakeRate())
                                     : always_on("no LLC counter: always on");
}

void Gate::DecideReferences(std::optional<double> memory_stall_share) {
  if (!references_.gated) {
    references_.last = {.active = true, .basis = "not gated", .refused = references_.refused};
  } else if (references_.counter) {
    references_.last = DecideByRate(references_, references_.counter->TakeRate());
  } else {
    references_.last = DecideReferencesByStall(memory_stall_share);
  }
}

std::vector<Probe> ProbeGate(PerfApi& api, const EventEncoder& encode) {
  std::vector<Probe> probes;
  const auto add = [&](const char* name, const char* event, const char* otherwise) {
    const auto counter = SystemCounter::Open(api, encode, event);
    Probe probe{.name = name,
                .job = ProbeJob::kGate,
                .usable = counter.has_value(),
                .label = event,
                .system_error = std::nullopt,
                .detail = "counts on every CPU",
                .fix = {}};
    if (!counter) {
      probe.label = otherwise;
      probe.system_error = counter.error().system_error;
      probe.detail = counter.error().Fact();
      probe.fix = counter.error().advice;
    }
    probes.push_back(std::move(probe));
  };
  add("llc", kLlcMisses, "sampler always on");
  add("dtlb", kDtlbMisses, "clock samples' memory-stall share");
  return probes;
}

}  // namespace tmprof
