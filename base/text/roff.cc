// SPDX-License-Identifier: Apache-2.0

#include "base/text/roff.h"

namespace tmprof {

std::string Roff(std::string_view text) {
  std::string escaped;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\' || c == '-') escaped += '\\';
    escaped += c;
    line_start = c == '\n';
  }
  return escaped;
}

}  // namespace tmprof
