// SPDX-License-Identifier: Apache-2.0
// The words of an operator as requests to the daemon, and its answers as text.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/format.h"
#include "base/text/text_table.h"

namespace tmprof {

inline constexpr std::uint64_t kDefaultHotSpans = 20;

struct ControlWords {
  std::string command;  // "status", "targets", "hot", "pause", "resume", "set", "stop"
  std::vector<std::string> settings;   // of "set": NAME=VALUE
  std::string format = "text";         // or "json"; "binary" with "hot" alone
  std::optional<std::uint64_t> limit;  // spans of "hot"; nullopt: kDefaultHotSpans; 0: all
  TextWidth width;                     // that tables in text have to fit

  // True: it is a question, and the answer has what was asked.
  bool asks() const { return command == "status" || command == "targets" || command == "hot"; }
};

// Refuses settings that are malformed, missing, named twice, or given to another command; and
// limits and formats of another command.
Result<Json> RequestOf(const ControlWords& words);

// Returns the text for the operator: what was asked, or that the daemon has done as it was told.
// Precondition: the answer is "ok".
std::string ReplyText(const ControlWords& words, const Json& answer);
// Returns what was asked as JSON; else the whole answer.
std::string ReplyJson(const ControlWords& words, const Json& answer);

}  // namespace tmprof
