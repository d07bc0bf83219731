// SPDX-License-Identifier: Apache-2.0
// Parses text that is one decimal number and nothing else.

#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

namespace tmprof {

// Returns the number that `text` spells, which is finite and not negative. nullopt: `text` is
// empty, has other characters, an exponent or a sign included, or the value does not fit.
inline std::optional<double> ParseDecimalNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

}  // namespace tmprof
