// SPDX-License-Identifier: Apache-2.0
// The hit rates that policies, rankings and the best placement have on recorded traces.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_stream.h"
#include "base/latency_gap.h"
#include "base/result.h"
#include "base/units.h"
#include "policy/replay/replay.h"
#include "proto/trace.h"
#include "rank/hit_rates.h"
#include "rank/memory_traffic.h"
#include "rank/rank_model.h"
#include "rank/rank_weight.h"
#include "report/analysis/accuracy.h"
#include "report/analysis/capacity_curve.h"
#include "report/analysis/true_hit_rates.h"

namespace tmprof {

// The part of each trace that is evaluated, and the truth that checks it.
struct EvaluationScope {
  std::vector<VpnRange> ranges;  // empty: all memory
  std::optional<Truth> truth;
  std::optional<double> latency_gap_ns;  // nullopt: as the trace says
};

struct TraceResult {
  std::string trace;
  PageCount whole;      // that ratios are of
  bool is_told = true;  // false: too little was seen
  ReplayResult result;
};
struct TraceEnd {
  std::string trace;
  StreamEnd end;
  std::optional<MemoryTraffic::Rate> memory = std::nullopt;
  bool is_part = false;        // only a part of the memory (--addresses), while CPU time is of all
  bool models_memory = false;  // accesses to memory are estimated by a model of the cache
  std::optional<double> modelled_per_second{};  // see ReplayOutcome
  RankBasis basis{};                            // the judge's
  LatencyGap gap{};  // time that an access to memory of tier 2 gains in tier 1
  // References and samples that the judge goes by; nullopt: it counted all accesses, or nothing was
  // replayed.
  std::optional<std::uint64_t> observations = std::nullopt;
  std::optional<Error> refused = std::nullopt;  // set: the trace was not replayed
};
// The hit rates that follow from one trace without a replay.
struct TraceHitRates {
  std::string trace;
  RankSource judge = RankSource::kCombined;  // kMemory: they are of accesses to memory
  std::vector<HitRates> at_ratio;            // one for each ratio; empty: not told
  std::vector<TrueHitRates> truly;           // parallel to it; empty: unknown
};

struct Evaluation {
  std::vector<TraceResult> results;
  std::vector<TraceEnd> ends;
  std::vector<TraceHitRates> told;

  // Precondition: the trace was replayed.
  const TraceEnd& EndOf(const std::string& trace) const {
    return *std::ranges::find(ends, trace, &TraceEnd::trace);
  }

  struct Beside {
    const HitRates* told = nullptr;
    const TrueHitRates* truly = nullptr;
  };
  // The rates of the same trace and capacity as a result; nullptr: not known well enough, or
  // unknown.
  Beside RatesBeside(const TraceResult& result) const {
    for (const TraceHitRates& each : told) {
      if (each.trace != result.trace) continue;
      const auto at = std::ranges::find(each.at_ratio, result.result.capacity, &HitRates::capacity);
      if (at == each.at_ratio.end()) return {};
      const auto i = static_cast<std::size_t>(at - each.at_ratio.begin());
      return {.told = &*at, .truly = each.truly.empty() ? nullptr : &each.truly[i]};
    }
    return {};
  }
};

// Tells how often the programs of a trace reach memory, and by what evidence.
struct MemoryRate {
  enum class Basis : std::uint8_t { kSamples, kCountedLoads, kModel };
  double per_cpu_second = 0;
  Basis basis = Basis::kSamples;
};
std::string_view Name(MemoryRate::Basis basis);  // "samples", "counted_loads", "model"

// nullopt: neither enough samples, nor a counter, nor a model give it, or the trace is evaluated in
// part.
std::optional<MemoryRate> MemoryRateOf(const TraceEnd& file);
// The CPU time that is saved, as a part of what the programs use, if all their accesses to memory
// go to tier 1 instead of tier 2, and no two overlap. nullopt: their rate is unknown.
std::optional<double> MemoryShare(const TraceEnd& file);

// The capacities of each policy, in the order of the results.
std::size_t CapacitiesOf(const ReplayOptions& options);

// Replays a trace and adds its figures under its name. An error leaves the evaluation as it was;
// one that is about the epochs has the object "the trace".
Status EvaluateTrace(const Trace& trace, const EvaluationScope& scope, const ReplayOptions& options,
                     Evaluation& evaluation);

// Returns the hit rate by capacity, for a part of a trace. Errors are as above.
Result<CapacityCurve> CurveOf(Trace trace, const EvaluationScope& scope,
                              const ReplayOptions& options);

}  // namespace tmprof
