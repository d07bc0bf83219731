// SPDX-License-Identifier: Apache-2.0

#include "profiler/session_sources.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/host/urgent_scope.h"
#include "base/text/option_fault.h"
#include "profiler/gate/gate.h"
#include "profiler/kept_figures.h"
#include "profiler/source_kind.h"
#include "profiler/sources/abit/abit_scanner.h"
#include "profiler/sources/abit/auto_engine.h"
#include "profiler/sources/clock/clock_sampler.h"
#include "profiler/sources/driver/driver_abit_kernel.h"
#include "profiler/sources/driver/driver_region_engine.h"
#include "profiler/sources/driver/driver_sampler.h"
#include "profiler/sources/driver/module_probe.h"
#include "profiler/sources/exact/exact_launch.h"
#include "profiler/sources/perf/hardware_sampler.h"

namespace tmprof {
namespace {

// The clock sampler's share of the overhead budget where both kinds of source run. A cleared
// accessed bit costs some 0.4 us and gives a page's rate to a factor of e; a clock sample costs
// some 40 us and says something of one page (docs/design/budget.md). The rest suffices for the
// gate, which needs 16 samples.
constexpr double kClockShareOfBudget = 0.05;

// Share of one CPU that the accessed-bit scanner itself may use. Whoever grants the targets' time
// grants that, too. It is never less than for the default of 1 %, because planning has its price
// however little is cleared.
OverheadShare OwnShare(double max_overhead) {
  const OverheadShare of_default = abit::ScanOptions{}.own_share;
  return of_default * std::max(1.0, max_overhead / abit::ScanOptions{}.overhead_share);
}

SourceStatus Unavailable(const SourceKind& kind, const Error& error) {
  return {.name = std::string(kind.name),
          .label = std::string(kind.label),
          .role = kind.role,
          .state = SourceState::kUnavailable,
          .samples_of = kind.samples_of,
          .note = error.Message()};
}

constexpr std::string_view kNsPerSample = "ns-per-sample";

// Names another directory than kKeptFiguresDirectory. Programs with more rights than their user
// ignore it.
constexpr const char* kRunDirectory = "TMPROF_RUN_DIRECTORY";

KeptFigures FiguresOfMachine(const SourceChoice& choice) {
  const char* const directory = ::secure_getenv(kRunDirectory);
  return KeptFigures(
      directory != nullptr ? directory : kKeptFiguresDirectory, ThisMachine(),
      choice.calibrates ? KeptFigures::Use::kMeasureAgain : KeptFigures::Use::kLoadAndKeep);
}

class Opening {
 public:
  explicit Opening(const SourceChoice& choice)
      : choice_(choice), any_(Names("auto")), kept_(FiguresOfMachine(choice)) {}

  Result<SessionSources> Run() {
    session_.perf = std::make_unique<KernelPerfApi>();
    session_.clock = std::make_unique<SystemClock>();
    auto mode = ParseGateMode(choice_.gate);
    if (!mode) return Fail(OfOption("--gate", choice_.gate, mode.error()));
    gate_mode_ = *mode;
    auto regions = RegionParams(choice_.regions);
    if (!regions) return Fail(std::move(regions.error()));
    regions_ = *regions;
    // The sources beside the scanner decide how much it may spend.
    auto hardware = OpenHardware();
    // The clock is the rung below the hardware sampler: taken where that is refused, or asked for.
    const bool clock = Wants(kClockSource) || (any_ && hardware.empty());
    const double budget = choice_.max_overhead;
    if (any_ || Wants(kDriverSource) || Wants(kAbitBpfSource)) {
      const bool shared = clock && ProbeClock(*session_.perf).usable;
      OpenAccessedBits(budget * (shared ? 1 - kClockShareOfBudget : 1));
    }
    const bool shared = !session_.sources.empty();
    std::ranges::move(hardware, std::back_inserter(session_.sources));
    if (clock) OpenClock(budget * (shared ? kClockShareOfBudget : 1));
    if (session_.sources.empty()) return Fail(NothingWorks());
    if (auto status = OpenGate(); !status) return Fail(status.error());
    return std::move(session_);
  }

 private:
  bool Names(std::string_view name) const {
    return std::ranges::find(choice_.names, name) != choice_.names.end();
  }
  bool Wants(const SourceKind& kind) const { return Names(kind.name); }

  void Refuse(const SourceKind& kind, const Error& error) {
    if (kind.common || Wants(kind)) session_.warnings.push_back(error.Message());
    session_.unavailable.push_back(Unavailable(kind, error));
    refusals_.push_back(error);
  }

  // Adds the source to `sources`, or says why it cannot be had.
  template <typename T>
  void Take(Result<std::unique_ptr<T>> source, const SourceKind& kind,
            std::vector<std::unique_ptr<Source>>& sources) {
    if (!source) return Refuse(kind, source.error());
    sources.push_back(*std::move(source));
  }

  // The module where it is loaded; one scanner only, as each would clear the other's bits.
  void OpenAccessedBits(double overhead_share) {
    session_.abit = choice_.abit;
    abit::ScanOptions scan{.looked = choice_.abit.looked,
                           .regions = regions_,
                           .plain_interval = choice_.scan_interval,
                           .overhead_share = overhead_share,
                           .own_share = OwnShare(choice_.max_overhead),
                           .ageing_use = choice_.ageing,
                           .seed = choice_.seed};
    using Mode = abit::ScanOptions::Mode;
    if (Wants(kDriverSource) || (any_ && !Wants(kAbitBpfSource))) {
      // The driver's own thread looks at regions by one bit, and finds more for less
      // (bench/results/regions.md).
      scan.mode = choice_.abit.mode.value_or(Mode::kPlain);
      auto scanner = OpenDriver(scan);
      if (scanner) return TakeScanner(*std::move(scanner), scan.mode, kDriverSource);
      Refuse(kDriverSource, scanner.error());
    }
    if (!any_ && !Wants(kAbitBpfSource)) return;
    scan.mode = choice_.abit.mode.value_or(Mode::kLadder);
    auto scanner = abit::AbitScanner::Open({.scan = scan, .way = {}, .kept = kept_});
    if (!scanner) return Refuse(kAbitBpfSource, scanner.error());
    TakeScanner(*std::move(scanner), scan.mode, kAbitBpfSource);
  }

  Result<std::unique_ptr<abit::AbitScanner>> OpenDriver(const abit::ScanOptions& scan) {
    auto device = driver::OpenDevice();
    if (!device) return Fail(std::move(device.error()));
    // One bit a monitoring interval is what the driver looks at by itself.
    const bool by_itself =
        scan.looked == abit::Looked::kRegions && scan.mode == abit::ScanOptions::Mode::kPlain;
    auto session = driver::Session::Open(
        *std::move(device), by_itself ? driver::Purpose::kRegions : driver::Purpose::kAccessedBits);
    if (!session) return Fail(std::move(session.error()));
    const abit::EngineMaker regions =
        [session = *session](
            abit::AbitKernel& kernel,
            const abit::ScanOptions& costed) -> Result<std::unique_ptr<abit::Engine>> {
      return driver::DriverRegionEngine::Start(session, kernel, costed);
    };
    abit::EngineMaker make_engine;
    if (by_itself) make_engine = regions;
    if (scan.looked == abit::Looked::kAuto) {
      make_engine = [regions](
                        abit::AbitKernel& kernel,
                        const abit::ScanOptions& costed) -> Result<std::unique_ptr<abit::Engine>> {
        return std::make_unique<abit::AutoEngine>(kernel, costed, regions);
      };
    }
    // The driver's own thread keeps the prices that it was started with.
    abit::AbitScanner::KernelMaker make_kernel;
    if (!by_itself) {
      make_kernel = [session = *session]() -> Result<std::unique_ptr<abit::AbitKernel>> {
        return driver::MakeDriverAbitKernel(session);
      };
    }
    return abit::AbitScanner::Open(driver::MakeDriverAbitKernel(*session), kDriverSource, scan,
                                   make_engine, make_kernel, kept_);
  }

  void TakeScanner(std::unique_ptr<abit::AbitScanner> scanner, abit::ScanOptions::Mode mode,
                   const SourceKind& kind) {
    session_.abit.mode = mode;
    session_.calibration = scanner->calibration();  // the clock's comes later
    session_.figures_ages.push_back({.of = "accessed bits",
                                     .age = scanner->calibration_age(),
                                     .is_settled = scanner->calibration_is_settled()});
    if (!session_.calibration.ns_per_look)
      session_.assumed_ns_per_look = scanner->options().cost.ns_per_look;
    const auto& warnings = scanner->warnings();
    session_.warnings.insert(session_.warnings.end(), warnings.begin(), warnings.end());
    if (auto unused = WarnOfUnusedAgeing(choice_, kind))
      session_.warnings.push_back(*std::move(unused));
    session_.sources.push_back(std::move(scanner));
  }

  // Their rate is their own bound (--sample-rate): they take no part of the budget. By the driver
  // where that is used, else by perf.
  std::vector<std::unique_ptr<Source>> OpenHardware() {
    std::vector<std::unique_ptr<Source>> opened;
    std::string_view by_driver;
    if (Wants(kDriverSource) || (any_ && !Wants(kAbitBpfSource))) {
      if (auto sampler = OpenDriverSampler()) {
        by_driver = (*sampler)->name();
        opened.push_back(*std::move(sampler));
      }
    }
    std::vector<SourceKind> kinds{kIbsSource};
    // Nobody misses it where it is not.
    if (Wants(kVirtualPmuSource) || FindVirtual(kPmuDevices, sample_rate()))
      kinds.push_back(kVirtualPmuSource);
    kinds.push_back(kPebsSource);
    for (const SourceKind& kind : kinds) {
      if (kind.name == by_driver || (!Wants(kind) && (!any_ || !opened.empty()))) continue;
      Take(OpenHardware(kind), kind, opened);
    }
    return opened;
  }

  Result<std::unique_ptr<HardwareSampler>> OpenHardware(const SourceKind& kind) {
    auto setup = FindHardware(*session_.perf, kind, sample_rate());
    if (!setup) return Fail(setup.error());
    return HardwareSampler::Create(*session_.perf, *session_.clock, *std::move(setup));
  }

  SampleRate sample_rate() const { return static_cast<SampleRate>(choice_.sample_rate); }

  // With its gate, which the driver looks at whether or not the recorder has time to.
  Result<std::unique_ptr<Source>> OpenDriverSampler() {
    auto setup = FindSamplingHardware(kPmuDevices, EncodeWithPfm, sample_rate());
    if (!setup) return Fail(std::move(setup.error()));
    std::optional<driver::DriverSampler::Gate> gate;
    if (gate_mode_.samples) {
      if (auto event = SampleGateEvent(*session_.perf, encode_))
        gate = {.event = *std::move(event)};
    }
    const SourceKind kind = setup->kind;
    const bool gated = gate.has_value();
    auto sampler = driver::DriverSampler::Open([] { return driver::OpenDevice(); },
                                               *std::move(setup), std::move(gate));
    if (!sampler) {
      // Perf has its turn, where that may be used.
      if (!any_ && !Wants(kind)) session_.unavailable.push_back(Unavailable(kind, sampler.error()));
      return Fail(std::move(sampler.error()));
    }
    samples_gated_by_driver_ = gated;
    return *std::move(sampler);
  }

  void OpenClock(double max_overhead) {
    ClockSampler::Options options{.max_overhead = max_overhead, .ns_per_sample = {}};
    if (auto misses = MissEvent(encode_)) options.misses = *std::move(misses);
    const auto before = kept_.Load(kClockSource.name, session_.clock->Now());
    if (before) {
      const auto price = before->figures.find(kNsPerSample);
      if (price != before->figures.end() && price->second > 0 &&
          price->second <= kBelievedNsPerSample)
        options.ns_per_sample = price->second;
    }
    auto sampler = ClockSampler::Create(*session_.perf, *session_.clock, options);
    if (!sampler) return Refuse(kClockSource, sampler.error());
    const double ns_per_sample = (*sampler)->ns_per_sample();
    session_.calibration.ns_per_sample = ns_per_sample;
    std::optional<std::chrono::nanoseconds> age;
    if (options.ns_per_sample) age = before->age;
    session_.figures_ages.push_back({.of = "clock samples", .age = age, .is_settled = true});
    if (!age && ns_per_sample <= kBelievedNsPerSample) {
      // Who cannot keep it measures it again at the next start.
      (void)kept_.Keep(kClockSource.name, {{std::string(kNsPerSample), ns_per_sample}},
                       session_.clock->Now());
    }
    session_.sources.push_back(*std::move(sampler));
  }

  Status OpenGate() {
    // The driver's sampler says itself what its gate rests on.
    const bool by_driver = samples_gated_by_driver_;
    if (by_driver) gate_mode_.samples = false;
    if (!gate_mode_.samples && !gate_mode_.references) return {};
    auto gate = Gate::Create(*session_.perf, encode_, gate_mode_);
    if (!gate) return Fail(gate.error());
    session_.gate = [by_driver, gate = std::make_shared<Gate>(*std::move(gate))](
                        GateLook look, std::optional<double> memory_stall_share) -> GateVerdict {
      GateDecision decision = look == GateLook::kPeriod ? gate->Decide(memory_stall_share)
                                                        : gate->DecideWhatIsOff(memory_stall_share);
      const bool all_on = decision.references.active && decision.samples.active;
      return {.references_active = decision.references.active,
              .samples_active = decision.samples.active,
              .holds_until_samples = all_on && !gate->has_counters(),
              .references_basis = std::move(decision.references.basis),
              .samples_basis = by_driver ? std::string() : std::move(decision.samples.basis)};
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
  bool any_;  // the best of each kind that works here, besides those that were named
  const KeptFigures kept_;
  const EventEncoder encode_ = WithVirtualPmu(kPmuDevices, EncodeWithPfm);
  tmprof_region_params regions_{};
  GateMode gate_mode_;
  bool samples_gated_by_driver_ = false;
  SessionSources session_;
  std::vector<Error> refusals_;
};

}  // namespace

Result<SessionSources> OpenSources(const SourceChoice& choice) {
  const UrgentScope while_opening;
  return Opening(choice).Run();
}

std::vector<Probe> ProbeSources() {
  KernelPerfApi perf;
  std::vector<Probe> probes{driver::ProbeDriver(), abit::ProbeAbit()};
  probes.push_back(driver::ProbeDriverSampler(
      driver::ThisMachine(), FindSamplingHardware(kPmuDevices, EncodeWithPfm, SampleRate::k1x)));
  for (Probe& probe : ProbeHardware(perf)) probes.push_back(std::move(probe));
  probes.push_back(ProbeClock(perf));
  for (Probe& probe : ProbeGate(perf, WithVirtualPmu(kPmuDevices, EncodeWithPfm)))
    probes.push_back(std::move(probe));
  probes.push_back(exact::ProbeExact());
  return probes;
}

}  // namespace tmprof
