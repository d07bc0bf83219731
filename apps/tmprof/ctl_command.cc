// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/command_line/parse_errors.h"
#include "apps/command_line/terminal.h"
#include "apps/tmprof/cli.h"
#include "base/text/format.h"
#include "daemon/control/control_address.h"
#include "daemon/control/control_client.h"

namespace tmprof {
namespace {

// A daemon that has said nothing for so long is given up.
constexpr std::chrono::seconds kPatience{5};

struct CtlOptions {
  std::string command;
  std::vector<std::string> settings;
  std::string socket{kDefaultControlSocket};
  std::string format = "text";
  bool wide = false;

  bool asks() const { return command == "status" || command == "targets"; }
};

Result<Json> ParseSettings(const std::vector<std::string>& words) {
  Json settings = Json::object();
  for (const std::string& word : words) {
    const auto refuse = [&word](std::string reason) {
      return Fail(BadInput("set", word, std::move(reason), "write NAME=VALUE"));
    };
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return refuse("it has no '='");
    const std::string name = word.substr(0, equals);
    if (name.empty()) return refuse("it has no name");
    if (settings.contains(name)) return refuse("its name is in the list before");
    settings[name] = word.substr(equals + 1);
  }
  return settings;
}

Result<Json> RequestOf(const CtlOptions& options) {
  Json request = {{"command", options.command}};
  if (options.asks()) request["format"] = options.format;
  const TextWidth width = OutputWidth(options.wide);
  if (options.asks() && options.format == "text" && width) request["columns"] = *width;
  if (options.command != "set") {
    if (options.settings.empty()) return request;
    return Fail(BadInput("use argument", options.settings.front(),
                         fmt::format("'{}' takes none", options.command)));
  }
  if (options.settings.empty()) {
    return Fail(BadInput("set", "", "there is nothing to set", "write NAME=VALUE behind it"));
  }
  auto settings = ParseSettings(options.settings);
  if (!settings) return Fail(settings.error());
  request["settings"] = *std::move(settings);
  return request;
}

// Tells an operator that the daemon has done as it was told.
std::string Confirmation(const CtlOptions& options) {
  if (options.command == "pause") return "paused\n";
  if (options.command == "resume") return "resumed\n";
  if (options.command == "stop") return "stopping\n";
  std::string text;
  for (const std::string& setting : options.settings) text += Printable(setting) + "\n";
  return text;
}

std::string AsText(const CtlOptions& options, const Json& answer) {
  if (!options.asks()) return Confirmation(options);
  const auto text = answer.find("text");
  return text != answer.end() && text->is_string() ? text->get<std::string>() : JsonText(answer);
}

Status Control(const CtlOptions& options) {
  const Result<Json> request = RequestOf(options);
  if (!request) return Fail(request.error());
  const Result<Json> answer = AskDaemon(options.socket, *request, kPatience);
  if (!answer) return Fail(answer.error());
  if (options.format == "text") {
    return WriteOut(Fitted(AsText(options, *answer), OutputWidth(options.wide)));
  }
  const auto asked = answer->find(options.command);  // "status" and "targets" are named so
  return WriteOut(JsonText(asked == answer->end() ? *answer : *asked));
}

}  // namespace

void AddCtlCommand(CLI::App& app, int& exit_status) {
  CLI::App* command =
      app.add_subcommand("ctl", "Asks the placement daemon, and tells it what to do");
  auto options = std::make_shared<CtlOptions>();
  command->add_option("COMMAND", options->command, "What to ask or tell the daemon")
      ->check(OneOf({"status", "targets", "pause", "resume", "set", "stop"}))
      ->required();
  command->add_option("SETTING", options->settings, "With set: settings to change, as NAME=VALUE")
      ->type_name("NAME=VALUE");
  command->add_option("--socket", options->socket, "The daemon's control socket")
      ->type_name("PATH")
      ->capture_default_str();
  command->add_option("--format", options->format, "Format of the output")
      ->check(OneOf({"text", "json"}))
      ->capture_default_str();
  AddWide(*command, options->wide);
  command->footer(
      "Commands:\n"
      "  status  Show all that the daemon does\n"
      "  targets  Show the processes that it places\n"
      "  pause  Move no pages until 'resume'\n"
      "  resume  Move pages again\n"
      "  set  Change settings until the daemon ends or reads its file again (SIGHUP)\n"
      "  stop  End the daemon\n\n"
      "Examples:\n"
      "  tmprof ctl status --format json\n"
      "  tmprof ctl pause");
  command->callback([options, &exit_status] {
    const Status status = Control(*options);
    exit_status = status ? kDone : ReportError(status.error());
  });
}

}  // namespace tmprof
