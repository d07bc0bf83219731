// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "apps/tmprof/cli.h"
#include "apps/tmprof/version.h"

namespace {

int Run(std::vector<std::string> arguments) {
  // Everything behind a lone "--" belongs to the command to run, whatever it looks like.
  const auto dashes = std::ranges::find(arguments, "--");
  std::vector<std::string> command;
  if (dashes != arguments.end()) {
    command.assign(dashes + 1, arguments.end());
    arguments.erase(dashes, arguments.end());
  }

  CLI::App app("Profiles memory accesses per page and evaluates tiered-memory placement.",
               "tmprof");
  app.set_version_flag("--version", std::string("tmprof ") + tmprof::kVersion);
  app.require_subcommand(1);
  app.footer("Run 'tmprof COMMAND --help' for a command's options.");
  int exit_status = tmprof::kDone;
  tmprof::AddRecordCommand(app, command, exit_status);
  tmprof::AddCcCommand(app, command, exit_status);
  tmprof::AddCurveCommand(app, exit_status);
  tmprof::AddReportCommand(app, exit_status);
  tmprof::AddEvalCommand(app, exit_status);
  tmprof::AddAdviseCommand(app, exit_status);
  tmprof::AddScoreCommand(app, exit_status);
  tmprof::AddConvertCommand(app, exit_status);
  tmprof::AddDoctorCommand(app, exit_status);
  tmprof::AddCtlCommand(app, exit_status);
  tmprof::AddGenerateCommand(app, exit_status);

  std::ranges::reverse(arguments);  // CLI11 takes them last first
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    std::ostringstream help;
    if (app.exit(error, help) != 0) return tmprof::kBadInput;
    const tmprof::Status shown = tmprof::WriteOut(help.str());
    return shown ? tmprof::kDone : tmprof::ReportError(shown.error());
  }
  return exit_status;
}

}  // namespace

int main(int argc, char** argv) { return Run({argv + 1, argv + argc}); }
