// SPDX-License-Identifier: Apache-2.0
// The daemon's log: a line for each event, to standard error.

#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/text/format.h"
#include "daemon/settings.h"

namespace tmprof {

struct LogEvent {
  LogLevel level = LogLevel::kInfo;
  std::string_view text;
  Json figures = Json::object();  // keyed by name; the figures of the text, for programs
};

// With its line feed. "tmprofd: warning: TEXT", or an object on one line; where the journal reads
// it, with the level as sd-daemon(3) marks it, on each line of the text.
std::string LogLines(const LogEvent& event, LogFormat format, bool to_journal,
                     std::chrono::system_clock::time_point now);

class Log {
 public:
  explicit Log(const LogConfig& config);
  void operator()(LogLevel level, std::string_view text) const;
  void operator()(const LogEvent& event) const;

 private:
  LogConfig config_;
  bool to_journal_;
};

}  // namespace tmprof
