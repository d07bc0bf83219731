// SPDX-License-Identifier: Apache-2.0
// Parses text that is one number and nothing else.

#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

namespace tmprof {

// Returns the number that `text` spells, which is finite; it may have a sign and an exponent.
// nullopt: `text` is empty, has other characters, or the value does not fit.
inline std::optional<double> ParseFiniteNumber(
    std::string_view text, std::chars_format format = std::chars_format::general) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, format);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

// ParseFiniteNumber() that refuses a sign and an exponent, too.
inline std::optional<double> ParseDecimalNumber(std::string_view text) {
  if (text.starts_with('-')) return std::nullopt;
  return ParseFiniteNumber(text, std::chars_format::fixed);
}

}  // namespace tmprof
