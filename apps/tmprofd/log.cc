// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprofd/log.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace tmprof {
namespace {

// Of syslog(3): LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG.
constexpr std::array kSyslogLevel = {3, 4, 6, 7};

}  // namespace

Log::Log(LogLevel level) : level_(level), to_journal_(std::getenv("JOURNAL_STREAM") != nullptr) {}

void Log::operator()(LogLevel level, std::string_view text) const {
  if (level > level_) return;
  const std::string line =
      to_journal_ ? fmt::format("<{}>{}\n", kSyslogLevel[static_cast<std::size_t>(level)], text)
                  : fmt::format("tmprofd: {}: {}\n", Name(level), text);
  (void)std::fputs(line.c_str(), stderr);
}

}  // namespace tmprof
