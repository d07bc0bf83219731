// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "base/ratio.h"
#include "base/text/format.h"
#include "base/text/human_units.h"
#include "base/text/option_fault.h"
#include "proto/trace.h"
#include "report/analysis/accuracy.h"
#include "report/render/accuracy_views.h"

namespace tmprof {
namespace {

struct ScoreOptions {
  std::string trace{kDefaultTrace};
  std::string truth;
  std::optional<std::chrono::nanoseconds> truth_phase;
  std::string by = "accesses";
  std::string k_ratio = "1/16";
  std::string rank_model = "rate";
  bool among_truth = false;
  bool partial_truth = false;
  std::string format = "text";
  bool wide = false;
};

Result<Truth> TruthFrom(const ScoreOptions& options) {
  const RankSource by = options.by == Name(RankSource::kMisses)  ? RankSource::kMisses
                        : options.by == Name(RankSource::kStall) ? RankSource::kStall
                                                                 : RankSource::kTruth;
  if (!IsTraceOrLedger(options.truth)) {
    Result<Truth> truth = ReadTruth(options.truth);
    if (!truth || truth->of == by) return truth;
    const bool of_misses = truth->of == RankSource::kMisses;
    return Fail(BadInput(
        "read " + options.by, options.truth,
        of_misses ? "it tells of misses alone" : "it tells of accesses alone",
        of_misses ? "use --by misses"
        : by == RankSource::kStall
            ? "use a trace as truth that 'tmprof record --source exact --exact-llc SIZE "
              "--exact-stalls TIME' made"
            : "use a trace as truth that 'tmprof record --source exact --exact-llc SIZE' or the "
              "machine of 'testbed/vm --tiersim' made"));
  }
  const Result<Trace> trace = OpenTraceFile(options.truth);
  if (!trace) return Fail(trace.error());
  const auto epochs = trace->open();
  if (!epochs) return Fail(epochs.error());
  return TruthOfEpochs(**epochs, options.truth, options.truth_phase, by);
}

// A part of the truth makes rankings look better than they are: what was accessed later is missing.
Status RequireWhole(const ScoreOptions& options, const StreamEnd& end) {
  if (options.partial_truth || (!end.damage && end.finished != false)) return {};
  return Fail(
      BadInput("score by truth", options.truth,
               end.damage ? end.damage->Fact() : "its recorder was stopped before it could finish",
               "record it again, or take it as it is with --partial-truth"));
}

Result<int> Score(const ScoreOptions& options) {
  const Result<Format> format = ParseFormat(options.format);
  if (!format) return Fail(format.error());
  const Result<Ratio> k_ratio = ParseRatio(options.k_ratio);
  if (!k_ratio) return Fail(OfOption("--k-ratio", options.k_ratio, k_ratio.error()));
  const Result<RankModel> model = ParseRankModel(options.rank_model);
  if (!model) return Fail(model.error());
  const Result<Truth> truth = TruthFrom(options);
  if (!truth) return Fail(truth.error());
  if (Status whole = RequireWhole(options, truth->end); !whole) return Fail(whole.error());
  const Result<Trace> trace = OpenTraceFile(options.trace);
  if (!trace) return Fail(trace.error());
  const auto epochs = trace->open();
  if (!epochs) return Fail(epochs.error());

  const Result<AccuracyOutcome> outcome = ScoreAgainstTruth(
      **epochs, *truth, {.k_ratio = *k_ratio, .model = *model, .among_truth = options.among_truth});
  if (!outcome) return Fail(OfTrace(options.trace, outcome.error()));
  const int exit_status = std::max(WarnOfEnd(truth->end, options.truth, "taken for the truth"),
                                   WarnOfEnd(outcome->end, options.trace, "scored"));
  const TextWidth width = OutputWidth(options.wide);
  switch (*format) {
    case Format::kText:
      return AnswerText(AccuracyText(outcome->rows, options.by, width), width, exit_status);
    case Format::kJson:
      return Answer(AccuracyJson(*outcome, options.by, truth->end), exit_status);
    case Format::kCsv:
      return Answer(AccuracyCsv(outcome->rows, options.by), exit_status);
  }
  return exit_status;
}

}  // namespace

void AddScoreCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("score", "Scores a trace's rankings against known truth");
  auto options = std::make_shared<ScoreOptions>();
  command->add_option("FILE,-i,--input", options->trace, "Trace to judge")->capture_default_str();
  command
      ->add_option("--truth", options->truth,
                   "File of the real accesses\n"
                   "A workload of tmprof wrote it, or it is a trace with exact accesses.")
      ->type_name("FILE")
      ->required();
  AddDuration(*command, "--truth-phase", options->truth_phase,
              "Judge by phases of at least this length, if the truth is a trace\n"
              "Without it, the whole trace is one phase. A bare number is seconds.");
  command
      ->add_option("--by", options->by,
                   "Accesses of the truth that count\n"
                   "'misses' are those that missed the modelled last-level cache of a trace. "
                   "'stall' weighs them by the time that they waited for memory.")
      ->check(OneOf({"accesses", "misses", "stall"}))
      ->capture_default_str();
  command->add_option("--k-ratio", options->k_ratio, "Hottest pages to compare, as a ratio of all")
      ->type_name("RATIO")
      ->capture_default_str();
  command->add_flag("--among-truth", options->among_truth,
                    "Rank only pages that the truth has\n"
                    "Pages that it leaves out, such as those of libraries, then take no place "
                    "among the hottest.");
  command->add_flag("--partial-truth", options->partial_truth,
                    "Use a damaged or unfinished truth as far as it goes");
  AddRankModel(*command, options->rank_model);
  AddFormat(*command, options->format);
  AddWide(*command, options->wide);
  command->footer(
      "rho and tau-b are Spearman's and Kendall's rank correlation over all pages of the truth. "
      "Pages that a source does not rank are tied last.\n\n"
      "Examples:\n"
      "  tmprof record hotset --duration 31s --truth truth.json\n"
      "  tmprof score --truth truth.json\n"
      "  tmprof score vm.data --truth vm-truth.data --truth-phase 10 --by misses");
  command->callback([options, &exit_status] { exit_status = ExitStatusOf(Score(*options)); });
}

}  // namespace tmprof
