// SPDX-License-Identifier: Apache-2.0

#include "base/human_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace tmprof {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

constexpr std::array<Unit, 6> kDurations{
    {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
// A longer duration is a slip, and would overflow sums.
constexpr double kLongestNanoseconds = 365.0 * 24 * 3600e9;

std::optional<double> ParseNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

}  // namespace

Result<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  const auto refuse = [&](std::string reason) {
    return Fail(BadInput("read duration", std::string(text), std::move(reason),
                         "write a number and a unit, as in 250us, 5ms, 1.5s, 2m"));
  };
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> number = ParseNumber(text.substr(0, digits));
  if (!number) return refuse("it does not start with a number");
  const std::string_view suffix = text.substr(digits);
  for (const Unit& unit : kDurations) {
    if (suffix != unit.suffix) continue;
    if (*number * unit.factor > kLongestNanoseconds) return refuse("it is longer than a year");
    return std::chrono::nanoseconds(std::llround(*number * unit.factor));
  }
  return refuse(suffix.empty() ? "it has no unit" : "unknown unit");
}

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
      ParseNumber(percent ? text.substr(0, text.size() - 1) : text);
  const double share = number.value_or(-1) / (percent ? 100 : 1);
  if (!number || share > 1) {
    return Fail(BadInput("read share", std::string(text), "it is not between 0% and 100%",
                         "write it as in 0.5% or 0.005"));
  }
  return share;
}

std::string FormatDuration(std::chrono::nanoseconds duration) {
  // Hours are used only if seconds would take more than the four digits shown.
  constexpr double kManySeconds = 9999;
  for (const Unit& unit : {kDurations[5], kDurations[3], kDurations[2], kDurations[1]}) {
    const double value = static_cast<double>(duration.count()) / unit.factor;
    const double least = unit.suffix == "h" ? kManySeconds / 3600 : 1;
    if (value >= least) return fmt::format("{:.4g}{}", value, unit.suffix);
  }
  return fmt::format("{}ns", duration.count());
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
