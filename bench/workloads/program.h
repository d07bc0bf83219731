// SPDX-License-Identifier: Apache-2.0
// What the main() of every workload does: options, exit statuses, and output whose loss is noticed.

#pragma once

#include <CLI/CLI.hpp>
#include <expected>
#include <functional>
#include <string>

#include "bench/workloads/parse.h"

namespace tmprof::workload {

// An option whose text `parse` turns into `value`, which may be a T or an optional one.
template <typename T, typename Value>
CLI::Option* AddOptional(CLI::App& app, const std::string& flag, Value& value,
                         Parsed<T> (*parse)(std::string_view), const std::string& help) {
  const auto set = [&value, parse, flag](const std::string& text) {
    Parsed<T> parsed = parse(text);
    if (!parsed) throw CLI::ValidationError(flag, parsed.error());
    value = *parsed;
  };
  return app.add_option_function<std::string>(flag, set, help);
}

// The same with a default, `preset`, as a user would write it. Precondition: it can be parsed.
template <typename T>
CLI::Option* AddOption(CLI::App& app, const std::string& flag, T& value,
                       Parsed<T> (*parse)(std::string_view), const std::string& preset,
                       const std::string& help) {
  value = *parse(preset);
  return AddOptional(app, flag, value, parse, help)->default_str(preset);
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
