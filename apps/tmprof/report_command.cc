// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/components.h"
#include "apps/tmprof/reported_objects.h"
#include "proto/ledger_file.h"
#include "proto/trace.h"
#include "report/view.h"
#include "report/view_request.h"

namespace tmprof {
namespace {

constexpr std::string_view kInput = "--input";
// Columns of maps and bars in a file or pipe.
constexpr std::size_t kColumnsOfFile = 100;

struct ReportOptions {
  std::string trace{kDefaultTrace};
  std::string view = "summary";
  ViewRequest request;
  std::string rank_weight = "memory";
  std::string format = "text";
  bool wide = false;
  std::string png;
  std::optional<std::uint64_t> llc_bytes;  // nullopt: no cache is modelled
  ReportedObjects objects;
};

constexpr const char* kObjectExamples =
    "\n"
    "  tmprof report server.data --view objects --by object\n"
    "  tmprof report server.data --view objects --page 0x7f0000012345\n"
    "  tmprof report server.data --view objects --counts tmprof-1234.objects\n"
    "  tmprof report tmprof-1234.objects --view objects --folded stacks.txt";

// Admits the words, and those of objects if they are built in. The latter come last.
CLI::Validator OneOfBuilt(std::vector<std::string> words, const std::vector<std::string>& objects) {
  if (!HasObjects()) return OneOfThese(std::move(words), objects, "objects");
  words.insert(words.end(), objects.begin(), objects.end());
  return OneOf(std::move(words));
}

// The check of --by. It lets the groups pass, which RefuseGroupAsEvidence() refuses by a better
// message.
CLI::Validator EvidenceCheck() {
  CLI::Validator evidence =
      OneOfBuilt({"references", "samples", "combined", "memory", "truth", "misses", "stall"},
                 {"site", "type", "object"});
  std::string description = evidence.get_description();
  return {[evidence = std::move(evidence)](std::string& by) {
            return IsHotGroup(by) ? std::string() : evidence(by);
          },
          std::move(description)};
}

Result<int> AnswerAs(const Rendered& rendered, const ViewOptions& options, Format format,
                     int exit_status) {
  const TextWidth width = format == Format::kText ? options.table_columns : std::nullopt;
  return AnswerText(rendered.output, width, exit_status);
}

Result<int> ReportLedger(const CLI::App& command, const ReportOptions& options, const View& view,
                         const ViewOptions& view_options, Format format) {
  if (!options.png.empty()) {
    if (auto status = RequirePicture(view); !status) return Fail(status.error());
  }
  if (command.count(std::string(kInput)) == 0) {
    return Fail(BadInput("use option", fmt::format("--view {}", view.name), "it is of a ledger",
                         "name the ledger file, as in 'tmprof report FILE --view moves'"));
  }
  Result<LedgerReader> ledger = LedgerReader::Open(options.trace);
  if (!ledger) return Fail(ExplainRefusal(ledger.error(), options.trace));
  const Result<Rendered> rendered = RenderLedgerView(view.name, *ledger, view_options, format);
  if (!rendered) return Fail(rendered.error());
  const int exit_status = WarnOfLedgerEnd(rendered->end, options.trace, "reported");
  return AnswerAs(*rendered, view_options, format, exit_status);
}

Result<int> ReportProfile(const CLI::App& command, const ReportOptions& options, const View& view,
                          const ViewOptions& view_options, Format format) {
  if (!options.png.empty()) {
    if (auto status = RequirePicture(view); !status) return Fail(status.error());
  }
  const Result<Rendered> rendered =
      options.objects.RenderProfile(command, options.trace, view_options, format);
  if (!rendered) return Fail(rendered.error());
  const int exit_status = WarnOfObjectsEnd(rendered->end, options.trace, "reported");
  if (rendered->folded) {
    if (auto status = WriteFile(options.objects.folded(), *rendered->folded); !status)
      return Fail(status.error());
  }
  return AnswerAs(*rendered, view_options, format, exit_status);
}

Result<int> Report(const CLI::App& command, ReportOptions& options) {
  if (command.count("--rank-weight") > 0) options.request.rank.weight = options.rank_weight;
  const std::span<const View> views = options.objects.views();
  const Result<const View*> view = FindView(options.view, views);
  if (!view) return Fail(view.error());
  const auto given = [&command](const std::string& flag) { return command.count(flag) > 0; };
  if (auto status = RequireRead(**view, views, given); !status) return Fail(status.error());
  const Result<Format> format = ParseFormat(options.format);
  if (!format) return Fail(format.error());
  Result<ViewOptions> parsed = ViewOptionsOf(options.request, **view);
  if (!parsed) return Fail(std::move(parsed.error()));
  ViewOptions view_options = *std::move(parsed);
  view_options.text_columns = OutputWidth().value_or(kColumnsOfFile);
  view_options.table_columns = OutputWidth(options.wide);
  const Result<int> objects_status =
      options.objects.Read((*view)->by_evidence ? "" : options.request.rank.by, view_options);
  if (!objects_status) return Fail(objects_status.error());

  if ((*view)->render_ledger != nullptr) {
    return ReportLedger(command, options, **view, view_options, *format);
  }
  if (options.objects.IsProfile(**view, options.trace)) {
    return ReportProfile(command, options, **view, view_options, *format);
  }
  Result<Trace> trace = OpenTraceFile(options.trace, options.objects.codec());
  if (!trace) return Fail(trace.error());
  trace->llc_bytes = options.llc_bytes;
  for (const std::string& output : {options.png, options.objects.folded()}) {
    if (output.empty()) continue;
    if (auto status = RefuseToOverwrite(*trace, output); !status) return Fail(status.error());
    for (const std::string& file : options.objects.counts()) {
      const Status other = RefuseToOverwrite(std::filesystem::path(file), output);
      if (!other) return Fail(other.error());
    }
  }
  const Result<Rendered> rendered =
      RenderView(**view, *trace, view_options, *format, !options.png.empty());
  if (!rendered) return Fail(rendered.error());
  const int exit_status =
      std::max(*objects_status, WarnOfEnd(rendered->end, options.trace, "reported"));
  if (rendered->png) {
    if (auto status = WriteFile(options.png, *rendered->png); !status) return Fail(status.error());
  }
  if (rendered->folded) {
    if (auto status = WriteFile(options.objects.folded(), *rendered->folded); !status)
      return Fail(status.error());
  }
  return AnswerAs(*rendered, view_options, *format, exit_status);
}

}  // namespace

void AddReportCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand(
      "report", HasObjects() ? "Shows what a trace, a ledger or an object profile holds"
                             : "Shows what a trace or a ledger holds");
  auto options = std::make_shared<ReportOptions>();
  command
      ->add_option(fmt::format("FILE,-i,{}", kInput), options->trace,
                   HasObjects()
                       ? "File to show\n"
                         "It is a trace; for the moves view, a ledger, which has no default; and "
                         "for the objects view, a trace of 'tmprof record --objects' or an object "
                         "profile."
                       : "File to show\n"
                         "It is a trace; for the moves view, a ledger, which has no default.")
      ->capture_default_str();
  std::vector<std::string> views;
  std::string list = "Views:";
  for (const View& view : options->objects.views()) {
    views.emplace_back(view.name);
    list += fmt::format("\n  {}  {}", view.name, view.description);
  }
  command->add_option("--view", options->view, "View to show, of those below")
      ->type_name("VIEW")
      ->check(HasObjects() ? OneOf(views) : OneOfThese(views, {"objects"}, "objects"))
      ->capture_default_str();
  const auto of_views = [&](std::string_view option, std::string_view description,
                            std::string_view details = {}) {
    return fmt::format("{}\n{}{}Views that read it: {}.", description, details,
                       details.empty() ? "" : " ", ViewsThatRead(option, options->objects.views()));
  };
  AddFormat(*command, options->format);
  AddWide(*command, options->wide);
  command->add_option("--png", options->png, "Draw the view into this file, too")->type_name("OUT");
  command->add_option("--epochs", options->request.epochs, "Show these epochs; 3:10 is 3 to 9")
      ->type_name("FIRST:END");
  const std::string group = "Options that some views read (the manual page says which)";
  command->add_option("--pid", options->request.pid, of_views("pid", "Show this process only"))
      ->type_name("PID")
      ->check(WholeNumber(1))
      ->group(group);
  command
      ->add_option("--addresses", options->request.addresses,
                   of_views("addresses", "Show this range of addresses only"))
      ->type_name("START-END")
      ->group(group);
  command
      ->add_option("--limit", options->request.limit, of_views("limit", "Most rows; 0 shows all"))
      ->type_name("N")
      ->check(WholeNumber(0))
      ->capture_default_str()
      ->group(group);
  AddRankWeight(*command, options->rank_weight,
                "views that read it: " + ViewsThatRead("rank-weight", options->objects.views()))
      ->group(group);
  command
      ->add_option(
          "--by", options->request.rank.by,
          of_views("by", "Evidence to use instead of --rank-weight",
                   HasObjects() ? "The objects view takes site, type or object, which says what a "
                                  "row is of."
                                : ""))
      ->check(EvidenceCheck())
      ->group(group);
  AddRankModel(*command, options->request.rank.model)->group(group);
  command
      ->add_option("--group", options->request.group,
                   of_views("group", "Sum up pages by what holds them, to see which is hot"))
      ->check(HasObjects() ? OneOf({kHotGroups.begin(), kHotGroups.end()})
                           : OneOfThese({"mapping", "process", "file"}, {"object"}, "objects"))
      ->group(group);
  command
      ->add_option("--style", options->request.style,
                   of_views("style", "Addresses and colours of a heatmap",
                            "'hottest' shows addresses that hold 99 % of the heat, bright where "
                            "hot. 'whole' shows all that were observed, without the largest gaps, "
                            "dark where hot. 'auto' is whole for recordings with --abit regions."))
      ->check(OneOf({"auto", "hottest", "whole"}))
      ->capture_default_str()
      ->group(group);
  command
      ->add_flag("--raw", options->request.raw,
                 of_views("raw", "Show only what was observed in a cell's time, no estimates"))
      ->group(group);
  command
      ->add_option("--rates", options->request.rates,
                   of_views("rates", "Accesses of a page per second of CPU time that are use"))
      ->type_name("RATE,...")
      ->capture_default_str()
      ->group(group);
  options->objects.AddOptions(*command, group, of_views);
  command
      ->add_option("--ping-pong", options->request.ping_pong,
                   of_views("ping-pong", "Epochs in which a move back counts as ping-pong"))
      ->type_name("N")
      ->check(WholeNumber(0))
      ->capture_default_str()
      ->group(group);
  AddLlc(*command, options->llc_bytes)->group(group);
  command->footer(list +
                  "\n\n"
                  "Examples:\n"
                  "  tmprof report --view hot --limit 50\n"
                  "  tmprof report --view hot --group file\n"
                  "  tmprof report server.data --view heatmap --by references --png heat.png\n"
                  "  tmprof report server.data --view curve --png curve.png\n"
                  "  tmprof report server.data --view wss --rates 1,100 --png wss.png\n"
                  "  tmprof report tmprof.ledger --view moves" +
                  (HasObjects() ? kObjectExamples : ""));
  command->callback(
      [command, options, &exit_status] { exit_status = ExitStatusOf(Report(*command, *options)); });
}

}  // namespace tmprof
