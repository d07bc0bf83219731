// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <memory>
#include <string>

#include "apps/tmprof/cli.h"
#include "report/convert.h"
#include "report/trace.h"

namespace tmprof {
namespace {

struct ConvertOptions {
  std::string trace{kDefaultTrace};
  std::string to;
  std::string output;
  std::string rank_model = "rate";
};

Status Convert(const ConvertOptions& options) {
  const Result<RankModel> model = ParseRankModel(options.rank_model);
  if (!model) return Fail(model.error());
  const Result<Trace> trace = OpenTraceFile(options.trace);
  if (!trace) return Fail(trace.error());
  const bool to_csv = options.to == "csv";
  const std::string output = !options.output.empty() ? options.output
                             : to_csv                ? "-"
                                                     : options.trace + ".oracleGeneral";
  const Result<ConvertStats> stats =
      to_csv ? ConvertToCsv(*trace, output) : ConvertToOracleGeneral(*trace, *model, output);
  if (!stats) return Fail(stats.error());
  if (stats->damage) Warn(stats->damage->Message() + "; converted is what comes before");
  if (output != "-") {
    fmt::print("{}: {} records of {} epochs\n", output, stats->records, stats->epochs);
  }
  return {};
}

}  // namespace

void AddConvertCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("convert", "Writes a trace in another tool's format");
  auto options = std::make_shared<ConvertOptions>();
  command->add_option("FILE,-i,--input", options->trace, "Trace file")->capture_default_str();
  command
      ->add_option("--to", options->to,
                   "csv: a line per page record; oracleGeneral: libCacheSim's binary requests")
      ->required()
      ->check(CLI::IsMember({"csv", "oracleGeneral"}));
  command
      ->add_option("-o,--output", options->output,
                   "Where to write it; standard output for csv, else FILE.oracleGeneral")
      ->type_name("OUT");
  command
      ->add_option("--rank-model", options->rank_model,
                   "What orders the requests of an epoch in oracleGeneral")
      ->check(CLI::IsMember({"rate", "sum"}))
      ->capture_default_str();
  command->callback([options, &exit_status] {
    const Status status = Convert(*options);
    exit_status = status ? kDone : ReportError(status.error());
  });
}

}  // namespace tmprof
