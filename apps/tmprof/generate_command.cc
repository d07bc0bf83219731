// SPDX-License-Identifier: Apache-2.0
// Manual pages and shell completion, made from the options themselves so that they cannot go stale.

#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "apps/command_line/completion.h"
#include "apps/command_line/help.h"
#include "apps/command_line/manual.h"
#include "apps/tmprof/cli.h"
#include "apps/tmprof/components.h"
#include "base/text/roff.h"
#include "proto/given_settings.h"
#include "report/view.h"

namespace tmprof {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTraceFiles =
    ".SH FILES\n"
    ".TP\n.I tmprof.data\nThe trace that \\fBtmprof record\\fR writes, and that other commands "
    "read, unless another file is named.\n"
    ".TP\n.I tmprof.data.old\nThe trace that was there before.\n";

constexpr std::string_view kObjectFiles =
    ".TP\n.I tmprof\\-PID.objects\nThe object profile that a program built by \\fBtmprof cc\\fR "
    "writes.\n";

constexpr std::string_view kOtherFiles =
    ".TP\n.I /run/tmprof\nPrices of accessed bits and samples that the last start of \\fBtmprof "
    "record\\fR measured. The next one uses them for an hour, unless \\fB\\-\\-calibrate\\fR is "
    "given.\n"
    ".TP\n.I /run/tmprofd/control\nThe control socket of the daemon.\n";

constexpr std::string_view kEnvironment =
    ".SH ENVIRONMENT\n"
    ".TP\n.B COLUMNS\nThe width that text has to fit, instead of that of the terminal. Output into "
    "a file or pipe is limited by it, too; without it, such output has all columns of tables. "
    "Help is at most 80 columns wide. Text is never made for fewer than 40.\n"
    ".TP\n.B TMPROF_RUN_DIRECTORY\nThe directory to keep prices in, instead of "
    ".IR /run/tmprof .\n";

constexpr std::string_view kExitStatus =
    ".SH EXIT STATUS\n"
    ".TP\n.B 0\nThe command did all that it was asked for.\n"
    ".TP\n.B 1\nThe system refused something; the message says what.\n"
    ".TP\n.B 2\nThe command line or the contents of a file are wrong.\n"
    ".TP\n.B 3\n\\fBtmprof record\\fR or \\fBtmprof curve\\fR saw nothing, or too little to rank "
    "pages by: fewer than 100 samples and accessed bits of less than a tenth of the resident "
    "memory. Or \\fB\\-\\-objects\\fR tracked no allocation, or over half of the accessed memory "
    "was "
    "of processes that it did not track. The last line says why, and what to run next. The trace "
    "is "
    "complete, and can be read.\n"
    ".TP\n.B 4\nThe file that was read is damaged. What was shown or written is of the part before "
    "the damage. JSON has it as \\fBdamage\\fR, null if there is none.\n"
    ".PP\n\\fBtmprof record\\fR PROGRAM passes on the status of PROGRAM unless that is 0. It is "
    "126 if PROGRAM cannot be run, 127 if there is none of this name, and 128 and the number of "
    "the "
    "signal that killed it.\n";

// All other pages of tmprof.
std::string SeeAlso(const CLI::App& app, std::string_view own) {
  std::string text = ".SH SEE ALSO\n";
  if (own != "tmprof") text += ".BR tmprof (1),\n";
  for (const CLI::App* command : ShownCommands(app)) {
    const std::string name = "tmprof-" + command->get_name();
    if (name != own) text += fmt::format(".BR {} (1),\n", Roff(name));
  }
  return text + ".BR tmprofd (8),\n.BR tmprofd.conf (5)\n";
}

Status WriteManPages(const CLI::App& app, const fs::path& folder) {
  std::string commands = ".SH COMMANDS\n";
  const auto write = [&](const std::string& name, const CLI::App& command,
                         const std::string& body) {
    const std::string end =
        fmt::format("{}{}{}{}{}{}", kTraceFiles, HasObjects() ? kObjectFiles : "", kOtherFiles,
                    kEnvironment, kExitStatus, SeeAlso(app, name));
    return WriteFile(folder / (name + ".1"),
                     InRoff({.name = name, .section = 1, .body = body, .end = end}, command));
  };
  for (const CLI::App* command : ShownCommands(app)) {
    const std::string name = "tmprof-" + command->get_name();
    commands += fmt::format(".TP\n.BR {} (1)\n{}.\n", Roff(name), Roff(command->get_description()));
    if (auto written = write(name, *command, ""); !written) return written;
  }
  return write("tmprof", app, commands);
}

Status Generate(const CLI::App& app, const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return Fail(Refused("create folder", folder.string(), failed.value()));
  if (auto status = WriteManPages(app, folder); !status) return status;
  WordsBehind settings{.command = "ctl", .word = "set", .words = SettablePaths()};
  for (std::string& setting : settings.words) setting += '=';
  for (const auto& [file, script] : {std::pair("tmprof.bash", BashCompletion(app, settings)),
                                     {"_tmprof", ZshCompletion(app, settings)},
                                     {"tmprof.fish", FishCompletion(app, settings)}}) {
    if (auto status = WriteFile(folder / file, script); !status) return status;
  }
  return {};
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
