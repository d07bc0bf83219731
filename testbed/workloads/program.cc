// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "testbed/workloads/print.h"

namespace tmprof::workload {

void AppDeleter::operator()(CLI::App* app) const { delete app; }

App MakeApp(const std::string& description, const std::string& name) {
  return App(new CLI::App(description, name));
}

CLI::Option* AddText(CLI::App& app, const std::string& flag, SetText set, const std::string& help) {
  const auto set_or_throw = [flag, set = std::move(set)](const std::string& text) {
    if (const auto refused = set(text)) throw CLI::ValidationError(flag, *refused);
  };
  return app.add_option_function<std::string>(flag, set_or_throw, help);
}

void ShowDefault(CLI::Option* option, const std::string& preset) { option->default_str(preset); }

void Bound(CLI::Option* option, std::uint64_t least, std::uint64_t most) {
  option->check(CLI::Range(least, most));
}

CLI::Option* AddFlag(CLI::App& app, const std::string& flag, bool& value, const std::string& help) {
  return app.add_flag(flag, value, help);
}

int RunProgram(CLI::App& app, int argc, char** argv, const std::function<Ended()>& body) {
  app.set_help_flag("--help", "Print this help and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Ended ended = body();
  const bool printed = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (ended && !printed) ended = Refused("cannot write to standard output");
  if (ended) return 0;
  Print(stderr, "{}: {}\n", app.get_name(), ended.error().why);
  return ended.error().exit_status;
}

}  // namespace tmprof::workload
