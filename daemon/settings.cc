// SPDX-License-Identifier: Apache-2.0

#include "daemon/settings.h"

namespace tmprof {

std::string_view Name(LogFormat format) {
  switch (format) {
    case LogFormat::kText:
      return "text";
    case LogFormat::kJson:
      return "json";
  }
  return "invalid";
}

std::string_view Name(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
      return "error";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kDebug:
      return "debug";
  }
  return "invalid";
}

}  // namespace tmprof
