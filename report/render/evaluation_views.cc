// SPDX-License-Identifier: Apache-2.0

#include "report/render/evaluation_views.h"

#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/latency_gap.h"
#include "base/text/human_units.h"
#include "report/analysis/hit_rate_text.h"

namespace tmprof {
namespace {

// The judge `combined`, by the name of what it estimates.
constexpr std::string_view kAccesses = "accesses";

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

std::uint64_t BytesOf(PageCount pages) { return pages.value() * kBasePageBytes; }

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

// "all accesses", "accesses to memory (misses)", "stall time"
std::string WhatCounts(const RankBasis& judge) {
  const std::string of = judge.weight == RankWeight::kMemory     ? "accesses to memory"
                         : judge.weight == RankWeight::kAccesses ? "all accesses"
                         : judge.weight == RankWeight::kStall    ? "stall time"
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

}  // namespace

std::string EvaluationText(const Evaluation& evaluation, const ReplayOptions& options,
                           TextWidth width) {
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

std::string EvaluationJson(const Evaluation& evaluation, const ReplayOptions& options) {
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
  return JsonText({{"rank_model", Name(ranker.model)},
                   {"half_life", HalfLife(ranker)},
                   {"llc_bytes", OrNull(ranker.llc_bytes)},
                   {"traces", std::move(files)},
                   {"hit_rates", std::move(told)},
                   {"results", std::move(rows)}});
}

std::string EvaluationCsv(const Evaluation& evaluation, const ReplayOptions& options) {
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

std::string CurvesText(const Curves& curves, TextWidth width) {
  std::string text;
  for (const CapacityCurve& curve : curves.told) {
    text += fmt::format("{}{}\n{}", text.empty() ? "" : "\n", Printable(curve.totals.trace),
                        CapacityCurveText(curve, width));
  }
  return text;
}

std::string CurvesJson(const Curves& curves, const Ranker::Options& ranker) {
  Json refused = Json::array();
  for (const auto& [trace, error] : curves.refused)
    refused.push_back({{"trace", trace}, {"refused", error.Message()}});
  return JsonText({{"rank_model", Name(ranker.model)},
                   {"half_life", HalfLife(ranker)},
                   {"llc_bytes", OrNull(ranker.llc_bytes)},
                   {"curves", CapacityCurvesJson(curves.told)},
                   {"traces_without", std::move(refused)}});
}

std::string CurvesCsv(const Curves& curves) { return CapacityCurvesCsv(curves.told); }

}  // namespace tmprof
