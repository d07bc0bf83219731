// SPDX-License-Identifier: Apache-2.0
// The main() of every workload: options, exit statuses, and output whose loss is noticed.

#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "testbed/workloads/parse.h"

// Programs do without CLI11's headers, which take seconds to compile.
namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tmprof::workload {

// The command line of a program.
struct AppDeleter {
  void operator()(CLI::App* app) const;
};
using App = std::unique_ptr<CLI::App, AppDeleter>;
App MakeApp(const std::string& description, const std::string& name);

// An option whose text `set` takes, or refuses with a reason.
using SetText = std::function<std::optional<std::string>(const std::string& text)>;
CLI::Option* AddText(CLI::App& app, const std::string& flag, SetText set, const std::string& help);
void ShowDefault(CLI::Option* option, const std::string& preset);
// Refuses other numbers than these.
void Bound(CLI::Option* option, std::uint64_t least, std::uint64_t most);
CLI::Option* AddFlag(CLI::App& app, const std::string& flag, bool& value, const std::string& help);

// An option whose text `parse` turns into `value`, which may be a T or an optional one.
template <typename T, typename Value>
CLI::Option* AddOptional(CLI::App& app, const std::string& flag, Value& value,
                         Parsed<T> (*parse)(std::string_view), const std::string& help) {
  const auto set = [&value, parse](const std::string& text) -> std::optional<std::string> {
    Parsed<T> parsed = parse(text);
    if (!parsed) return parsed.error();
    value = *parsed;
    return std::nullopt;
  };
  return AddText(app, flag, set, help);
}

// The same with a default, `preset`, as a user would write it. Precondition: it can be parsed.
template <typename T>
CLI::Option* AddOption(CLI::App& app, const std::string& flag, T& value,
                       Parsed<T> (*parse)(std::string_view), const std::string& preset,
                       const std::string& help) {
  value = *parse(preset);
  CLI::Option* option = AddOptional(app, flag, value, parse, help);
  ShowDefault(option, preset);
  return option;
}

// Why a program ends early, as a clause.
struct Fault {
  int exit_status;
  std::string why;
};
using Ended = std::expected<void, Fault>;
inline std::unexpected<Fault> BadInput(std::string why) {
  return std::unexpected(Fault{2, std::move(why)});
}
inline std::unexpected<Fault> Refused(std::string why) {
  return std::unexpected(Fault{1, std::move(why)});
}

// Reads the command line into the options of `app`, then runs `body`. Returns the exit status: 0
// done, 2 bad input, 1 the system refused something, standard output included.
int RunProgram(CLI::App& app, int argc, char** argv, const std::function<Ended()>& body);

}  // namespace tmprof::workload
