// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/cli.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <system_error>

#include "apps/command_line/parse_errors.h"
#include "base/text/human_units.h"
#include "base/text/option_values.h"
#include "rank/rank_weight.h"

namespace tmprof {
namespace {

// "--output" of "-o,--output"; the last name is the long one.
std::string LongName(const std::string& flags) { return flags.substr(flags.rfind(',') + 1); }

template <typename Value>
CLI::Option* AddParsed(CLI::App& command, const std::string& flags, Value& value,
                       const std::string& description, Result<Value> (*parse)(std::string_view),
                       std::string (*format)(Value), const std::string& type_name) {
  const auto read = [&value, parse, flags](const CLI::results_t& words) {
    const Result<Value> parsed = parse(words.back());
    if (!parsed) throw CLI::ValidationError(LongName(flags), parsed.error().Message());
    value = *parsed;
    return true;
  };
  CLI::Option* option = command.add_option(flags, read, description);
  option->type_name(type_name)->default_str(format(value));
  return option;
}

}  // namespace

CLI::Option* AddDuration(CLI::App& command, const std::string& flags,
                         std::chrono::nanoseconds& value, const std::string& description) {
  return AddParsed(command, flags, value, description, ParseTimeOption, FormatDuration, "TIME");
}

CLI::Option* AddDuration(CLI::App& command, const std::string& flags,
                         std::optional<std::chrono::nanoseconds>& value,
                         const std::string& description) {
  const auto read = [&value, flags](const std::string& word) {
    const auto parsed = ParseTimeOption(word);
    if (!parsed) throw CLI::ValidationError(LongName(flags), parsed.error().Message());
    value = *parsed;
  };
  return command.add_option_function<std::string>(flags, read, description)->type_name("TIME");
}

CLI::Option* AddBytes(CLI::App& command, const std::string& flags,
                      std::optional<std::uint64_t>& value, const std::string& description) {
  const auto read = [&value, flags](const std::string& word) {
    const auto parsed = ParseBytes(word);
    if (!parsed) throw CLI::ValidationError(LongName(flags), parsed.error().Message());
    value = *parsed;
  };
  return command.add_option_function<std::string>(flags, read, description)->type_name("SIZE");
}

CLI::Option* AddShare(CLI::App& command, const std::string& flags, double& value,
                      const std::string& description) {
  return AddParsed(command, flags, value, description, ParseShare, FormatShare, "SHARE");
}

CLI::Validator WholeNumber(std::uint64_t least) {
  const auto check = [least](const std::string& word) -> std::string {
    std::uint64_t number = 0;
    const char* const end = word.data() + word.size();
    const auto [stop, error] = std::from_chars(word.data(), end, number);
    if (error == std::errc{} && stop == end && number >= least) return "";
    return fmt::format("'{}' is not a whole number of {} or more", word, least);
  };
  return CLI::Validator(check, "");
}

CLI::Option* AddRankModel(CLI::App& command, std::string& value) {
  return command
      .add_option("--rank-model", value,
                  "How evidence is scored\n"
                  "'rate' estimates accesses from all evidence. 'sum' adds up references and "
                  "samples.")
      ->check(OneOf({"rate", "sum"}))
      ->capture_default_str();
}

CLI::Option* AddRankWeight(CLI::App& command, std::string& value, std::string_view note) {
  std::string description =
      "What a page's score counts: memory, accesses, stall or references\n"
      "'memory' counts accesses that reach memory, 'accesses' all of them, and 'references' "
      "accessed bits. 'stall' is the time that a trace says accesses waited for memory.";
  if (!note.empty()) description += fmt::format(" ({})", note);
  CLI::Option* option = command.add_option("--rank-weight", value, description);
  option->type_name("WEIGHT")->check([](const std::string& text) {
    return ParseRankWeight(text)
               ? std::string()
               : fmt::format("'{}' is none of memory, accesses, stall, references", text);
  });
  if (!value.empty()) option->capture_default_str();
  return option;
}

CLI::Option* AddLlc(CLI::App& command, std::optional<std::uint64_t>& value) {
  return AddBytes(command, "--llc", value,
                  "Model a last-level cache of this size (see lscpu)\n"
                  "The model tells accesses to memory where misses were not sampled.")
      ->check([](const std::string& text) {
        const Result<std::uint64_t> bytes = ParseBytes(text);
        const bool is_too_small = bytes && *bytes < kBasePageBytes;
        return std::string(is_too_small ? "a cache holds a page of 4 KiB at least" : "");
      });
}

void AddFormat(CLI::App& command, std::string& value) {
  command.add_option("--format", value, "Format of the output")
      ->check(OneOf({"text", "json", "csv"}))
      ->capture_default_str();
}

void AddWide(CLI::App& command, bool& value) {
  command.add_flag(
      "--wide", value,
      "Print all columns of tables, however wide the terminal is\n"
      "Without it, a table on a terminal leaves out its least important columns until "
      "it fits, and cuts long texts in their middle. A line below names these columns. "
      "COLUMNS in the environment overrides the width of the terminal.");
}

}  // namespace tmprof
