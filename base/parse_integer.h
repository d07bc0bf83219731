// SPDX-License-Identifier: Apache-2.0
// Parses text that is one integer and nothing else.

#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace tmprof {

// Returns the integer that `text` spells in `base`. nullopt: `text` is empty, has other characters
// before or behind the integer (a sign '+', white space and "0x" included), or the value does not
// fit.
template <typename Integer>
std::optional<Integer> ParseInteger(std::string_view text, int base = 10) {
  Integer value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace tmprof
