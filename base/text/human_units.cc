// SPDX-License-Identifier: Apache-2.0

#include "base/text/human_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

#include "base/parse_decimal.h"

namespace tmprof {

Result<std::uint64_t> ParseBytes(std::string_view text) {
  constexpr std::array<std::string_view, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  const auto refuse = [&](std::string reason) {
    return Fail(BadInput("read size", std::string(text), std::move(reason),
                         "write a whole number and a unit, as in 512KiB, 8MiB"));
  };
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return refuse("it does not start with a number");
  const std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  const auto unit = std::ranges::find(kUnits, suffix);
  if (unit == kUnits.end()) return refuse(suffix.empty() ? "it has no unit" : "unknown unit");
  const auto shift = 10 * (unit - kUnits.begin());
  if (number > std::numeric_limits<std::uint64_t>::max() >> shift)
    return refuse("it is above 16 EiB");
  return number << shift;
}

Result<double> ParseShare(std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::optional<double> number =
      ParseDecimalNumber(percent ? text.substr(0, text.size() - 1) : text);
  const double share = number.value_or(-1) / (percent ? 100 : 1);
  if (!number || share > 1) {
    return Fail(BadInput("read share", std::string(text), "it is not between 0% and 100%",
                         "write it as in 0.5% or 0.005"));
  }
  return share;
}

std::string FormatShare(double share) { return fmt::format("{:.4g}%", share * 100); }

std::string FormatBytes(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kSuffixes{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t suffix = 0;
  while (value >= 1024 && suffix + 1 < kSuffixes.size()) {
    value /= 1024;
    ++suffix;
  }
  return fmt::format("{:.4g} {}", value, kSuffixes[suffix]);
}

std::string FormatCount(std::uint64_t count) {
  std::string text = std::to_string(count);
  for (std::size_t end = text.size(); end > 3;) {
    end -= 3;
    text.insert(end, 1, ' ');
  }
  return text;
}

}  // namespace tmprof
