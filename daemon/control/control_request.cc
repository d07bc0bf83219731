// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/control_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/text/format.h"

namespace tmprof {
namespace {

struct CommandRow {
  std::string_view name;
  ControlCommand command;
  std::array<std::string_view, 3> fields;  // that it takes besides; "": none
};

constexpr std::array kCommands{
    CommandRow{"status", ControlCommand::kStatus, {"format", "columns"}},
    CommandRow{"targets", ControlCommand::kTargets, {"format", "columns"}},
    CommandRow{"hot", ControlCommand::kHot, {"format", "columns", "limit"}},
    CommandRow{"pause", ControlCommand::kPause, {}},
    CommandRow{"resume", ControlCommand::kResume, {}},
    CommandRow{"set", ControlCommand::kSet, {"settings"}},
    CommandRow{"stop", ControlCommand::kStop, {}}};

std::unexpected<Error> Refuse(std::string reason) {
  return Fail(BadInput("understand the request", "", std::move(reason)));
}

// Quotes a client's text, cut to the length that a message may hold.
std::string Quoted(const std::string& text) {
  constexpr std::size_t kMost = 40;
  return fmt::format("'{}{}'", Printable(std::string_view(text).substr(0, kMost)),
                     text.size() > kMost ? "…" : "");
}

Result<std::vector<Setting>> ParseSettings(const Json& json) {
  if (!json.is_object() || json.empty())
    return Refuse("'settings' is an object of at least one name and value");
  std::vector<Setting> settings;
  for (const auto& [name, value] : json.items()) {
    if (!value.is_string()) return Refuse(fmt::format("the value of {} is not text", Quoted(name)));
    settings.push_back({name, value.get<std::string>()});
  }
  return settings;
}

Result<AnswerFormat> FormatOf(const Json& value, ControlCommand command) {
  if (value == "json") return AnswerFormat::kJson;
  if (value == "text") return AnswerFormat::kText;
  if (command != ControlCommand::kHot) return Refuse("'format' is \"json\" or \"text\"");
  if (value == "binary") return AnswerFormat::kBinary;
  return Refuse("'format' is \"json\", \"text\" or \"binary\"");
}

}  // namespace

Result<ControlRequest> ParseControlRequest(std::string_view line) {
  bool twice = false;
  std::vector<std::vector<std::string>> names;  // names in each object that is open
  const auto watch = [&](int, Json::parse_event_t event, const Json& value) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      twice = twice || std::ranges::find(names.back(), name) != names.back().end();
      names.back().push_back(name);
    }
    return true;
  };
  const Json json = Json::parse(line, watch, false);
  if (json.is_discarded() || !json.is_object()) return Refuse("it is not one JSON object");
  if (twice) return Refuse("it names something twice");

  const auto word = json.find("command");
  if (word == json.end() || !word->is_string()) return Refuse("it has no text 'command'");
  const auto& name = word->get_ref<const std::string&>();
  const auto row = std::ranges::find(kCommands, name, &CommandRow::name);
  if (row == kCommands.end()) {
    std::string known;
    for (const CommandRow& one : kCommands) known += fmt::format(" {}", one.name);
    return Refuse(fmt::format("there is no command {}; there are{}", Quoted(name), known));
  }

  ControlRequest request{.command = row->command};
  for (const auto& [field, value] : json.items()) {
    if (field == "command") continue;
    if (field.empty() || std::ranges::find(row->fields, field) == row->fields.end())
      return Refuse(fmt::format("'{}' takes no field {}", name, Quoted(field)));
    if (field == "settings") {
      auto settings = ParseSettings(value);
      if (!settings) return Fail(settings.error());
      request.settings = *std::move(settings);
    } else if (field == "columns") {
      if (!value.is_number_unsigned() || value == 0)
        return Refuse("'columns' is a whole number above 0");
      request.columns = value.get<std::size_t>();
    } else if (field == "limit") {
      if (!value.is_number_unsigned() || value == 0)
        return Refuse("'limit' is a whole number above 0");
      request.limit = value.get<std::size_t>();
    } else {
      const auto format = FormatOf(value, row->command);
      if (!format) return Fail(format.error());
      request.format = *format;
    }
  }
  if (request.columns && request.format != AnswerFormat::kText)
    return Refuse("'columns' is for \"format\": \"text\"");
  if (request.command == ControlCommand::kSet && request.settings.empty())
    return Refuse("'set' needs 'settings'");
  return request;
}

}  // namespace tmprof
