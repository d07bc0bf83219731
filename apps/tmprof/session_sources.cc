// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/session_sources.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "profiler/gate/gate.h"
#include "profiler/sources/abit/abit_scanner.h"
#include "profiler/sources/clock/clock_sampler.h"
#include "profiler/sources/perf/hardware_sampler.h"

namespace tmprof {
namespace {

// The clock sampler's share of the overhead budget where both kinds of source run. A cleared
// accessed bit costs 0.25 us and tells a page's rate to a factor of e; a clock sample costs some
// 40 us and tells of one page (docs/accuracy.md, "Tick piggyback: tried and dropped").
constexpr double kClockShareOfBudget = 0.1;

// Kept back for costs that the model does not know, such as caches that interrupts and flushes
// leave cold. Of 1 % allowed, bench/overhead measured a loss of 1.35 % with 0.2 kept back and
// of 2.35 % with 0.05; the recall on bench/accuracy's hotset was 0.88 and 0.93. This lies between.
constexpr double kHeldBack = 0.12;

bool Wants(const SourceChoice& choice, std::string_view name) {
  return std::ranges::find(choice.names, name) != choice.names.end();
}

SourceStatus Unavailable(std::string name, SourceRole role, const Error& error) {
  return {.name = std::move(name),
          .role = role,
          .state = SourceState::kUnavailable,
          .note = error.Message()};
}

class Opening {
 public:
  explicit Opening(const SourceChoice& choice) : choice_(choice) {}

  Result<SessionSources> Run() {
    session_.perf = std::make_unique<KernelPerfApi>();
    session_.clock = std::make_unique<SystemClock>();
    const bool any = Wants(choice_, "auto");
    // What will run beside the scanner decides what it may spend.
    std::optional<Result<std::unique_ptr<HardwareSampler>>> hardware;
    if (any || Wants(choice_, "hw")) hardware = OpenHardware();
    // The clock is the rung below the hardware sampler: taken where that is refused, or asked for.
    const bool clock = Wants(choice_, "clock") || (any && !hardware->has_value());
    const double budget = choice_.max_overhead * (1 - kHeldBack);
    if (any || Wants(choice_, "abit")) {
      const bool shared = clock && ProbeClock(*session_.perf).usable;
      OpenAbit(budget * (shared ? 1 - kClockShareOfBudget : 1));
    }
    const bool shared = !session_.sources.empty();
    if (hardware) TakeHardware(*std::move(hardware));
    if (clock) OpenClock(budget * (shared ? kClockShareOfBudget : 1));
    if (session_.sources.empty()) return Fail(NothingWorks());
    if (auto status = OpenGate(); !status) return Fail(status.error());
    return std::move(session_);
  }

 private:
  // Told at once, not only in the trace, except that few machines have sampling hardware.
  void Refuse(std::string name, SourceRole role, const Error& error) {
    if (name != "hw" || Wants(choice_, name)) session_.warnings.push_back(error.Message());
    session_.unavailable.push_back(Unavailable(std::move(name), role, error));
    refusals_.push_back(error);
  }

  void OpenAbit(double overhead_share) {
    auto scanner = abit::AbitScanner::Open(
        {.scan = {.mode = choice_.abit_mode == AbitMode::kLadder ? abit::ScanOptions::Mode::kLadder
                                                                 : abit::ScanOptions::Mode::kPlain,
                  .plain_interval = choice_.scan_interval,
                  .overhead_share = overhead_share,
                  .seed = choice_.seed}});
    if (!scanner) return Refuse("abit", SourceRole::kReferences, scanner.error());
    session_.calibration.ns_per_set = (*scanner)->calibration().ns_per_set;
    session_.calibration.ns_per_look = (*scanner)->calibration().ns_per_look;
    const auto& warnings = (*scanner)->warnings();
    session_.warnings.insert(session_.warnings.end(), warnings.begin(), warnings.end());
    session_.sources.push_back(*std::move(scanner));
  }

  // Its rate is its own bound (--sample-rate): it takes no part of the budget.
  Result<std::unique_ptr<HardwareSampler>> OpenHardware() {
    const auto rate = static_cast<SampleRate>(choice_.sample_rate);
    auto setup = FindHardware(*session_.perf, rate);
    if (!setup) return Fail(setup.error());
    return HardwareSampler::Create(*session_.perf, *session_.clock, *std::move(setup));
  }

  void TakeHardware(Result<std::unique_ptr<HardwareSampler>> sampler) {
    if (!sampler) return Refuse("hw", SourceRole::kSamples, sampler.error());
    session_.sources.push_back(*std::move(sampler));
  }

  void OpenClock(double max_overhead) {
    auto sampler =
        ClockSampler::Create(*session_.perf, *session_.clock, {.max_overhead = max_overhead});
    if (!sampler) return Refuse("clock", SourceRole::kSamples, sampler.error());
    session_.calibration.ns_per_sample = (*sampler)->ns_per_sample();
    session_.sources.push_back(*std::move(sampler));
  }

  Status OpenGate() {
    const auto mode = ParseGateMode(choice_.gate);
    if (!mode) return Fail(mode.error());
    if (!mode->samples && !mode->references) return {};
    auto gate = Gate::Create(*session_.perf, EncodeWithPfm, *mode);
    if (!gate) return Fail(gate.error());
    session_.gate = [gate = std::make_shared<Gate>(*std::move(gate))](
                        std::optional<double> memory_stall_share) -> GateVerdict {
      const GateDecision decision = gate->Decide(memory_stall_share);
      return {.references_active = decision.references.active,
              .samples_active = decision.samples.active,
              .references_basis = decision.references.basis,
              .samples_basis = decision.samples.basis};
    };
    return {};
  }

  Error NothingWorks() const {
    Error error = refusals_.front();
    for (std::size_t i = 1; i < refusals_.size(); ++i)
      error.advice += ". And " + refusals_[i].Message();
    return error;
  }

  const SourceChoice& choice_;
  SessionSources session_;
  std::vector<Error> refusals_;
};

}  // namespace

Result<SessionSources> OpenSources(const SourceChoice& choice) { return Opening(choice).Run(); }

std::vector<Probe> ProbeSources() {
  KernelPerfApi perf;
  std::vector<Probe> probes{abit::ProbeAbit()};
  for (Probe& probe : ProbeHardware(perf)) probes.push_back(std::move(probe));
  probes.push_back(ProbeClock(perf));
  for (Probe& probe : ProbeGate(perf)) probes.push_back(std::move(probe));
  return probes;
}

}  // namespace tmprof
