// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "base/text/format.h"
#include "daemon/control/control_address.h"
#include "daemon/control/control_client.h"
#include "daemon/control/control_words.h"

namespace tmprof {
namespace {

// A daemon that has said nothing for so long is given up.
constexpr std::chrono::seconds kPatience{5};

struct CtlOptions {
  ControlWords words;
  std::string socket{kDefaultControlSocket};
  bool wide = false;
};

Status Control(const CtlOptions& options) {
  ControlWords words = options.words;
  words.width = OutputWidth(options.wide);
  const Result<Json> request = RequestOf(words);
  if (!request) return Fail(request.error());
  if (words.format == "binary") {
    if (::isatty(STDOUT_FILENO) == 1) {
      return Fail(BadInput("write", "binary", "standard output is a terminal",
                           "write it to a file: > FILE"));
    }
    const auto answer = AskDaemonForBytes(options.socket, *request, kPatience);
    return answer ? WriteOut(answer->bytes) : Fail(answer.error());
  }
  const Result<Json> answer = AskDaemon(options.socket, *request, kPatience);
  if (!answer) return Fail(answer.error());
  return WriteOut(words.format == "text" ? Fitted(ReplyText(words, *answer), words.width)
                                         : ReplyJson(words, *answer));
}

}  // namespace

void AddCtlCommand(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("ctl", "Asks the placement daemon, and tells it what to do");
  auto options = std::make_shared<CtlOptions>();
  command->add_option("COMMAND", options->words.command, "What to ask or tell the daemon")
      ->check(OneOf({"status", "targets", "hot", "pause", "resume", "set", "stop"}))
      ->required();
  command
      ->add_option("SETTING", options->words.settings,
                   "With set: settings to change, as NAME=VALUE")
      ->type_name("NAME=VALUE");
  command->add_option("--socket", options->socket, "The daemon's control socket")
      ->type_name("PATH")
      ->capture_default_str();
  command
      ->add_option("--limit", options->words.limit,
                   fmt::format("With hot: show so many spans, {} if it is not given; 0: all",
                               kDefaultHotSpans))
      ->type_name("N")
      ->check(WholeNumber(0));
  command->add_option("--format", options->words.format, "Format of the output; binary: with hot")
      ->check(OneOf({"text", "json", "binary"}))
      ->capture_default_str();
  AddWide(*command, options->wide);
  command->footer(
      "Commands:\n"
      "  status  Show all that the daemon does\n"
      "  targets  Show the processes that it places\n"
      "  hot  Show the pages that it ranks best, with error, tier and age\n"
      "  pause  Move no pages until 'resume'\n"
      "  resume  Move pages again\n"
      "  set  Change settings until the daemon ends or reads its file again (SIGHUP)\n"
      "  stop  End the daemon\n\n"
      "Examples:\n"
      "  tmprof ctl status --format json\n"
      "  tmprof ctl hot --limit 100\n"
      "  tmprof ctl pause");
  command->callback([options, &exit_status] {
    const Status status = Control(*options);
    exit_status = status ? kDone : ReportError(status.error());
  });
}

}  // namespace tmprof
