// SPDX-License-Identifier: Apache-2.0

#include "report/analysis/evaluation.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/part_of_stream.h"
#include "policy/replay/told_hit_rates.h"

namespace tmprof {
namespace {

constexpr Tier kTier2{2};

// Opens the part of a trace that lies in these ranges; with none, all of it.
OpenTrace PartOf(OpenTrace open, const std::vector<VpnRange>& ranges) {
  if (ranges.empty()) return open;
  return [open = std::move(open), ranges]() -> Result<std::unique_ptr<EpochStream>> {
    auto whole = open();
    if (!whole) return whole;
    return std::make_unique<PartOfStream>(*std::move(whole), ranges);
  };
}

}  // namespace

std::string_view Name(MemoryRate::Basis basis) {
  switch (basis) {
    case MemoryRate::Basis::kSamples:
      return "samples";
    case MemoryRate::Basis::kCountedLoads:
      return "counted_loads";
    case MemoryRate::Basis::kModel:
      return "model";
  }
  return "";
}

std::optional<MemoryRate> MemoryRateOf(const TraceEnd& file) {
  using enum MemoryRate::Basis;
  if (file.is_part) return std::nullopt;
  const std::optional<MemoryTraffic::Rate>& told = file.memory;
  if (told && told->is_counted())
    return MemoryRate{.per_cpu_second = told->accesses_per_second, .basis = kCountedLoads};
  if (told && *told->samples >= kFewestObservations)
    return MemoryRate{.per_cpu_second = told->accesses_per_second, .basis = kSamples};
  if (file.modelled_per_second)
    return MemoryRate{.per_cpu_second = *file.modelled_per_second, .basis = kModel};
  return std::nullopt;
}

std::optional<double> MemoryShare(const TraceEnd& file) {
  constexpr double kSecondsOfNs = 1e-9;
  const std::optional<MemoryRate> rate = MemoryRateOf(file);
  if (!rate) return std::nullopt;
  return rate->per_cpu_second * file.gap.ns * kSecondsOfNs;
}

std::size_t CapacitiesOf(const ReplayOptions& options) {
  return options.sizes.empty() ? options.ratios.size() : options.sizes.size();
}

Status EvaluateTrace(const Trace& trace, const EvaluationScope& scope, const ReplayOptions& options,
                     Evaluation& evaluation) {
  const OpenTrace open = PartOf(trace.open, scope.ranges);
  Result<ReplayOutcome> outcome = Replay(open, options);
  if (!outcome) return Fail(std::move(outcome.error()));
  TraceHitRates told{.trace = trace.name, .judge = outcome->judge, .at_ratio = {}, .truly = {}};
  const bool can_check = !scope.truth || (outcome->judge == RankSource::kMemory) ==
                                             (scope.truth->of == RankSource::kMisses);
  if (can_check && CanTellHitRates(options.ranker, outcome->judge)) {
    std::vector<PageCount> capacities;
    for (std::size_t i = 0; i < CapacitiesOf(options); ++i) {
      capacities.push_back(outcome->results[i].capacity);
    }
    std::optional<TrueHitRateJudge> judge;
    OnChoice on_choice;
    if (scope.truth) {
      judge.emplace(*scope.truth);
      on_choice = [&](const EpochProfile& epoch, const ChosenSpans& chosen) {
        judge->Add(epoch, chosen);
      };
    }
    auto rates = TellHitRates(open, options.ranker, outcome->judge, capacities, on_choice);
    if (!rates) return Fail(std::move(rates.error()));
    told.at_ratio = *std::move(rates);
    for (const PageCount capacity : capacities) {
      if (judge) told.truly.push_back(judge->At(capacity));
    }
  }
  if (scope.truth && told.at_ratio.empty()) {
    return Fail(BadInput(
        "use option", "--truth",
        fmt::format("no hit rates are told by the judge {}, to be checked", Name(outcome->judge)),
        scope.truth->of == RankSource::kMisses
            ? "the file tells of misses; use --judge memory and the rank model rate"
            : "use --judge accesses and the rank model rate"));
  }
  evaluation.told.push_back(std::move(told));
  evaluation.ends.push_back({.trace = trace.name,
                             .end = outcome->end,
                             .memory = outcome->memory,
                             .is_part = !scope.ranges.empty(),
                             .models_memory = outcome->models_memory,
                             .modelled_per_second = outcome->modelled_per_second,
                             .basis = outcome->basis,
                             .gap = scope.latency_gap_ns ? LatencyGap{.ns = *scope.latency_gap_ns,
                                                                      .basis = LatencyBasis::kGiven}
                                                         : GapsOf(trace.info.settings).Of(kTier2),
                             .observations = outcome->observations});
  for (ReplayResult& result : outcome->results) {
    evaluation.results.push_back(
        {trace.name, outcome->whole, outcome->is_told(), std::move(result)});
  }
  return {};
}

Result<CapacityCurve> CurveOf(Trace trace, const EvaluationScope& scope,
                              const ReplayOptions& options) {
  trace.llc_bytes = options.ranker.llc_bytes;
  trace.open = PartOf(std::move(trace.open), scope.ranges);
  return MakeCapacityCurve(
      trace,
      {.weight = options.weight, .by = options.judge, .epochs = {}, .ranker = options.ranker});
}

}  // namespace tmprof
