// SPDX-License-Identifier: Apache-2.0

#include "apps/command_line/parse_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "apps/command_line/help.h"

namespace tmprof {
namespace {

std::string SeeHelp(const CLI::App& command, std::string_view what) {
  return fmt::format("'{} --help' lists {}", FullName(command), what);
}

// "--duratoin" of "--duratoin=5s".
std::string OptionName(const std::string& word) { return word.substr(0, word.find('=')); }

std::vector<std::string> LongNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : ShownOptions(command)) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Error Unexpected(const CLI::App& command, const std::vector<std::string>& words) {
  const std::vector<std::string> left = command.remaining(true);
  const auto is_left = [&](const std::string& word) { return std::ranges::count(left, word) > 0; };
  auto word = std::ranges::find_if(
      words, [&](const std::string& each) { return each.starts_with('-') && is_left(each); });
  if (word != words.end()) {
    return BadInput("use option", OptionName(*word),
                    fmt::format("'{}' has no such option", FullName(command)),
                    DidYouMean(OptionName(*word), LongNames(command), SeeHelp(command, "all")));
  }
  word = std::ranges::find_if(words, is_left);
  return BadInput("use argument", word == words.end() ? "" : *word,
                  fmt::format("'{}' takes no further arguments", FullName(command)),
                  SeeHelp(command, "the arguments that it takes"));
}

// Splits "A SEPARATOR B"; B is empty where there is no separator.
std::pair<std::string, std::string> Halves(const std::string& text, std::string_view separator) {
  const std::size_t at = text.find(separator);
  if (at == std::string::npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + separator.size())};
}

}  // namespace

Error UnknownCommand(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : ShownCommands(app)) names.push_back(command->get_name());
  names.emplace_back("help");
  return BadInput("run command", word, fmt::format("{} has no such command", app.get_name()),
                  DidYouMean(word, names, fmt::format("'{} help' lists all", app.get_name())));
}

Error ExplainParseError(const CLI::App& command, const std::vector<std::string>& words,
                        const CLI::ParseError& error) {
  const std::string kind = error.get_name();
  const std::string what = error.what();
  // CLI11 asks for what is required before it tells of what it does not know, and gives the error
  // of that the name of the command.
  const bool has_unknown = kind == "RequiredError" && !command.remaining(true).empty();
  if (has_unknown || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    return Unexpected(command, words);
  }
  if (kind == "ExcludesError") {
    const auto [option, other] = Halves(what, " excludes ");
    return BadInput("use option", option, fmt::format("'{}' is given, too", other),
                    "leave one of them out");
  }
  if (kind == "RequiresError") {
    const auto [option, other] = Halves(what, " requires ");
    return BadInput("use option", option, fmt::format("it is for '{}'", other),
                    fmt::format("give that, too, or leave '{}' out", option));
  }
  if (kind == "RequiredError") {
    const std::string missing = Halves(what, " is required").first;
    return BadInput("run command", FullName(command), fmt::format("{} is missing", missing),
                    SeeHelp(command, "what it takes"));
  }
  if (kind == "ArgumentMismatch") {
    return BadInput("use option", Halves(what, ":").first, "it takes a value, which is missing",
                    SeeHelp(command, "what it takes"));
  }
  if (kind == "ConversionError") {
    const auto [option, value] = Halves(Halves(what, "Could not convert: ").second, " = ");
    if (!value.empty()) {
      return BadInput("use option", option,
                      fmt::format("'{}' is not a number that it takes", value),
                      SeeHelp(command, "what it takes"));
    }
  }
  const auto [option, whole_reason] = Halves(what, ": ");
  const auto [reason, question] = Halves(whole_reason, "; did you mean ");
  if (!question.empty()) {
    return BadInput("use option", option, reason,
                    fmt::format("did you mean {} {}", question, SeeHelp(command, "what it takes")));
  }
  if (reason.empty()) return BadInput("read the command line", "", what, SeeHelp(command, "all"));
  return BadInput("use option", option, reason, SeeHelp(command, "what it takes"));
}

CLI::Validator OneOf(std::vector<std::string> names) {
  const std::string description = fmt::format("{{{}}}", fmt::join(names, ","));
  const auto check = [names = std::move(names)](const std::string& word) -> std::string {
    if (std::ranges::count(names, word) > 0) return "";
    const std::string refused = fmt::format("'{}' is none of {}", word, fmt::join(names, ", "));
    const std::string nearest = Nearest(word, names);
    return nearest.empty() ? refused : fmt::format("{}; did you mean '{}'?", refused, nearest);
  };
  return {check, description};
}

}  // namespace tmprof
