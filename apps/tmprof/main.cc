// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/command_line/help.h"
#include "apps/command_line/parse_errors.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/command_words.h"
#include "apps/tmprof/components.h"
#include "base/version.h"

namespace tmprof {
namespace {

// nullptr: there is no such command. Hidden commands count.
const CLI::App* FindCommand(const CLI::App& app, const std::string& name) {
  const auto named =
      app.get_subcommands([&name](const CLI::App* command) { return command->get_name() == name; });
  return named.empty() ? nullptr : named.front();
}

int ShowHelp(const CLI::App& app, int exit_status) {
  return ExitStatusOf(Answer(app.help(), exit_status));
}

// Makes "record --help" of "help record". Refuses a second command.
Status MakeHelpAnOption(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != "help") return {};
  arguments.erase(arguments.begin());
  if (arguments.size() > 1) {
    return Fail(BadInput("use argument", arguments[1], "help takes one command",
                         fmt::format("write 'tmprof help {}'", arguments.front())));
  }
  if (arguments == std::vector<std::string>{"help"}) arguments.clear();
  arguments.emplace_back("--help");
  return {};
}

// "tmprof 0.1.0", "tmprof 0.1.0, without objects"
std::string Version() {
  const std::string version = std::string("tmprof ") + kVersion;
  const std::vector<std::string> missing = MissingComponents();
  if (missing.empty()) return version;
  return fmt::format("{}, without {}", version, fmt::join(missing, " and "));
}

int Run(std::vector<std::string> arguments) {
  CLI::App app("Profiles memory accesses per page and evaluates tiered-memory placement", "tmprof");
  UseHelpText(app);
  app.set_version_flag("-V,--version", Version(), "Print the version");
  app.require_subcommand(1);
  int exit_status = kDone;
  std::vector<std::string> launched;
  AddRecordCommand(app, launched, exit_status);
  AddCcCommand(app, launched, exit_status);
  AddCurveCommand(app, exit_status);
  AddReportCommand(app, exit_status);
  AddEvalCommand(app, exit_status);
  AddAdviseCommand(app, exit_status);
  AddScoreCommand(app, exit_status);
  AddConvertCommand(app, exit_status);
  AddDoctorCommand(app, exit_status);
  AddCtlCommand(app, exit_status);
  AddGenerateCommand(app, exit_status);
  // The footer is set last: CLI11 copies it to commands that are added after it.
  app.footer(
      "Run 'tmprof help COMMAND' for a command's options, and 'man tmprof-COMMAND' for details.\n\n"
      "Examples:\n"
      "  tmprof record ./program\n"
      "  tmprof report --view hot\n"
      "  tmprof eval");

  // perf and git, too, print their help and fail: a script that lost its command's name must not
  // go on.
  if (arguments.empty()) return ShowHelp(app, kBadInput);
  if (const Status help = MakeHelpAnOption(arguments); !help) return ReportError(help.error());
  const CLI::App* command = FindCommand(app, arguments.front());
  if (command == nullptr && !arguments.front().starts_with('-')) {
    return ReportError(UnknownCommand(app, arguments.front()));
  }
  std::vector<std::string> words(arguments.begin() + (command == nullptr ? 0 : 1), arguments.end());
  if (command != nullptr && LaunchesProgram(*command)) {
    CommandWords split = SplitCommand(*command, words);
    launched = std::move(split.command);
    words = std::move(split.options);
    arguments = {command->get_name()};
    arguments.insert(arguments.end(), words.begin(), words.end());
  }

  std::ranges::reverse(arguments);  // CLI11 takes them last first
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return ShowHelp(command == nullptr ? app : *command, kDone);
  } catch (const CLI::CallForVersion& version) {
    return ExitStatusOf(Answer(std::string(version.what()) + "\n", kDone));
  } catch (const CLI::ParseError& error) {
    return ReportError(ExplainParseError(command == nullptr ? app : *command, words, error));
  }
  return exit_status;
}

}  // namespace
}  // namespace tmprof

int main(int argc, char** argv) { return tmprof::Run({argv + 1, argv + argc}); }
