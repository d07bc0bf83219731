// SPDX-License-Identifier: Apache-2.0
// Durations as people write them: "5ms". Other quantities are in base/text/human_units.h.

#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tmprof {

// Parses a non-negative number with one of ns, us, ms, s, m, h: "250us", "1.5s". A bare number is
// refused.
Result<std::chrono::nanoseconds> ParseDuration(std::string_view text);

// Returns the shortest form that is exact enough: "1s", "250us", "1.5s".
std::string FormatDuration(std::chrono::nanoseconds duration);

}  // namespace tmprof
