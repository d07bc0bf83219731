// SPDX-License-Identifier: Apache-2.0

#include "base/text/option_values.h"

#include "base/duration_text.h"

namespace tmprof {

Result<std::chrono::nanoseconds> ParseTimeOption(std::string_view text) {
  const bool is_bare = text.find_first_of("0123456789") != std::string_view::npos &&
                       text.find_first_not_of("0123456789.") == std::string_view::npos;
  return ParseDuration(is_bare ? std::string(text) + "s" : std::string(text));
}

}  // namespace tmprof
