// SPDX-License-Identifier: Apache-2.0
// Settings of the daemon's parts. daemon/config/ joins them with those of the other rooms.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace tmprof {

struct LedgerConfig {
  std::optional<std::filesystem::path> file;  // absolute
  std::optional<std::uint64_t> most_bytes;    // then it becomes FILE.1
  std::uint32_t kept = 8;                     // earlier files: FILE.1, the latest, to FILE.8
  friend bool operator==(const LedgerConfig&, const LedgerConfig&) = default;
};

enum class LogLevel : std::uint8_t { kError, kWarning, kInfo, kDebug };
std::string_view Name(LogLevel level);  // "error", "warning", "info", "debug"
enum class LogFormat : std::uint8_t { kText, kJson };
std::string_view Name(LogFormat format);  // "text", "json"

struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  LogFormat format = LogFormat::kText;
};

}  // namespace tmprof
