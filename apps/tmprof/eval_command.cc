// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "base/text/format.h"
#include "policy/policy.h"
#include "policy/replay/replay.h"
#include "proto/trace.h"
#include "report/analysis/evaluation.h"
#include "report/analysis/evaluation_request.h"
#include "report/render/evaluation_views.h"

namespace tmprof {
namespace {

struct EvalOptions {
  EvaluationRequest request{.traces = {std::string(kDefaultTrace)}};
  std::string rank_weight = "memory";
  std::string format = "text";
  bool wide = false;
};

// Opens a trace under the name that the user gave, and has `tell` tell something of it.
template <typename T>
Result<T> OfFile(const std::string& path, const std::function<Result<T>(Trace)>& tell) {
  Result<Trace> trace = OpenTraceFile(path);
  if (!trace) return Fail(std::move(trace.error()));
  trace->name = path;
  Result<T> answer = tell(*std::move(trace));
  if (!answer) return Fail(OfTrace(path, std::move(answer.error())));
  return answer;
}

Result<int> TellCurves(const EvalOptions& options, Format format, const ReplayOptions& replay,
                       const EvaluationScope& scope) {
  if (replay.ranker.model != RankModel::kRate) {
    return Fail(BadInput("use option", "--curve", "rank model sum estimates no rates",
                         "choose '--rank-model rate'"));
  }
  Curves curves;
  int exit_status = kDone;
  for (const std::string& path : options.request.traces) {
    Result<CapacityCurve> curve = OfFile<CapacityCurve>(
        path, [&](Trace trace) { return CurveOf(std::move(trace), scope, replay); });
    if (curve) {
      exit_status = std::max(exit_status, WarnOfEnd(curve->totals.end, path, "evaluated"));
      curves.told.push_back(*std::move(curve));
      continue;
    }
    if (options.request.traces.size() == 1) return Fail(std::move(curve.error()));
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

Result<int> Evaluate(const EvalOptions& options) {
  const Result<Format> format = ParseFormat(options.format);
  if (!format) return Fail(format.error());
  Result<ReplayOptions> replay = ReplayOptionsOf(options.request);
  if (!replay) return Fail(replay.error());
  const Result<EvaluationScope> scope = ScopeOf(options.request);
  if (!scope) return Fail(scope.error());
  if (scope->truth && !replay->judge) {
    const Result<RankSource> judge = JudgeOf(*scope->truth, replay->ranker.model);
    if (!judge) return Fail(judge.error());
    replay->judge = *judge;
  }
  if (options.request.curve) return TellCurves(options, *format, *replay, *scope);

  Evaluation evaluation;
  int exit_status = kDone;
  for (const std::string& path : options.request.traces) {
    const Status evaluated = OfFile<void>(path, [&](const Trace& trace) {
      return EvaluateTrace(trace, *scope, *replay, evaluation);
    });
    if (evaluated) {
      const StreamEnd& end = evaluation.ends.back().end;
      exit_status = std::max(exit_status, WarnOfEnd(end, path, "replayed"));
      continue;
    }
    if (options.request.traces.size() == 1) return Fail(evaluated.error());
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
  EvaluationRequest& request = options->request;
  command->add_option("FILE,-i,--input", request.traces, "Trace files")->capture_default_str();
  std::string policies = "Policies:";
  for (const PolicyEntry& entry : Policies()) {
    policies += fmt::format("\n  {}  {}", entry.name, entry.description);
  }
  CLI::Option* policy = command->add_option("--policy", request.policies, "Policies to replay")
                            ->type_name("POLICY,...")
                            ->delimiter(',')
                            ->capture_default_str();
  CLI::Option* ratio =
      command->add_option("--ratio", request.ratios, "Capacities of tier 1, as parts of the memory")
          ->type_name("RATIO,...")
          ->delimiter(',')
          ->capture_default_str();
  CLI::Option* of =
      command
          ->add_option(
              "--of", request.of,
              "Memory that a ratio is of\n"
              "The footprint is all pages seen accessed; 'resident' is the most memory that the "
              "processes had.")
          ->check(OneOf({"footprint", "resident"}))
          ->capture_default_str();
  CLI::Option* fast =
      command
          ->add_option("--fast", request.fast, "Capacities of tier 1 in bytes, instead of ratios")
          ->type_name("SIZE,...")
          ->delimiter(',')
          ->excludes(ratio)
          ->excludes(of);
  command
      ->add_option("--addresses", request.addresses,
                   "Evaluate only pages in these ranges of each process")
      ->type_name("START-END,...")
      ->delimiter(',')
      ->excludes(of);
  CLI::Option* truth = command
                           ->add_option("--truth", request.truth,
                                        "Add the true hit rates, by this file of real accesses\n"
                                        "A workload of tmprof wrote the file.")
                           ->type_name("FILE");
  AddRankWeight(*command, options->rank_weight);
  CLI::Option* rank = command
                          ->add_option("--rank", request.ranks,
                                       "Evidence that policies use, instead of --rank-weight")
                          ->type_name("EVIDENCE,...")
                          ->delimiter(',');
  command
      ->add_option("--judge", request.judge,
                   "Evidence that says what a hit is worth, instead of --rank-weight")
      ->check(OneOf(
          {"memory", "accesses", "combined", "references", "samples", "truth", "misses", "stall"}));
  AddRankModel(*command, request.rank_model);
  command
      ->add_option("--half-life", request.half_life,
                   "CPU time after which evidence weighs half: TIME, learned or none\n"
                   "It is the target's CPU time, or wall-clock time where that is unknown; a bare "
                   "number is seconds. 'learned' follows how long access rates last. The default "
                   "is 'learned' by rank model rate, and 'none' by sum.")
      ->type_name("TIME");
  AddLlc(*command, request.llc_bytes);
  CLI::Option* curve = command->add_flag(
      "--curve", request.curve, "Show hit rates by capacity instead of replaying policies");
  for (CLI::Option* other : {policy, ratio, of, fast, truth, rank}) curve->excludes(other);
  command
      ->add_option("--latency-gap", request.latency_gap,
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
    if (command->count("--rank-weight") > 0) options->request.rank_weight = options->rank_weight;
    exit_status = ExitStatusOf(Evaluate(*options));
  });
}

}  // namespace tmprof
