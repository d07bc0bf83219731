// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/addresses.h"
#include "apps/tmprof/cli.h"
#include "base/latency_gap.h"
#include "base/part_of_stream.h"
#include "base/ratio.h"
#include "base/text/format.h"
#include "base/text/human_units.h"
#include "base/text/option_fault.h"
#include "policy/policy.h"
#include "policy/replay/replay.h"
#include "policy/replay/told_hit_rates.h"
#include "proto/trace.h"
#include "report/analysis/accuracy.h"
#include "report/analysis/capacity_curve.h"
#include "report/analysis/hit_rate_text.h"
#include "report/analysis/true_hit_rates.h"

namespace tmprof {
namespace {

// The judge `combined`, by the name of what it estimates.
constexpr std::string_view kAccesses = "accesses";
constexpr Tier kTier2{2};

struct EvalOptions {
  std::vector<std::string> traces{std::string(kDefaultTrace)};
  std::vector<std::string> policies{"first_touch", "history", "oracle"};
  std::vector<std::string> ratios{"1/8", "1/16", "1/32", "1/64", "1/128"};
  std::string of = "footprint";
  std::vector<std::string> fast;       // capacities; empty: the ratios
  std::vector<std::string> addresses;  // ranges; empty: all memory
  std::string truth;                   // a file; empty: unknown
  bool curve = false;                  // hit rates by capacity, instead of policies
  std::string rank_weight = "memory";
  std::vector<std::string> ranks;  // empty: the weight decides
  std::string judge;               // empty: the weight decides
  std::string rank_model = "rate";
  std::string half_life;                   // empty: by the rank model
  std::optional<std::uint64_t> llc_bytes;  // nullopt: no cache is modelled
  std::string latency_gap;                 // empty: as the trace says, else assumed
  std::string format = "text";
  bool wide = false;
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
  std::optional<MemoryTraffic::Told> memory = std::nullopt;
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

// The three of them, as every format names them.
struct NamedHitRate {
  const char* key;
  const char* name;
  std::optional<HitRate> HitRates::* rate;
};
constexpr NamedHitRate kNamedHitRates[] = {
    {"oracle_curve", "best placement", &HitRates::oracle},
    {"attainable", "this ranking", &HitRates::attainable},
    {"history_judged_apart", "an epoch later", &HitRates::history},
};

// The true hit rates, as every format names them.
struct NamedTruth {
  const char* key;
  const char* name;
  std::optional<double> (*of)(const TrueHitRates&);
};
constexpr NamedTruth kNamedTruths[] = {
    {"best", "truth: best placement", [](const TrueHitRates& rates) { return rates.best; }},
    {"ranked", "truth: this ranking", [](const TrueHitRates& rates) { return rates.ranked; }},
    {"history", "truth: an epoch later", [](const TrueHitRates& rates) { return rates.history; }},
};

// Tells how often the programs of a trace reach memory, and by what evidence.
struct MemoryRate {
  enum class Basis : std::uint8_t { kSamples, kCountedLoads, kModel };
  double per_cpu_second = 0;
  Basis basis = Basis::kSamples;
};

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

// nullopt: neither enough samples, nor a counter, nor a model give it, or the trace is evaluated in
// part.
std::optional<MemoryRate> MemoryRateOf(const TraceEnd& file) {
  using enum MemoryRate::Basis;
  if (file.is_part) return std::nullopt;
  const std::optional<MemoryTraffic::Told>& told = file.memory;
  if (told && told->is_counted())
    return MemoryRate{.per_cpu_second = told->accesses_per_second, .basis = kCountedLoads};
  if (told && *told->samples >= kFewestObservations)
    return MemoryRate{.per_cpu_second = told->accesses_per_second, .basis = kSamples};
  if (file.modelled_per_second)
    return MemoryRate{.per_cpu_second = *file.modelled_per_second, .basis = kModel};
  return std::nullopt;
}

// The CPU time that is saved, as a part of what the programs use, if all their accesses to memory
// go to tier 1 instead of tier 2, and no two overlap. nullopt: their rate is unknown.
std::optional<double> MemoryShare(const TraceEnd& file) {
  constexpr double kSecondsOfNs = 1e-9;
  const std::optional<MemoryRate> rate = MemoryRateOf(file);
  if (!rate) return std::nullopt;
  return rate->per_cpu_second * file.gap.ns * kSecondsOfNs;
}

std::uint64_t BytesOf(PageCount pages) { return pages.value() * kBasePageBytes; }

Result<Ranker::Options> RankerOptions(const EvalOptions& options) {
  const Result<RankModel> model = ParseRankModel(options.rank_model);
  if (!model) return Fail(model.error());
  Ranker::Options ranker = Ranker::DefaultOptions(*model);
  if (options.half_life == "none") {
    ranker.memory = Ranker::Memory::kThisEpoch;
  } else if (options.half_life == "learned") {
    if (*model != RankModel::kRate) {
      return Fail(OfOption("--half-life", options.half_life,
                           BadInput("", "", "rank model sum learns nothing",
                                    "give a time or 'none', or choose '--rank-model rate'")));
    }
    ranker.memory = Ranker::Memory::kLearned;
  } else if (!options.half_life.empty()) {
    const auto half_life = ParseTimeOption(options.half_life);
    if (!half_life) return Fail(OfOption("--half-life", options.half_life, half_life.error()));
    if (half_life->count() == 0) {
      return Fail(OfOption(
          "--half-life", options.half_life,
          BadInput("", "", "a half-life is longer than 0", "write 'none' to forget each epoch")));
    }
    ranker.memory = Ranker::Memory::kHalfLife;
    ranker.half_life = *half_life;
  }
  if (options.llc_bytes && *model != RankModel::kRate) {
    return Fail(OfOption(
        "--llc", FormatBytes(*options.llc_bytes),
        BadInput("", "", "rank model sum estimates no rates", "choose '--rank-model rate'")));
  }
  ranker.llc_bytes = options.llc_bytes;
  return ranker;
}

Result<ReplayOptions> ParseReplayOptions(const EvalOptions& options) {
  ReplayOptions replay;
  for (const std::string& name : options.policies) {
    const auto policy = FindPolicy(name);
    if (!policy) return Fail(OfOption("--policy", name, policy.error()));
    replay.policies.push_back(*policy);
  }
  const Result<RankWeight> weight = ParseRankWeight(options.rank_weight);
  if (!weight) return Fail(weight.error());
  replay.weight = *weight;
  for (const std::string& name : options.ranks) {
    const auto rank = ParseRankSource(name);
    if (!rank) return Fail(OfOption("--rank", name, rank.error()));
    replay.ranks.push_back(*rank);
  }
  for (const std::string& text : options.ratios) {
    const auto ratio = ParseRatio(text);
    if (!ratio) return Fail(OfOption("--ratio", text, ratio.error()));
    replay.ratios.push_back(*ratio);
  }
  for (const std::string& text : options.fast) {
    const auto bytes = ParseBytes(text);
    if (!bytes) return Fail(OfOption("--fast", text, bytes.error()));
    if (*bytes < kBasePageBytes) {
      return Fail(OfOption("--fast", text, BadInput("", "", "it holds no page of 4 KiB")));
    }
    replay.sizes.push_back(PageCount(*bytes / kBasePageBytes));
  }
  if (!replay.sizes.empty()) replay.ratios.clear();
  const Result<RatioOf> of = ParseRatioOf(options.of);
  if (!of) return Fail(of.error());
  replay.ratio_of = *of;
  for (const Status& different : {RequireDifferent("FILE", options.traces, options.traces),
                                  RequireDifferent("--policy", options.policies, replay.policies),
                                  RequireDifferent("--rank", options.ranks, replay.ranks),
                                  RequireDifferent("--ratio", options.ratios, replay.ratios),
                                  RequireDifferent("--fast", options.fast, replay.sizes)}) {
    if (!different) return Fail(different.error());
  }
  const auto judge = ParseRankSourceIfAny(options.judge == kAccesses ? Name(RankSource::kCombined)
                                                                     : options.judge);
  if (!judge) return Fail(judge.error());
  replay.judge = *judge;
  // A file of true accesses knows nothing of those that reached memory.
  if (!options.truth.empty() && !replay.judge) replay.judge = RankSource::kCombined;
  if (options.rank_model == Name(RankModel::kSum)) {
    const std::string memory(Name(RankSource::kMemory));
    const bool ranks = std::ranges::count(replay.ranks, RankSource::kMemory) > 0;
    if (ranks || replay.judge == RankSource::kMemory) {
      return Fail(OfOption(
          ranks ? "--rank" : "--judge", memory,
          BadInput("", "", "rank model sum estimates no rates", "choose '--rank-model rate'")));
    }
  }
  const auto ranker = RankerOptions(options);
  if (!ranker) return Fail(ranker.error());
  replay.ranker = *ranker;
  return replay;
}

// Unknown, as the hit rate is, where the judge saw nothing at all.
std::optional<double> WeightTotal(const ReplayResult& result) {
  return result.hit_rate ? std::optional(result.weight_total) : std::nullopt;
}

// The half-life as --half-life takes it.
std::string HalfLife(const Ranker::Options& ranker) {
  switch (ranker.memory) {
    case Ranker::Memory::kThisEpoch:
      break;
    case Ranker::Memory::kHalfLife:
      return FormatDuration(ranker.half_life);
    case Ranker::Memory::kLearned:
      return "learned";
  }
  return "none";
}

std::size_t CapacitiesOf(const ReplayOptions& options) {
  return options.sizes.empty() ? options.ratios.size() : options.sizes.size();
}

// "1/8"; "" of a size.
std::string RatioText(const std::optional<Ratio>& ratio) { return ratio ? ToString(*ratio) : ""; }
Json RatioJson(const std::optional<Ratio>& ratio) {
  return ratio ? Json(ToString(*ratio)) : Json(nullptr);
}

// "1/8 = 8 MiB", "64 MiB"
std::string CapacityText(const ReplayOptions& options, std::size_t at, PageCount capacity) {
  const std::string bytes = FormatBytes(BytesOf(capacity));
  return options.sizes.empty() ? fmt::format("{} = {}", ToString(options.ratios[at]), bytes)
                               : bytes;
}

Json AsJson(const TraceHitRates& told, const ReplayOptions& options) {
  const std::vector<Ratio>& ratios = options.ratios;
  Json rows = Json::array();
  for (std::size_t i = 0; i < told.at_ratio.size(); ++i) {
    const HitRates& rates = told.at_ratio[i];
    Json row = {{"trace", told.trace},
                {"of", told.judge == RankSource::kMemory ? Name(told.judge) : kAccesses},
                {"ratio", ratios.empty() ? Json(nullptr) : Json(ToString(ratios[i]))},
                {"ratio_of", ratios.empty() ? Json(nullptr) : Json(Name(options.ratio_of))},
                {"capacity_pages", rates.capacity.value()},
                {"capacity_bytes", BytesOf(rates.capacity)},
                {"pages", (rates.pages - rates.unknown).value()},
                {"unknown_pages", rates.unknown.value()}};
    for (const NamedHitRate& named : kNamedHitRates)
      row[named.key] = HitRateJson(rates.*named.rate);
    if (!told.truly.empty()) {
      Json& truly = row["truth"];
      for (const NamedTruth& named : kNamedTruths)
        truly[named.key] = OrNull(named.of(told.truly[i]));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

Json AsJson(const Evaluation& evaluation, const ReplayOptions& options) {
  const Ranker::Options& ranker = options.ranker;
  Json files = Json::array();
  for (const TraceEnd& file : evaluation.ends) {
    const std::optional<MemoryRate> rate = MemoryRateOf(file);
    files.push_back(WithEnd(
        {{"trace", file.trace},
         {"accesses_to_memory_per_cpu_second", rate ? Json(rate->per_cpu_second) : Json(nullptr)},
         {"accesses_to_memory_basis", rate ? Json(Name(rate->basis)) : Json(nullptr)},
         {"samples_of_memory",
          file.memory && !file.memory->is_counted() ? Json(*file.memory->samples) : Json(nullptr)},
         {"memory_is_modelled", file.models_memory},
         {"memory_time_share", OrNull(MemoryShare(file))},
         {"latency_gap_ns", file.refused ? Json(nullptr) : Json(file.gap.ns)},
         {"latency_gap_basis", file.refused ? Json(nullptr) : Json(Name(file.gap.basis))},
         {"rank_weight", file.refused ? Json(nullptr) : Json(Name(file.basis.weight))},
         {"observations", OrNull(file.observations)},
         {"refused", file.refused ? Json(file.refused->Message()) : Json(nullptr)}},
        file.end));
  }
  Json told = Json::array();
  for (const TraceHitRates& each : evaluation.told) {
    for (Json& row : AsJson(each, options)) told.push_back(std::move(row));
  }
  Json rows = Json::array();
  for (const auto& [trace, whole, is_told, result] : evaluation.results) {
    rows.push_back({{"trace", trace},
                    {"policy", result.policy},
                    {"rank", Name(result.rank)},
                    {"judge", Name(result.judge)},
                    {"ratio", RatioJson(result.ratio)},
                    {"ratio_of", result.ratio ? Json(Name(options.ratio_of)) : Json(nullptr)},
                    {"capacity_pages", result.capacity.value()},
                    {"capacity_bytes", BytesOf(result.capacity)},
                    {"epochs", result.epochs},
                    {"hit_rate", OrNull(result.hit_rate)},
                    {"told", is_told && result.hit_rate.has_value()},
                    {"weight_hit", result.weight_hit},
                    {"weight_total", OrNull(WeightTotal(result))},
                    {"moved_pages", result.moved_pages.value()}});
  }
  return {{"rank_model", Name(ranker.model)},      {"half_life", HalfLife(ranker)},
          {"llc_bytes", OrNull(ranker.llc_bytes)}, {"traces", std::move(files)},
          {"hit_rates", std::move(told)},          {"results", std::move(rows)}};
}

std::string AsCsv(const Evaluation& evaluation, const ReplayOptions& options) {
  const Ranker::Options& ranker = options.ranker;
  std::vector<std::string> header{"trace",      "policy",         "rank",        "judge",
                                  "ratio",      "capacity_pages", "epochs",      "hit_rate",
                                  "weight_hit", "weight_total",   "moved_pages", "rank_model",
                                  "half_life",  "capacity_bytes"};
  for (const NamedHitRate& named : kNamedHitRates) {
    for (const char* part : {"", "_low", "_high"}) {
      header.push_back(std::string(named.key) + part);
    }
  }
  header.push_back("ratio_of");
  for (const NamedTruth& named : kNamedTruths) header.push_back(fmt::format("truth_{}", named.key));
  header.push_back("told");
  std::string text = CsvLine(header);
  for (const TraceResult& row : evaluation.results) {
    const auto& [trace, whole, is_told, result] = row;
    std::vector<std::string> cells{trace,
                                   result.policy,
                                   std::string(Name(result.rank)),
                                   std::string(Name(result.judge)),
                                   RatioText(result.ratio),
                                   std::to_string(result.capacity.value()),
                                   std::to_string(result.epochs),
                                   OrEmpty(result.hit_rate, Exact),
                                   Exact(result.weight_hit),
                                   OrEmpty(WeightTotal(result), Exact),
                                   std::to_string(result.moved_pages.value()),
                                   std::string(Name(ranker.model)),
                                   HalfLife(ranker),
                                   std::to_string(BytesOf(result.capacity))};
    const auto [told, truly] = evaluation.RatesBeside(row);
    for (const NamedHitRate& named : kNamedHitRates) {
      const std::optional<HitRate> rate = told ? told->*named.rate : std::nullopt;
      for (const double HitRate::* part : {&HitRate::value, &HitRate::low, &HitRate::high}) {
        cells.push_back(rate ? Exact((*rate).*part) : std::string());
      }
    }
    cells.push_back(result.ratio ? std::string(Name(options.ratio_of)) : "");
    for (const NamedTruth& named : kNamedTruths) {
      cells.push_back(OrEmpty(truly ? named.of(*truly) : std::nullopt, Exact));
    }
    cells.push_back(is_told && result.hit_rate ? "true" : "false");
    text += CsvLine(cells);
  }
  return text;
}

std::string PagesText(const HitRates& rates) {
  const bool is_one = rates.pages == PageCount(1);
  const std::string pages = is_one ? "page" : CountText(rates.pages);
  return rates.unknown > PageCount(0)
             ? fmt::format("{} {}", is_one ? "the only" : "all", pages)
             : fmt::format("the {} that {} looked at or sampled", is_one ? "only page" : pages,
                           is_one ? "was" : "were");
}

// A row per kind of hit rate, a column per capacity.
std::string AsText(const TraceHitRates& told, const ReplayOptions& options, TextWidth width) {
  if (told.at_ratio.empty()) return "";
  std::vector<TextTable::Column> columns{
      {"hit rate", TextTable::Align::kLeft, TextTable::Importance::kKey}};
  for (std::size_t i = 0; i < CapacitiesOf(options); ++i)
    columns.push_back({CapacityText(options, i, told.at_ratio[i].capacity)});
  TextTable table(columns);
  bool all_told = true;
  for (const NamedHitRate& named : kNamedHitRates) {
    std::vector<std::string> cells{named.name};
    for (const HitRates& rates : told.at_ratio) {
      const std::optional<HitRate>& rate = rates.*named.rate;
      cells.push_back(WithInterval(rate));
      all_told &= !rate || rate->is_told();
    }
    table.AddRow(std::move(cells));
  }
  for (const NamedTruth& named : kNamedTruths) {
    if (told.truly.empty()) break;
    std::vector<std::string> cells{named.name};
    for (const TrueHitRates& rates : told.truly)
      cells.push_back(OrUnknown(named.of(rates), Percent));
    table.AddRow(std::move(cells));
  }
  const HitRates& first = told.at_ratio.front();
  std::string text = fmt::format(
      "Hit rates of {} to {}, with 90 % intervals: of the best placement, of this ranking, and of "
      "this ranking an epoch later\n",
      AccessesOf(told.judge), PagesText(first));
  text += table.Text(width);
  if (!all_told) text += "?: too little was seen to tell\n";
  return text + NoteOfUnknown(first);
}

// "170 ns slower below tier 1 (firmware)"
std::string GapText(const LatencyGap& gap) {
  return fmt::format("{:.0f} ns slower below tier 1 ({}{})", gap.ns, Name(gap.basis),
                     gap.basis == LatencyBasis::kAssumed ? "; set --latency-gap" : "");
}

std::string WhyNoMemoryRate(const TraceEnd& file, const Ranker::Options& ranker) {
  const auto few = [&file](const std::string& what_else) {
    const std::uint64_t samples = *file.memory->samples;
    return fmt::format("{} to memory {} sampled; it takes {}{}",
                       CountText(samples, "access", "accesses"), samples == 1 ? "was" : "were",
                       kFewestObservations, what_else);
  };
  if (ranker.llc_bytes && file.basis.source != RankSource::kMemory) {
    return fmt::format("the model of the cache tells it if hit rates are judged by memory, not {}",
                       Name(file.basis.source));
  }
  if (file.memory) return few(ranker.llc_bytes ? "" : ", or --llc");
  return fmt::format("it takes samples of accesses to memory that say how many each stands for{}",
                     ranker.llc_bytes ? "" : ", or --llc");
}

// The most that placement can save: first of all, is memory what the program waits for? Of a part
// of the memory nothing is said, because CPU time is that of all accesses.
std::string BoundText(const TraceEnd& file, const Ranker::Options& ranker) {
  if (file.is_part) return "";
  const std::optional<MemoryRate> rate = MemoryRateOf(file);
  if (!rate) {
    return fmt::format("{}: what placement can save is unknown: {}\n", Printable(file.trace),
                       WhyNoMemoryRate(file, ranker));
  }
  std::string what;
  std::string how;
  switch (rate->basis) {
    case MemoryRate::Basis::kSamples:
      what = "accesses to memory";
      how = CountText(*file.memory->samples, "sample");
      break;
    case MemoryRate::Basis::kCountedLoads:
      what = "loads from memory";
      how = "counted";
      break;
    case MemoryRate::Basis::kModel:
      what = "accesses to memory";
      how = "by a model of the cache, without those that a prefetcher hides";
      break;
  }
  return fmt::format(
      "{}: placement can save {} {} of the CPU time: {} {} per CPU second ({}), each {}. "
      "Overlapping accesses save less.\n",
      Printable(file.trace), rate->basis == MemoryRate::Basis::kModel ? "about" : "at most",
      Percent(*MemoryShare(file)),
      Grouped(static_cast<std::uint64_t>(std::llround(rate->per_cpu_second))), what, how,
      GapText(file.gap));
}

// "all accesses", "accesses to memory (misses)"
std::string WhatCounts(const RankBasis& judge) {
  const std::string of = judge.weight == RankWeight::kMemory     ? "accesses to memory"
                         : judge.weight == RankWeight::kAccesses ? "all accesses"
                                                                 : std::string(Name(judge.weight));
  return Name(judge.weight) == Name(judge.source) ? of
                                                  : fmt::format("{} ({})", of, Name(judge.source));
}

// Says which accesses the hit rates count, and why these are not those to memory.
std::string OfWhatAre(const std::string& trace, const RankBasis& judge) {
  std::string text = fmt::format("{}: hit rates count {}", Printable(trace), WhatCounts(judge));
  if (!judge.why_not.empty()) {
    text += fmt::format("; accesses to memory are unknown: {}", judge.why_not);
  }
  return text + "\n";
}

// "tier-1 : footprint ratio (256 MiB)"
std::string ColumnsText(const TraceResult& result, const ReplayOptions& options) {
  if (!result.result.ratio) return "capacity of tier 1";
  return fmt::format("tier-1 : {} ratio ({})", Name(options.ratio_of),
                     FormatBytes(BytesOf(result.whole)));
}

std::string NoteOfUntold(RankSource judge, const TraceEnd& file) {
  const std::uint64_t seen = file.observations.value_or(0);
  const std::string_view what = judge == RankSource::kReferences ? "references"
                                : judge == RankSource::kSamples  ? "samples"
                                                                 : "references and samples";
  return fmt::format(
      "?: too little was seen to tell: the judge goes by {}, of which {} {} seen; it takes {}\n",
      judge == RankSource::kMemory && !file.models_memory ? "samples" : what, seen,
      seen == 1 ? "was" : "were", kFewestObservations);
}

// One table per trace: a row per policy and rank, a column of hit rates per capacity.
std::string AsText(const Evaluation& evaluation, const ReplayOptions& options, TextWidth width) {
  const std::vector<TraceResult>& results = evaluation.results;
  std::string text;
  for (std::size_t i = 0; i < results.size();) {
    const std::string& trace = results[i].trace;
    for (const TraceEnd& file : evaluation.ends) {
      if (file.trace != trace) continue;
      text += BoundText(file, options.ranker);
      if (file.models_memory) {
        text += Printable(trace) + ": " + ByModelOfCache(*options.ranker.llc_bytes) + "\n";
      }
      text += OfWhatAre(trace, file.basis);
    }
    text +=
        fmt::format("{}: tier-1 hit rate by {}, {}, judged by {}; rank model {}, half-life {}\n",
                    Printable(trace), ColumnsText(results[i], options),
                    CountText(results[i].result.epochs, "epoch"), Name(results[i].result.judge),
                    Name(options.ranker.model), HalfLife(options.ranker));
    std::vector<TextTable::Column> columns{
        {"policy", TextTable::Align::kLeft, TextTable::Importance::kKey},
        {"rank", TextTable::Align::kLeft, TextTable::Importance::kKey}};
    for (std::size_t at = 0; at < CapacitiesOf(options); ++at) {
      columns.push_back({CapacityText(options, at, results[i + at].result.capacity)});
    }
    columns.push_back({"pages moved at " + CapacityText(options, 0, results[i].result.capacity),
                       TextTable::Align::kRight, TextTable::Importance::kThird});
    TextTable table(columns);
    const RankSource judge = results[i].result.judge;
    bool is_told = true;
    while (i < results.size() && results[i].trace == trace) {
      const ReplayResult& first = results[i].result;
      std::vector<std::string> cells{first.policy, std::string(Name(first.rank))};
      for (std::size_t at = 0; at < CapacitiesOf(options); ++at) {
        const TraceResult& row = results[i++];
        cells.push_back(
            row.is_told || !row.result.hit_rate ? OrUnknown(row.result.hit_rate, Percent) : "? %");
        is_told = is_told && row.is_told;
      }
      cells.push_back(Grouped(first.moved_pages.value()));
      table.AddRow(std::move(cells));
    }
    text += table.Text(width);
    if (!is_told) text += NoteOfUntold(judge, evaluation.EndOf(trace));
    for (const TraceHitRates& told : evaluation.told) {
      if (told.trace == trace) text += AsText(told, options, width);
    }
  }
  return text;
}

// The part of a trace that is evaluated, and the truth that checks it.
struct EvaluationScope {
  std::vector<VpnRange> ranges;  // empty: all memory
  std::optional<Truth> truth;
  std::optional<double> latency_gap_ns;  // nullopt: as the trace says
};

// Opens the part of a trace that lies in these ranges; with none, all of it.
OpenTrace PartOf(OpenTrace open, const std::vector<VpnRange>& ranges) {
  if (ranges.empty()) return open;
  return [open = std::move(open), ranges]() -> Result<std::unique_ptr<EpochStream>> {
    auto whole = open();
    if (!whole) return whole;
    return std::make_unique<PartOfStream>(*std::move(whole), ranges);
  };
}

// Adds the figures of one trace to the evaluation.
Result<int> EvaluateFile(const std::string& path, const EvaluationScope& scope,
                         const ReplayOptions& options, Evaluation& evaluation) {
  const Result<Trace> trace = OpenTraceFile(path);
  if (!trace) return Fail(trace.error());
  const OpenTrace open = PartOf(trace->open, scope.ranges);
  Result<ReplayOutcome> outcome = Replay(open, options);
  if (!outcome) return Fail(OfTrace(path, std::move(outcome.error())));
  TraceHitRates told{.trace = path, .judge = outcome->judge, .at_ratio = {}, .truly = {}};
  const bool can_check = !scope.truth || outcome->judge != RankSource::kMemory;
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
    if (!rates) return Fail(OfTrace(path, std::move(rates.error())));
    told.at_ratio = *std::move(rates);
    for (const PageCount capacity : capacities) {
      if (judge) told.truly.push_back(judge->At(capacity));
    }
  }
  if (scope.truth && told.at_ratio.empty()) {
    return Fail(BadInput(
        "use option", "--truth",
        fmt::format("no hit rates are told by the judge {}, to be checked", Name(outcome->judge)),
        "use --judge accesses and the rank model rate"));
  }
  evaluation.told.push_back(std::move(told));
  evaluation.ends.push_back({.trace = path,
                             .end = outcome->end,
                             .memory = outcome->memory,
                             .is_part = !scope.ranges.empty(),
                             .models_memory = outcome->models_memory,
                             .modelled_per_second = outcome->modelled_per_second,
                             .basis = outcome->basis,
                             .gap = scope.latency_gap_ns ? LatencyGap{.ns = *scope.latency_gap_ns,
                                                                      .basis = LatencyBasis::kGiven}
                                                         : GapsOf(trace->info.settings).Of(kTier2),
                             .observations = outcome->observations});
  for (ReplayResult& result : outcome->results) {
    evaluation.results.push_back({path, outcome->whole, outcome->is_told(), std::move(result)});
  }
  return WarnOfEnd(outcome->end, path, "replayed");
}

Result<EvaluationScope> ScopeOf(const EvalOptions& options) {
  EvaluationScope scope;
  if (!options.latency_gap.empty()) {
    const auto gap = ParseDuration(options.latency_gap);
    if (!gap) return Fail(OfOption("--latency-gap", options.latency_gap, gap.error()));
    if (gap->count() == 0) {
      return Fail(OfOption("--latency-gap", options.latency_gap,
                           BadInput("", "", "slower memory takes longer than tier 1")));
    }
    scope.latency_gap_ns = static_cast<double>(gap->count());
  }
  for (const std::string& text : options.addresses) {
    const Result<VpnRange> range = ParseAddresses(text);
    if (!range) return Fail(range.error());
    scope.ranges.push_back(*range);
  }
  if (options.truth.empty()) return scope;
  if (IsTraceOrLedger(options.truth)) {
    return Fail(OfOption("--truth", options.truth,
                         BadInput("", "", "it is a trace",
                                  "join both by 'tmprof convert --beside' and use --judge truth")));
  }
  Result<Truth> truth = ReadTruth(options.truth);
  if (!truth) return Fail(std::move(truth.error()));
  if (!scope.ranges.empty()) *truth = TruthWithin(*std::move(truth), scope.ranges);
  if (truth->phases.empty()) {
    return Fail(OfOption("--truth", options.truth,
                         BadInput("", "", "it has no access within --addresses")));
  }
  scope.truth = *std::move(truth);
  return scope;
}

// The curves of the traces, and the errors of those that have none.
struct Curves {
  std::vector<CapacityCurve> told;
  std::vector<std::pair<std::string, Error>> refused;
};

std::string AsText(const Curves& curves, TextWidth width) {
  std::string text;
  for (const CapacityCurve& curve : curves.told) {
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", Printable(curve.totals.trace),
                        CapacityCurveText(curve, width));
  }
  return text;
}

Json AsJson(const Curves& curves, const Ranker::Options& ranker) {
  Json refused = Json::array();
  for (const auto& [trace, error] : curves.refused)
    refused.push_back({{"trace", trace}, {"refused", error.Message()}});
  return {{"rank_model", Name(ranker.model)},
          {"half_life", HalfLife(ranker)},
          {"llc_bytes", OrNull(ranker.llc_bytes)},
          {"curves", CapacityCurvesJson(curves.told)},
          {"traces_without", std::move(refused)}};
}

Result<CapacityCurve> CurveOf(const std::string& path, const EvaluationScope& scope,
                              const ReplayOptions& options) {
  Result<Trace> trace = OpenTraceFile(path);
  if (!trace) return Fail(trace.error());
  trace->name = path;
  trace->llc_bytes = options.ranker.llc_bytes;
  trace->open = PartOf(std::move(trace->open), scope.ranges);
  Result<CapacityCurve> curve = MakeCapacityCurve(
      *trace,
      {.weight = options.weight, .by = options.judge, .epochs = {}, .ranker = options.ranker});
  if (!curve) return Fail(OfTrace(path, std::move(curve.error())));
  return curve;
}

Result<int> TellCurves(const EvalOptions& options, Format format, const ReplayOptions& replay,
                       const EvaluationScope& scope) {
  if (replay.ranker.model != RankModel::kRate) {
    return Fail(BadInput("use option", "--curve", "rank model sum estimates no rates",
                         "choose '--rank-model rate'"));
  }
  Curves curves;
  int exit_status = kDone;
  for (const std::string& path : options.traces) {
    Result<CapacityCurve> curve = CurveOf(path, scope, replay);
    if (curve) {
      exit_status = std::max(exit_status, WarnOfEnd(curve->totals.end, path, "evaluated"));
      curves.told.push_back(*std::move(curve));
      continue;
    }
    if (options.traces.size() == 1) return Fail(std::move(curve.error()));
    exit_status = std::max(exit_status, ReportError(curve.error()));
    curves.refused.emplace_back(path, std::move(curve.error()));
  }
  const TextWidth width = OutputWidth(options.wide);
  switch (format) {
    case Format::kText:
      return AnswerText(AsText(curves, width), width, exit_status);
    case Format::kJson:
      return Answer(JsonText(AsJson(curves, replay.ranker)), exit_status);
    case Format::kCsv:
      return Answer(CapacityCurvesCsv(curves.told), exit_status);
  }
  return exit_status;
}

// A weight that neither ranks nor judges would be passed over in silence.
Status RequireWeightIsRead(const CLI::App& command, const EvalOptions& options) {
  if (command.count("--rank-weight") == 0) return {};
  const bool is_judged = !options.judge.empty() || !options.truth.empty();
  if (!is_judged || (options.ranks.empty() && !options.curve)) return {};
  return Fail(BadInput("use option", "--rank-weight",
                       options.curve ? "--judge chooses evidence instead of a weight"
                       : options.judge.empty()
                           ? "--rank and --truth choose evidence instead of a weight"
                           : "--rank and --judge choose evidence instead of a weight",
                       "leave --rank-weight out"));
}

Result<int> Evaluate(const CLI::App& command, const EvalOptions& options) {
  if (Status read = RequireWeightIsRead(command, options); !read) return Fail(read.error());
  const Result<Format> format = ParseFormat(options.format);
  if (!format) return Fail(format.error());
  const Result<ReplayOptions> replay = ParseReplayOptions(options);
  if (!replay) return Fail(replay.error());
  const Result<EvaluationScope> scope = ScopeOf(options);
  if (!scope) return Fail(scope.error());
  if (options.curve) return TellCurves(options, *format, *replay, *scope);

  Evaluation evaluation;
  int exit_status = kDone;
  for (const std::string& path : options.traces) {
    const Result<int> status = EvaluateFile(path, *scope, *replay, evaluation);
    if (status) {
      exit_status = std::max(exit_status, *status);
      continue;
    }
    if (options.traces.size() == 1) return Fail(status.error());
    // One bad file does not take the results of the others away.
    exit_status = std::max(exit_status, ReportError(status.error()));
    evaluation.ends.push_back({.trace = path, .end = {}, .refused = status.error()});
  }
  const TextWidth width = OutputWidth(options.wide);
  switch (*format) {
    case Format::kText:
      return AnswerText(AsText(evaluation, *replay, width), width, exit_status);
    case Format::kJson:
      return Answer(JsonText(AsJson(evaluation, *replay)), exit_status);
    case Format::kCsv:
      return Answer(AsCsv(evaluation, *replay), exit_status);
  }
  return exit_status;
}

}  // namespace

void AddEvalCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand(
      "eval", "Tells the hit rate of fast memory that placement policies would have had");
  auto options = std::make_shared<EvalOptions>();
  command->add_option("FILE,-i,--input", options->traces, "Trace files")->capture_default_str();
  std::string policies = "Policies:";
  for (const PolicyEntry& entry : Policies()) {
    policies += fmt::format("\n  {}  {}", entry.name, entry.description);
  }
  CLI::Option* policy = command->add_option("--policy", options->policies, "Policies to replay")
                            ->type_name("POLICY,...")
                            ->delimiter(',')
                            ->capture_default_str();
  CLI::Option* ratio =
      command
          ->add_option("--ratio", options->ratios, "Capacities of tier 1, as parts of the memory")
          ->type_name("RATIO,...")
          ->delimiter(',')
          ->capture_default_str();
  CLI::Option* of =
      command
          ->add_option(
              "--of", options->of,
              "Memory that a ratio is of\n"
              "The footprint is all pages seen accessed; 'resident' is the most memory that the "
              "processes had.")
          ->check(OneOf({"footprint", "resident"}))
          ->capture_default_str();
  CLI::Option* fast =
      command
          ->add_option("--fast", options->fast, "Capacities of tier 1 in bytes, instead of ratios")
          ->type_name("SIZE,...")
          ->delimiter(',')
          ->excludes(ratio)
          ->excludes(of);
  command
      ->add_option("--addresses", options->addresses,
                   "Evaluate only pages in these ranges of each process")
      ->type_name("START-END,...")
      ->delimiter(',')
      ->excludes(of);
  CLI::Option* truth = command
                           ->add_option("--truth", options->truth,
                                        "Add the true hit rates, by this file of real accesses\n"
                                        "A workload of tmprof wrote the file.")
                           ->type_name("FILE");
  AddRankWeight(*command, options->rank_weight);
  CLI::Option* rank = command
                          ->add_option("--rank", options->ranks,
                                       "Evidence that policies use, instead of --rank-weight")
                          ->type_name("EVIDENCE,...")
                          ->delimiter(',');
  command
      ->add_option("--judge", options->judge,
                   "Evidence that says what a hit is worth, instead of --rank-weight")
      ->check(
          OneOf({"memory", "accesses", "combined", "references", "samples", "truth", "misses"}));
  AddRankModel(*command, options->rank_model);
  command
      ->add_option("--half-life", options->half_life,
                   "CPU time after which evidence weighs half: TIME, learned or none\n"
                   "It is the target's CPU time, or wall-clock time where that is unknown; a bare "
                   "number is seconds. 'learned' follows how long access rates last. The default "
                   "is 'learned' by rank model rate, and 'none' by sum.")
      ->type_name("TIME");
  AddLlc(*command, options->llc_bytes);
  CLI::Option* curve = command->add_flag(
      "--curve", options->curve, "Show hit rates by capacity instead of replaying policies");
  for (CLI::Option* other : {policy, ratio, of, fast, truth, rank}) curve->excludes(other);
  command
      ->add_option("--latency-gap", options->latency_gap,
                   "How much longer an access takes below tier 1, as in 100ns\n"
                   "The default is what the recording machine's firmware reported, else 100ns. "
                   "The time needs a unit.")
      ->type_name("TIME")
      ->excludes(curve);
  AddFormat(*command, options->format);
  AddWide(*command, options->wide);
  command->footer(policies +
                  "\n\n"
                  "Examples:\n"
                  "  tmprof eval server.data --policy history,oracle --ratio 1/8,1/16\n"
                  "  tmprof eval server.data --llc 32MiB\n"
                  "  tmprof eval server.data --fast 64MiB,1GiB\n"
                  "  tmprof eval server.data --curve --format csv");
  command->callback([command, options, &exit_status] {
    exit_status = ExitStatusOf(Evaluate(*command, *options));
  });
}

}  // namespace tmprof
