// SPDX-License-Identifier: Apache-2.0
// Manual pages and shell completion, made from the options themselves so that they cannot go stale.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/tmprof/cli.h"
#include "apps/tmprof/manual.h"
#include "report/view.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

std::vector<const CLI::App*> ShownCommands(const CLI::App& app) {
  std::vector<const CLI::App*> shown;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group() != kHidden) shown.push_back(command);
  }
  return shown;
}

bool IsPositional(const CLI::Option& option) { return option.get_positional(); }

constexpr std::string_view kExitStatus =
    ".SH EXIT STATUS\n0 done, 1 the system refused, 2 bad input.\n"
    "\\fBtmprof record \\-\\- CMD\\fR passes on the status of CMD; if that is 0, its own counts.\n"
    ".PP\n"
    "3: \\fBtmprof record\\fR recorded, but saw nothing, or too little to rank pages by, or no "
    "allocation in spite of \\fB\\-\\-objects\\fR. Its last line says why, and what to run "
    "next. Too little is fewer than 100 samples and accessed bits of less than a tenth of the "
    "resident memory. The trace is complete, and can be read.\n"
    ".PP\n"
    "4: the file that was read is damaged. What was shown or written is of the part before the "
    "damage. JSON tells of it as \\fBdamage\\fR, null where there is none.\n";

std::string ManPage(const std::string& name, const std::string& synopsis, const CLI::App& command,
                    const std::string& body) {
  return InRoff({.name = name,
                 .section = 1,
                 .synopsis = synopsis,
                 .body = body,
                 .end = std::string(kExitStatus)},
                command);
}

std::string Synopsis(const CLI::App& command) {
  std::string synopsis = "tmprof " + command.get_name() + " [OPTION]...";
  for (const CLI::Option* option : ShownOptions(command)) {
    if (IsPositional(*option)) synopsis += " " + option->get_name();
  }
  return synopsis;
}

Status WriteManPages(const CLI::App& app, const fs::path& folder) {
  std::string commands = ".SH COMMANDS\n";
  std::string see_also;
  for (const CLI::App* command : ShownCommands(app)) {
    commands += fmt::format(".TP\n.BR tmprof\\-{} (1)\n{}\n", command->get_name(),
                            Roff(command->get_description()));
    const std::string name = "tmprof-" + command->get_name();
    const Status written =
        WriteFile(folder / (name + ".1"), ManPage(name, Synopsis(*command), *command, ""));
    if (!written) return written;
  }
  return WriteFile(folder / "tmprof.1",
                   ManPage("tmprof", "tmprof COMMAND [OPTION]...", app, commands));
}

// The values of an option that takes one of a fixed set, which CLI11 shows as "{a,b}" in its type.
std::string FixedValues(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{');
  const std::size_t close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  std::string values = type.substr(open + 1, close - open - 1);
  std::ranges::replace(values, ',', ' ');
  return values;
}

std::string BashCompletion(const CLI::App& app) {
  std::string names;
  std::string cases;
  for (const CLI::App* command : ShownCommands(app)) {
    names += command->get_name() + " ";
    std::string flags;
    std::string values;
    std::string words;
    for (const CLI::Option* option : ShownOptions(*command)) {
      if (IsPositional(*option)) words += FixedValues(*option);
      for (const std::string& name : option->get_lnames()) {
        flags += "--" + name + " ";
        if (const std::string fixed = FixedValues(*option); !fixed.empty()) {
          values +=
              fmt::format("        {}:--{}) words=\"{}\" ;;\n", command->get_name(), name, fixed);
        }
      }
    }
    cases += values + fmt::format(
                          "        {}:*) [[ $current == -* ]] && words=\"{}\" || "
                          "words=\"{}\" ;;\n",
                          command->get_name(), flags, words);
  }
  return fmt::format(
      "# bash completion for tmprof\n"
      "_tmprof() {{\n"
      "    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD-1]}} "
      "words=\n"
      "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "        words=\"{}--help --version\"\n"
      "    else\n"
      "        case ${{COMP_WORDS[1]}}:$previous in\n{}"
      "        esac\n"
      "    fi\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
      "}}\n"
      "complete -o default -F _tmprof tmprof\n",
      names, cases);
}

Status Generate(const CLI::App& app, const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return Fail(Refused("create folder", folder.string(), failed.value()));
  if (auto status = WriteManPages(app, folder); !status) return status;
  const std::string bash = BashCompletion(app);
  if (auto status = WriteFile(folder / "tmprof.bash", bash); !status) return status;
  return WriteFile(folder / "_tmprof",
                   "#compdef tmprof\nautoload -U +X bashcompinit && bashcompinit\n" + bash);
}

}  // namespace

void AddGenerateCommand(CLI::App& app, int& exit_status) {
  CLI::App* command = app.add_subcommand("generate", "Writes manual pages and shell completion");
  command->group(std::string(kHidden));
  auto folder = std::make_shared<std::string>();
  command->add_option("FOLDER", *folder, "Folder that the files are written to")->required();
  command->callback([&app, folder, &exit_status] {
    const Status status = Generate(app, *folder);
    exit_status = status ? kDone : ReportError(status.error());
  });
}

}  // namespace tmprof
