// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/cli.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <functional>

#include "base/human_units.h"

namespace tmprof {
namespace {

template <typename Value>
CLI::Option* AddParsed(CLI::App& command, const std::string& flags, Value& value,
                       const std::string& description, Result<Value> (*parse)(std::string_view),
                       std::string (*format)(Value), const std::string& type_name) {
  const auto read = [&value, parse, flags](const CLI::results_t& words) {
    const Result<Value> parsed = parse(words.back());
    if (!parsed) throw CLI::ValidationError(flags, parsed.error().Message());
    value = *parsed;
    return true;
  };
  CLI::Option* option = command.add_option(flags, read, description);
  option->type_name(type_name)->default_str(format(value));
  return option;
}

}  // namespace

int ReportError(const Error& error) {
  fmt::print(stderr, "tmprof: {}\n", error.Message());
  return error.ExitStatus();
}

void Warn(std::string_view message) { fmt::print(stderr, "tmprof: warning: {}\n", message); }

CLI::Option* AddDuration(CLI::App& command, const std::string& flags,
                         std::chrono::nanoseconds& value, const std::string& description) {
  return AddParsed(command, flags, value, description, ParseDuration, FormatDuration, "TIME");
}

CLI::Option* AddShare(CLI::App& command, const std::string& flags, double& value,
                      const std::string& description) {
  return AddParsed(command, flags, value, description, ParseShare, FormatShare, "SHARE");
}

void AddRankModel(CLI::App& command, std::string& value) {
  command.add_option("--rank-model", value, "rate: estimated accesses; sum: references + samples")
      ->check(CLI::IsMember({"rate", "sum"}))
      ->capture_default_str();
}

void AddFormat(CLI::App& command, std::string& value) {
  command.add_option("--format", value, "How to show it")
      ->check(CLI::IsMember({"text", "json", "csv"}))
      ->capture_default_str();
}

Status WriteOut(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return Fail(Refused("write to", "standard output", errno));
  }
  return {};
}

}  // namespace tmprof
