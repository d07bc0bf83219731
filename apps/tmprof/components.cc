// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/components.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "apps/command_line/help.h"
#include "apps/command_line/messages.h"
#include "apps/command_line/parse_errors.h"

namespace tmprof {

std::vector<std::string> MissingComponents() {
  std::vector<std::string> missing;
  if (!HasObjects()) missing.emplace_back("objects");
  if (!HasLocking()) missing.emplace_back("locking");
  return missing;
}

namespace {

// "--output" of "-o,--output".
std::string LastName(const std::string& flags) { return flags.substr(flags.rfind(',') + 1); }

}  // namespace

std::string LacksComponent(std::string_view component) {
  return fmt::format("this build of tmprof lacks the component {}", component);
}

CLI::Option* AddMissingOption(CLI::App& command, const std::string& flags,
                              std::string_view component) {
  const auto refuse = [flags, component](const std::string&) {
    throw CLI::ValidationError(LastName(flags), LacksComponent(component));
  };
  return command.add_option_function<std::string>(flags, refuse, "")->group(std::string(kHidden));
}

CLI::Option* AddMissingFlag(CLI::App& command, const std::string& flags,
                            std::string_view component) {
  const auto refuse = [flags, component](std::int64_t) {
    throw CLI::ValidationError(LastName(flags), LacksComponent(component));
  };
  return command.add_flag_function(flags, refuse, "")->group(std::string(kHidden));
}

void AddMissingCommand(CLI::App& app, const std::string& name, std::string_view component,
                       int& exit_status) {
  CLI::App* command =
      app.add_subcommand(name, fmt::format("Not in this build, which lacks {}", component));
  command->group(std::string(kHidden))->allow_extras();
  command->callback([name, component, &exit_status] {
    exit_status = ReportError(BadInput("run command", name, LacksComponent(component)));
  });
}

CLI::Validator OneOfThese(std::vector<std::string> names, std::vector<std::string> missing,
                          std::string_view component) {
  CLI::Validator these = OneOf(std::move(names));
  std::string description = these.get_description();
  return {[these = std::move(these), missing = std::move(missing), component](std::string& word) {
            return std::ranges::count(missing, word) > 0
                       ? fmt::format("'{}' is missing: {}", word, LacksComponent(component))
                       : these(word);
          },
          std::move(description)};
}

}  // namespace tmprof
