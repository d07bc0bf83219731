// SPDX-License-Identifier: Apache-2.0

#include "base/duration_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/parse_decimal.h"

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

}  // namespace

Result<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  const auto refuse = [&](std::string reason) {
    return Fail(BadInput("read duration", std::string(text), std::move(reason),
                         "write a number and a unit, as in 250us, 5ms, 1.5s, 2m"));
  };
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> number = ParseDecimalNumber(text.substr(0, digits));
  if (!number) return refuse("it does not start with a number");
  const std::string_view suffix = text.substr(digits);
  for (const Unit& unit : kDurations) {
    if (suffix != unit.suffix) continue;
    if (*number * unit.factor > kLongestNanoseconds) return refuse("it is longer than a year");
    return std::chrono::nanoseconds(std::llround(*number * unit.factor));
  }
  return refuse(suffix.empty() ? "it has no unit" : "unknown unit");
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

}  // namespace tmprof
