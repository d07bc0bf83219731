// SPDX-License-Identifier: Apache-2.0

#include "apps/command_line/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/parse_integer.h"

namespace tmprof {

TextWidth OutputWidth() {
  constexpr std::size_t kFewest = 40;
  constexpr std::size_t kOfUnknownTerminal = 80;
  if (const char* variable = std::getenv("COLUMNS"); variable != nullptr) {
    const auto columns = ParseInteger<std::size_t>(variable);
    if (columns && *columns > 0) return std::max(*columns, kFewest);
  }
  if (isatty(STDOUT_FILENO) == 0) return std::nullopt;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kOfUnknownTerminal;
  return std::max<std::size_t>(size.ws_col, kFewest);
}

TextWidth OutputWidth(bool is_wide) { return is_wide ? std::nullopt : OutputWidth(); }

}  // namespace tmprof
