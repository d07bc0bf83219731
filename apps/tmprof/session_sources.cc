// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/session_sources.h"

#include <algorithm>
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
constexpr double kClockShareOfBudget = 0.15;

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
    if (any || Wants(choice_, "abit")) OpenAbit();
    if (any || Wants(choice_, "hw")) OpenHardware();
    // The clock is the rung below the hardware sampler: taken where that is refused, or asked for.
    const bool sampled = std::ranges::any_of(session_.sources, [](const auto& source) {
      return source->role() == SourceRole::kSamples;
    });
    if ((any && !sampled) || Wants(choice_, "clock")) OpenClock();
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

  // The hardware sampler's rate is its own bound: --sample-rate.
  double BudgetOf(SourceRole role) const {
    const bool samples = Wants(choice_, "auto") || Wants(choice_, "clock");
    const bool references = Wants(choice_, "auto") || Wants(choice_, "abit");
    if (!samples || !references) return choice_.max_overhead;
    return choice_.max_overhead *
           (role == SourceRole::kSamples ? kClockShareOfBudget : 1 - kClockShareOfBudget);
  }

  void OpenAbit() {
    auto scanner = abit::AbitScanner::Open(
        {.scan = {.mode = choice_.abit_mode == AbitMode::kLadder ? abit::ScanOptions::Mode::kLadder
                                                                 : abit::ScanOptions::Mode::kPlain,
                  .plain_interval = choice_.scan_interval,
                  .overhead_share = BudgetOf(SourceRole::kReferences),
                  .seed = choice_.seed}});
    if (!scanner) return Refuse("abit", SourceRole::kReferences, scanner.error());
    session_.calibration.ns_per_set = (*scanner)->calibration().ns_per_set;
    session_.calibration.ns_per_look = (*scanner)->calibration().ns_per_look;
    const auto& warnings = (*scanner)->warnings();
    session_.warnings.insert(session_.warnings.end(), warnings.begin(), warnings.end());
    session_.sources.push_back(*std::move(scanner));
  }

  void OpenHardware() {
    const auto rate = static_cast<SampleRate>(choice_.sample_rate);
    auto setup = FindHardware(*session_.perf, rate);
    if (!setup) return Refuse("hw", SourceRole::kSamples, setup.error());
    auto sampler = HardwareSampler::Create(*session_.perf, *session_.clock, *std::move(setup));
    if (!sampler) return Refuse("hw", SourceRole::kSamples, sampler.error());
    session_.sources.push_back(*std::move(sampler));
  }

  void OpenClock() {
    auto sampler = ClockSampler::Create(*session_.perf, *session_.clock,
                                        {.max_overhead = BudgetOf(SourceRole::kSamples)});
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
