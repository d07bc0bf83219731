// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/cli.h"

#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <system_error>

#include "base/human_units.h"
#include "rank/rank_weight.h"

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

CLI::Option* AddDuration(CLI::App& command, const std::string& flags,
                         std::chrono::nanoseconds& value, const std::string& description) {
  return AddParsed(command, flags, value, description, ParseDuration, FormatDuration, "TIME");
}

CLI::Option* AddBytes(CLI::App& command, const std::string& flags,
                      std::optional<std::uint64_t>& value, const std::string& description) {
  const auto read = [&value, flags](const std::string& word) {
    const auto parsed = ParseBytes(word);
    if (!parsed) throw CLI::ValidationError(flags, parsed.error().Message());
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

void AddRankModel(CLI::App& command, std::string& value) {
  command.add_option("--rank-model", value, "rate: estimated accesses; sum: references + samples")
      ->check(CLI::IsMember({"rate", "sum"}))
      ->capture_default_str();
}

CLI::Option* AddRankWeight(CLI::App& command, std::string& value, std::string_view note) {
  std::string description = "What a page's score counts: memory, accesses or references";
  if (!note.empty()) description += fmt::format(" ({})", note);
  CLI::Option* option = command.add_option("--rank-weight", value, description);
  // ParseRankWeight() knows `stall`, too, which is refused with its reason.
  option->type_name("WEIGHT")->check([](const std::string& text) {
    return ParseRankWeight(text)
               ? std::string()
               : fmt::format("'{}' is none of memory, accesses, references", text);
  });
  if (!value.empty()) option->capture_default_str();
  return option;
}

void AddLlc(CLI::App& command, std::optional<std::uint64_t>& value) {
  AddBytes(command, "--llc", value,
           "Size of the last-level cache (lscpu), to model it where misses were not sampled")
      ->check([](const std::string& text) {
        const Result<std::uint64_t> bytes = ParseBytes(text);
        const bool is_too_small = bytes && *bytes < kBasePageBytes;
        return std::string(is_too_small ? "a cache holds a page of 4 KiB at least" : "");
      });
}

void AddFormat(CLI::App& command, std::string& value) {
  command.add_option("--format", value, "How to show it")
      ->check(CLI::IsMember({"text", "json", "csv"}))
      ->capture_default_str();
}

}  // namespace tmprof
