// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/components.h"
#include "apps/tmprof/reported_objects.h"
#include "base/host/node_list.h"
#include "base/text/addresses.h"
#include "proto/ledger_file.h"
#include "proto/trace.h"
#include "report/view.h"

namespace tmprof {
namespace {

constexpr std::string_view kInput = "--input";
// Columns of maps and bars in a file or pipe.
constexpr std::size_t kColumnsOfFile = 100;

struct ReportOptions {
  std::string trace{kDefaultTrace};
  std::string view = "summary";
  std::string by;  // empty: the weight decides
  std::string rank_weight = "memory";
  std::string group;
  std::string rank_model = "rate";
  std::string format = "text";
  bool wide = false;
  std::string png;
  std::uint64_t limit = 20;
  std::optional<int> pid;
  std::string epochs;
  std::string addresses;
  std::string style = "auto";
  std::string rates = fmt::format("{}", fmt::join(WorkingSetOptions{}.rates, ","));
  bool raw = false;
  std::uint64_t ping_pong = kPingPongEpochs;
  std::optional<std::uint64_t> llc_bytes;  // nullopt: no cache is modelled
  ReportedObjects objects;
};

// Refuses "inf", "nan" and an empty item, too.
Result<std::vector<double>> ParseRates(const std::string& text) {
  std::vector<double> rates;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const std::string_view item = rest.substr(0, rest.find(','));
    more = item.size() < rest.size();
    if (more) rest.remove_prefix(item.size() + 1);
    double rate = 0;
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), rate);
    if (error != std::errc{} || end != item.data() + item.size() || !std::isfinite(rate) ||
        rate <= 0) {
      return Fail(BadInput("use option", "--rates " + text,
                           fmt::format("'{}' is not a finite number above 0", item),
                           "write a number above 0, or several with commas between: 1,100"));
    }
    rates.push_back(rate);
  }
  return rates;
}

// "3:10" is epochs 3 to 9; either side may be left out.
Result<EpochRange> ParseEpochs(const std::string& text) {
  const auto refuse = [&] {
    return Fail(BadInput("use option", "--epochs " + text, "it is not FIRST:END",
                         "write 3:10 for epochs 3 to 9; either side may be left out"));
  };
  EpochRange range;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return refuse();
  const auto parse = [](std::string_view digits, std::uint64_t& value) {
    if (digits.empty()) return true;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size();
  };
  const std::string_view all = text;
  if (!parse(all.substr(0, colon), range.first) || !parse(all.substr(colon + 1), range.end) ||
      range.first >= range.end) {
    return refuse();
  }
  return range;
}

constexpr const char* kObjectExamples =
    "\n"
    "  tmprof report server.data --view objects --by object\n"
    "  tmprof report server.data --view objects --page 0x7f0000012345\n"
    "  tmprof report server.data --view objects --counts tmprof-1234.objects\n"
    "  tmprof report tmprof-1234.objects --view objects --folded stacks.txt";

constexpr std::array kGroups = {"mapping", "process", "object", "file"};

bool IsGroup(const std::string& name) { return std::ranges::count(kGroups, name) > 0; }

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
      OneOfBuilt({"references", "samples", "combined", "memory", "truth", "misses"},
                 {"site", "type", "object"});
  std::string description = evidence.get_description();
  return {[evidence = std::move(evidence)](std::string& by) {
            return IsGroup(by) ? std::string() : evidence(by);
          },
          std::move(description)};
}

// A view of objects has the evidence `object` itself.
Status RefuseGroupAsEvidence(const std::string& by, bool by_objects) {
  if (!IsGroup(by) || (by_objects && by == "object")) return {};
  return Fail(BadInput("use option", "--by " + by, "it is no evidence that tells what is hot",
                       fmt::format("to sum up pages by what holds them, use '--view hot --group "
                                   "{}'",
                                   by)));
}

// An option that the view does not read would be passed over in silence.
Status RequireRead(const CLI::App& command, const View& view, std::span<const View> views) {
  for (const std::string_view option : OptionsOfViews(views)) {
    const std::string flag = fmt::format("--{}", option);
    if (command.count(flag) == 0 || std::ranges::find(view.reads, option) != view.reads.end()) {
      continue;
    }
    return Fail(BadInput("use option", flag, fmt::format("the {} view does not read it", view.name),
                         "these do: " + ViewsThatRead(option, views)));
  }
  return {};
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
  const std::span<const View> views = options.objects.views();
  const Result<const View*> view = FindView(options.view, views);
  if (!view) return Fail(view.error());
  if (auto status = RequireRead(command, **view, views); !status) return Fail(status.error());
  const Result<Format> format = ParseFormat(options.format);
  if (!format) return Fail(format.error());
  const bool by_objects = !(*view)->by_evidence;
  if (auto status = RefuseGroupAsEvidence(options.by, by_objects); !status)
    return Fail(status.error());
  const Result<std::optional<RankSource>> by =
      by_objects ? std::nullopt : ParseRankSourceIfAny(options.by);
  if (!by) return Fail(by.error());
  const Result<RankModel> model = ParseRankModel(options.rank_model);
  if (!model) return Fail(model.error());
  const Result<RankWeight> weight = ParseRankWeight(options.rank_weight);
  if (!weight) return Fail(weight.error());
  if (!by_objects && *by && command.count("--rank-weight") > 0) {
    return Fail(BadInput("use option", "--rank-weight",
                         "--by chooses one kind of evidence instead of a weight", "give one"));
  }

  Result<std::vector<double>> rates = ParseRates(options.rates);
  if (!rates) return Fail(rates.error());
  std::ranges::sort(*rates);
  std::vector<std::string> rate_texts;
  for (const double rate : *rates) rate_texts.push_back(fmt::format("{}", rate));
  if (Status different = RequireDifferent("--rates", rate_texts, *rates); !different) {
    return Fail(different.error());
  }

  ViewOptions view_options{.model = *model,
                           .weight = *weight,
                           .by = *by,
                           .limit = options.limit > 0 ? std::optional(options.limit) : std::nullopt,
                           .wss_rates = *std::move(rates),
                           .heatmap_raw = options.raw,
                           .ping_pong_epochs = options.ping_pong,
                           .text_columns = OutputWidth().value_or(kColumnsOfFile),
                           .table_columns = OutputWidth(options.wide)};
  if (!options.group.empty()) {
    const Result<HotGroup> group = ParseHotGroup(options.group);
    if (!group) return Fail(group.error());
    view_options.hot_group = *group;
  }
  if (options.pid) view_options.pid = Pid(*options.pid);
  if (!options.epochs.empty()) {
    const Result<EpochRange> range = ParseEpochs(options.epochs);
    if (!range) return Fail(range.error());
    view_options.epochs = *range;
  }
  if (!options.addresses.empty()) {
    const Result<VpnRange> range = ParseAddresses(options.addresses);
    if (!range) return Fail(range.error());
    view_options.addresses = *range;
  }

  if (options.style != "auto") {
    const Result<HeatmapStyle> style = ParseHeatmapStyle(options.style);
    if (!style) return Fail(style.error());
    view_options.heatmap_style = *style;
  }

  const Result<int> objects_status =
      options.objects.Read(by_objects ? options.by : std::string(), view_options);
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
  command->add_option("--epochs", options->epochs, "Show these epochs; 3:10 is 3 to 9")
      ->type_name("FIRST:END");
  const std::string group = "Options that some views read (the manual page says which)";
  command->add_option("--pid", options->pid, of_views("pid", "Show this process only"))
      ->type_name("PID")
      ->check(WholeNumber(1))
      ->group(group);
  command
      ->add_option("--addresses", options->addresses,
                   of_views("addresses", "Show this range of addresses only"))
      ->type_name("START-END")
      ->group(group);
  command->add_option("--limit", options->limit, of_views("limit", "Most rows; 0 shows all"))
      ->type_name("N")
      ->check(WholeNumber(0))
      ->capture_default_str()
      ->group(group);
  AddRankWeight(*command, options->rank_weight,
                "views that read it: " + ViewsThatRead("rank-weight", options->objects.views()))
      ->group(group);
  command
      ->add_option(
          "--by", options->by,
          of_views("by", "Evidence to use instead of --rank-weight",
                   HasObjects() ? "The objects view takes site, type or object, which says what a "
                                  "row is of."
                                : ""))
      ->check(EvidenceCheck())
      ->group(group);
  AddRankModel(*command, options->rank_model)->group(group);
  command
      ->add_option("--group", options->group,
                   of_views("group", "Sum up pages by what holds them, to see which is hot"))
      ->check(HasObjects() ? OneOf({kGroups.begin(), kGroups.end()})
                           : OneOfThese({"mapping", "process", "file"}, {"object"}, "objects"))
      ->group(group);
  command
      ->add_option("--style", options->style,
                   of_views("style", "Addresses and colours of a heatmap",
                            "'hottest' shows addresses that hold 99 % of the heat, bright where "
                            "hot. 'whole' shows all that were observed, without the largest gaps, "
                            "dark where hot. 'auto' is whole for recordings with --abit regions."))
      ->check(OneOf({"auto", "hottest", "whole"}))
      ->capture_default_str()
      ->group(group);
  command
      ->add_flag("--raw", options->raw,
                 of_views("raw", "Show only what was observed in a cell's time, no estimates"))
      ->group(group);
  command
      ->add_option("--rates", options->rates,
                   of_views("rates", "Accesses of a page per second of CPU time that are use"))
      ->type_name("RATE,...")
      ->capture_default_str()
      ->group(group);
  options->objects.AddOptions(*command, group, of_views);
  command
      ->add_option("--ping-pong", options->ping_pong,
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
