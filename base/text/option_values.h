// SPDX-License-Identifier: Apache-2.0
// Values of options, as people write them on a command line.

#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text/option_fault.h"

namespace tmprof {

// ParseDuration() that takes a bare number for seconds, as options of people do. Files do not.
Result<std::chrono::nanoseconds> ParseTimeOption(std::string_view text);

// Refuses a list whose values are not all different; `values` as the user wrote `words`.
template <typename Value>
Status RequireDifferent(std::string_view option, const std::vector<std::string>& words,
                        const std::vector<Value>& values) {
  for (auto value = values.begin(); value != values.end(); ++value) {
    if (std::find(values.begin(), value, *value) == value) continue;
    const std::string& word = words[static_cast<std::size_t>(value - values.begin())];
    return Fail(OfOption(option, word, BadInput("", "", "its value is in the list before")));
  }
  return {};
}

}  // namespace tmprof
