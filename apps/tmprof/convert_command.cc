// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "apps/command_line/parse_errors.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/components.h"
#include "apps/tmprof/converted_objects.h"
#include "base/text/format.h"
#include "base/version.h"
#include "profiler/sources/exact/truth_file.h"
#include "profiler/sources/exact/truth_merge.h"
#include "proto/replaced_file.h"
#include "proto/trace.h"
#include "proto/trace_file.h"
#include "report/convert.h"

namespace tmprof {
namespace {

struct ConvertOptions {
  std::string trace{kDefaultTrace};
  std::string to;
  std::string output;
  std::string beside;
  std::string pages = "virtual";
  std::string rank_model = "rate";
  std::string rank_weight = "memory";
  std::optional<std::uint64_t> llc_bytes;  // nullopt: no cache is modelled
  std::uint64_t requests = OracleGeneralOptions().most_requests;
  std::uint64_t seed = OracleGeneralOptions().seed;
};

// A truth stream as a trace of its own, or beside the recording of the same run.
Result<int> ConvertTruth(const ConvertOptions& options) {
  const bool physical = options.pages == "physical";
  if (physical && !options.beside.empty())
    return Fail(BadInput("use option", "--pages physical",
                         "a recording, as --beside names, has virtual pages"));
  auto truth = exact::TruthFile::Open(
      options.trace, physical ? exact::PagesOf::kPhysicalMemory : exact::PagesOf::kProcesses);
  if (!truth) return Fail(truth.error());
  const std::string output = options.output.empty() ? options.trace + ".data" : options.output;
  if (auto status = RefuseToOverwrite(std::filesystem::path(options.trace), output); !status)
    return Fail(status.error());
  Result<Trace> recording = Trace{};
  std::unique_ptr<EpochStream> recorded;
  if (!options.beside.empty()) {
    recording = OpenTraceFile(options.beside, CodecOfObjects());
    if (!recording) return Fail(recording.error());
    if (auto status = RefuseToOverwrite(*recording, output); !status) return Fail(status.error());
    auto epochs = recording->open();
    if (!epochs) return Fail(epochs.error());
    recorded = *std::move(epochs);
  }

  EpochProfile first;
  const Result<bool> any = truth->Next(first);
  if (!any) return Fail(any.error());
  if (!*any) return Fail(BadInput("convert", options.trace, "it holds no whole epoch"));
  TraceInfo info = recording->info;
  if (!recorded) {
    info.tool_version = std::string("tmprof ") + kVersion;
    info.start = first.start;
    info.epoch_length = first.length();
  }
  auto file = ReplacedFile::Create(output, 0600);
  if (!file) return Fail(file.error());
  auto writer = TraceWriter::Create(file->path(), info);
  if (!writer) return Fail(writer.error());

  std::uint64_t epochs = 0;
  std::optional<Error> failure;
  const auto write = [&](const EpochProfile& epoch) {
    if (failure) return;
    if (auto status = writer->Write(epoch); !status) failure = status.error();
    ++epochs;
  };
  StreamEnd end;
  int exit_status = kDone;
  exact::MergeResult merge;
  if (recorded) {
    merge = exact::MergeTruth(*recorded, std::move(first), *truth, write);
    exit_status = WarnOfEnd(merge.recorded, options.beside, "converted");
    end = merge.truth;
  } else {
    write(first);
    end = ReadToEnd(*truth, write);
  }
  if (failure) return Fail(*failure);
  if (auto status = writer->Finish(); !status) return Fail(status.error());
  if (auto status = file->Commit(); !status) return Fail(status.error());
  if (end.damage) {
    exit_status = kDamaged;
    Warn(end.damage->Message() + "; what comes before it is converted");
  } else if (end.finished == false) {
    Warn(fmt::format("truth stream '{}' was cut: its open epoch is lost", options.trace));
  }
  if (merge.without_truth > 0) {
    Warn(
        fmt::format("{} of {} got no truth: its own epochs must be shorter than the "
                    "recording's, some ten of them in one of those",
                    Grouped(merge.without_truth), CountText(epochs, "epoch")));
  }
  if (merge.outside_recording > 0)
    Warn(fmt::format("{} of the truth outside the recording's",
                     CountText(merge.outside_recording, "epoch")));
  return Answer(fmt::format("{}: {}\n", Printable(output), CountText(epochs, "epoch")),
                exit_status);
}

// An option that the format does not read would be passed over in silence.
Status RequireRead(const CLI::App& command, const std::string& to) {
  if (to == "oracleGeneral") return {};
  for (const char* const option :
       {"--rank-model", "--rank-weight", "--llc", "--requests", "--seed"}) {
    if (command.count(option) > 0)
      return Fail(BadInput("use option", option, "it is for --to oracleGeneral"));
  }
  return {};
}

Result<int> Convert(const CLI::App& command, const ConvertOptions& options) {
  if (Status read = RequireRead(command, options.to); !read) return Fail(read.error());
  if (options.to == "trace") return ConvertTruth(options);
  if (!options.beside.empty())
    return Fail(BadInput("use option", "--beside", "it is for --to trace"));
  if (options.pages != "virtual")
    return Fail(BadInput("use option", "--pages physical", "it is for --to trace"));
  if (options.to == "objects") return ConvertObjects(options.trace, options.output);
  const Result<RankModel> model = ParseRankModel(options.rank_model);
  if (!model) return Fail(model.error());
  const Result<RankWeight> weight = ParseRankWeight(options.rank_weight);
  if (!weight) return Fail(weight.error());
  Result<Trace> trace = OpenTraceFile(options.trace);
  if (!trace) return Fail(trace.error());
  trace->llc_bytes = options.llc_bytes;
  const bool to_csv = options.to == "csv";
  const std::string output = !options.output.empty() ? options.output
                             : to_csv                ? "-"
                                                     : options.trace + ".oracleGeneral";
  const Result<ConvertStats> stats =
      to_csv ? ConvertToCsv(*trace, output)
             : ConvertToOracleGeneral(*trace,
                                      {.model = *model,
                                       .weight = *weight,
                                       .most_requests = options.requests,
                                       .seed = options.seed},
                                      output);
  if (!stats) return Fail(stats.error());
  const int exit_status = WarnOfEnd(stats->end, options.trace, "converted");
  if (output == "-") return exit_status;
  if (!to_csv) {
    const std::string note =
        stats->basis.why_not.empty()
            ? ""
            : fmt::format("note: all accesses count because those to memory are unknown: {}\n",
                          stats->basis.why_not);
    return Answer(fmt::format("{}: {} of {}, for {} by {}: one for each {:.6g}, seed {}\n",
                              Printable(output), CountText(stats->records, "request"),
                              CountText(stats->epochs, "epoch"), Significant(stats->weight),
                              TextOf(stats->basis), 1 / stats->ratio, options.seed) +
                      note,
                  exit_status);
  }
  return Answer(fmt::format("{}: {} of {}\n", Printable(output),
                            CountText(stats->records, "record"), CountText(stats->epochs, "epoch")),
                exit_status);
}

}  // namespace

void AddConvertCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("convert", "Writes a trace in another tool's format");
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("FILE,-i,--input", options->trace, "File to convert")->capture_default_str();
  command->add_option("--to", options->to, "Format to write")
      ->required()
      ->check(HasObjects() ? OneOf({"csv", "oracleGeneral", "trace", "objects"})
                           : OneOfThese({"csv", "oracleGeneral", "trace"}, {"objects"}, "objects"));
  command
      ->add_option("-o,--output", options->output,
                   "File to write\n"
                   "The default is standard output for csv, else FILE.oracleGeneral, FILE.data or "
                   "FILE.named.")
      ->type_name("OUT");
  command
      ->add_option("--beside", options->beside,
                   "With --to trace: recording of the same run, to add the accesses to\n"
                   "Both have to be on one clock. The recording's targets get exact accesses.")
      ->type_name("TRACE");
  command
      ->add_option("--pages", options->pages,
                   "With --to trace: kind of pages\n"
                   "'virtual' pages are those of each process. 'physical' ones are page frames of "
                   "all processes together, from a virtual machine's stream.")
      ->check(OneOf({"virtual", "physical"}))
      ->capture_default_str();
  command
      ->add_option("--rank-model", options->rank_model,
                   "With --to oracleGeneral: how evidence is scored\n"
                   "'rate' estimates accesses; 'sum' adds up references and samples.")
      ->check(OneOf({"rate", "sum"}))
      ->capture_default_str();
  AddRankWeight(*command, options->rank_weight, "for oracleGeneral");
  AddLlc(*command, options->llc_bytes);
  command
      ->add_option("--requests", options->requests,
                   "With --to oracleGeneral: most requests to write\n"
                   "If there are more accesses, requests are a sample of them.")
      ->type_name("N")
      ->check(WholeNumber(1))
      ->capture_default_str();
  command
      ->add_option("--seed", options->seed,
                   "With --to oracleGeneral: seed of the choice of requests")
      ->type_name("N")
      ->check(WholeNumber(0))
      ->capture_default_str();
  command->footer(
      std::string("Formats:\n"
                  "  csv  A line per page and epoch\n"
                  "  oracleGeneral  Binary requests of libCacheSim\n"
                  "  trace  A trace, from a truth stream of the test bed\n") +
      (HasObjects()
           ? "  objects  An object profile with the functions and lines of its calls, to be "
             "reported on machines that do not have the program\n"
           : "") +
      "\n"
      "Examples:\n"
      "  tmprof convert server.data --to csv -o server.csv\n"
      "  tmprof convert server.data --to oracleGeneral");
  command->callback([command, options, &exit_status] {
    exit_status = ExitStatusOf(Convert(*command, *options));
  });
}

}  // namespace tmprof
