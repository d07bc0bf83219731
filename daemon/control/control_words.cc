// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/control_words.h"

#include <fmt/format.h>

#include <utility>

namespace tmprof {
namespace {

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

// Tells an operator that the daemon has done as it was told.
std::string Confirmation(const ControlWords& words) {
  if (words.command == "pause") return "paused\n";
  if (words.command == "resume") return "resumed\n";
  if (words.command == "stop") return "stopping\n";
  std::string text;
  for (const std::string& setting : words.settings) text += Printable(setting) + "\n";
  return text;
}

}  // namespace

Result<Json> RequestOf(const ControlWords& words) {
  Json request = {{"command", words.command}};
  if (words.asks()) request["format"] = words.format;
  if (words.asks() && words.format == "text" && words.width) request["columns"] = *words.width;
  if (words.command == "hot") {
    const std::uint64_t limit = words.limit.value_or(kDefaultHotSpans);
    if (limit != 0) request["limit"] = limit;
  } else if (words.limit) {
    return Fail(BadInput("use option", "--limit", fmt::format("'{}' takes none", words.command)));
  } else if (words.format == "binary") {
    return Fail(BadInput("write", words.command, "only 'hot' has a binary format"));
  }
  if (words.command != "set") {
    if (words.settings.empty()) return request;
    return Fail(BadInput("use argument", words.settings.front(),
                         fmt::format("'{}' takes none", words.command)));
  }
  if (words.settings.empty()) {
    return Fail(BadInput("set", "", "there is nothing to set", "write NAME=VALUE behind it"));
  }
  auto settings = ParseSettings(words.settings);
  if (!settings) return Fail(settings.error());
  request["settings"] = *std::move(settings);
  return request;
}

std::string ReplyText(const ControlWords& words, const Json& answer) {
  if (!words.asks()) return Confirmation(words);
  const auto text = answer.find("text");
  return text != answer.end() && text->is_string() ? text->get<std::string>() : JsonText(answer);
}

std::string ReplyJson(const ControlWords& words, const Json& answer) {
  const auto asked = answer.find(words.command);  // what was asked is named so
  return JsonText(asked == answer.end() ? answer : *asked);
}

}  // namespace tmprof
