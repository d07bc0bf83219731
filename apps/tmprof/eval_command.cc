// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "base/ratio.h"
#include "base/text/addresses.h"
#include "base/text/format.h"
#include "base/text/human_units.h"
#include "base/text/option_fault.h"
#include "policy/policy.h"
#include "policy/replay/replay.h"
#include "proto/trace.h"
#include "report/analysis/accuracy.h"
#include "report/analysis/evaluation.h"
#include "report/render/evaluation_views.h"

namespace tmprof {
namespace {

// The judge `combined`, by the name of what it estimates.
constexpr std::string_view kAccesses = "accesses";

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

// Opens a trace under the name that the user gave, and has `tell` tell something of it.
template <typename Told>
Result<Told> OfFile(const std::string& path, const std::function<Result<Told>(Trace)>& tell) {
  Result<Trace> trace = OpenTraceFile(path);
  if (!trace) return Fail(std::move(trace.error()));
  trace->name = path;
  Result<Told> told = tell(*std::move(trace));
  if (!told) return Fail(OfTrace(path, std::move(told.error())));
  return told;
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
    Result<CapacityCurve> curve = OfFile<CapacityCurve>(
        path, [&](Trace trace) { return CurveOf(std::move(trace), scope, replay); });
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
      return AnswerText(CurvesText(curves, width), width, exit_status);
    case Format::kJson:
      return Answer(CurvesJson(curves, replay.ranker), exit_status);
    case Format::kCsv:
      return Answer(CurvesCsv(curves), exit_status);
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
    const Status evaluated = OfFile<void>(path, [&](const Trace& trace) {
      return EvaluateTrace(trace, *scope, *replay, evaluation);
    });
    if (evaluated) {
      const StreamEnd& end = evaluation.ends.back().end;
      exit_status = std::max(exit_status, WarnOfEnd(end, path, "replayed"));
      continue;
    }
    if (options.traces.size() == 1) return Fail(evaluated.error());
    // One bad file does not take the results of the others away.
    exit_status = std::max(exit_status, ReportError(evaluated.error()));
    evaluation.ends.push_back({.trace = path, .end = {}, .refused = evaluated.error()});
  }
  const TextWidth width = OutputWidth(options.wide);
  switch (*format) {
    case Format::kText:
      return AnswerText(EvaluationText(evaluation, *replay, width), width, exit_status);
    case Format::kJson:
      return Answer(EvaluationJson(evaluation, *replay), exit_status);
    case Format::kCsv:
      return Answer(EvaluationCsv(evaluation, *replay), exit_status);
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
