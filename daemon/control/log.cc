// SPDX-License-Identifier: Apache-2.0

#include "daemon/control/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace tmprof {
namespace {

// Levels of syslog(3): LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG.
constexpr std::array kSyslogLevel = {3, 4, 6, 7};

std::string Mark(LogLevel level) {
  return fmt::format("<{}>", kSyslogLevel[static_cast<std::size_t>(level)]);
}

std::string MarkedLines(std::string_view text, const std::string& mark) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.append(mark).append(text.substr(0, end)).append("\n");
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// "2026-11-24T21:03:04.250Z"
std::string Utc(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time);
  const auto seconds = std::chrono::floor<std::chrono::seconds>(ms);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                     (ms - seconds).count());
}

}  // namespace

std::string LogLines(const LogEvent& event, LogFormat format, bool to_journal,
                     std::chrono::system_clock::time_point now) {
  if (format == LogFormat::kJson) {
    Json line{{"time", Utc(now)}, {"level", Name(event.level)}, {"message", event.text}};
    line.update(event.figures);
    return (to_journal ? Mark(event.level) : "") +
           line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  if (to_journal) return MarkedLines(event.text, Mark(event.level));
  return fmt::format("tmprofd: {}: {}\n", Name(event.level), event.text);
}

Log::Log(const LogConfig& config)
    : config_(config), to_journal_(std::getenv("JOURNAL_STREAM") != nullptr) {}

void Log::operator()(LogLevel level, std::string_view text) const {
  (*this)({.level = level, .text = text});
}

void Log::operator()(const LogEvent& event) const {
  if (event.level > config_.level) return;
  const std::string lines =
      LogLines(event, config_.format, to_journal_, std::chrono::system_clock::now());
  (void)std::fputs(lines.c_str(), stderr);
}

}  // namespace tmprof
