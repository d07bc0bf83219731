// SPDX-License-Identifier: Apache-2.0

#include "testbed/workloads/parse.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <span>

namespace tmprof::workload {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kByteUnits[] = {
    {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
};
constexpr Unit kTimeUnits[] = {
    {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9},
};
constexpr Unit kRateUnits[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}};

// Both ends of what std::from_chars took must be those of the text.
template <typename T>
std::optional<T> WholeNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A plain decimal: no sign, no exponent, no "inf".
std::optional<double> Decimal(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789.") != std::string_view::npos) {
    return std::nullopt;
  }
  return WholeNumber<double>(text);
}

std::optional<double> WithUnit(std::string_view text, std::span<const Unit> units) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::optional<double> number = Decimal(text.substr(0, digits));
  if (!number) return std::nullopt;
  for (const Unit& unit : units) {
    if (unit.name == text.substr(digits)) return *number * unit.factor;
  }
  return std::nullopt;
}

// Doubles hold every integer up to here, so a larger product may have been rounded.
constexpr double kExactIntegers = 0x1p53;

std::unexpected<std::string> Refuse(std::string_view text, std::string_view what) {
  return std::unexpected(fmt::format("'{}' is not {}", text, what));
}

}  // namespace

Parsed<std::uint64_t> ParseBytes(std::string_view text) {
  const std::optional<double> bytes = WithUnit(text, kByteUnits);
  if (!bytes || *bytes < 1 || *bytes > kExactIntegers || *bytes != std::floor(*bytes)) {
    return Refuse(text, "a size such as 512MiB (units B, KiB, MiB, GiB, TiB)");
  }
  return static_cast<std::uint64_t>(*bytes);
}

Parsed<std::chrono::nanoseconds> ParseDuration(std::string_view text) {
  const std::optional<double> ns = WithUnit(text, kTimeUnits);
  if (!ns || *ns > kExactIntegers) {
    return Refuse(text, "a duration such as 10s (units ns, us, ms, s, min, h)");
  }
  return std::chrono::nanoseconds(std::llround(*ns));
}

Parsed<std::chrono::nanoseconds> ParseLength(std::string_view text) {
  auto duration = ParseDuration(text);
  if (duration && duration->count() == 0) return Refuse(text, "a duration above 0 such as 10s");
  return duration;
}

Parsed<double> ParseShare(std::string_view text) {
  std::optional<double> share;
  if (text.ends_with('%')) {
    share = Decimal(text.substr(0, text.size() - 1));
    if (share) *share /= 100;
  } else if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
    const std::optional<double> part = Decimal(text.substr(0, slash));
    const std::optional<double> whole = Decimal(text.substr(slash + 1));
    if (part && whole && *whole > 0) share = *part / *whole;
  } else {
    share = Decimal(text);
  }
  if (!share || *share > 1) return Refuse(text, "a share within [0, 1] such as 1/16, 0.9 or 90%");
  return *share;
}

Parsed<double> ParseRate(std::string_view text) {
  const std::optional<double> rate = WithUnit(text, kRateUnits);
  if (!rate || *rate <= 0) return Refuse(text, "a rate per second above 0 such as 200k (k, M, G)");
  return *rate;
}

Parsed<double> ParseNumber(std::string_view text) {
  const std::optional<double> number = Decimal(text);
  if (!number) return Refuse(text, "a number of at least 0 such as 0.99");
  return *number;
}

Parsed<std::uint64_t> ParseInteger(std::string_view text) {
  const std::optional<std::uint64_t> number = WholeNumber<std::uint64_t>(text);
  if (!number) return Refuse(text, "a whole number of at least 0");
  return *number;
}

std::string FormatBytes(std::uint64_t bytes) {
  const Unit* best = &kByteUnits[0];
  for (const Unit& unit : kByteUnits) {
    if (static_cast<double>(bytes) >= unit.factor) best = &unit;
  }
  return fmt::format("{:.4g} {}", static_cast<double>(bytes) / best->factor, best->name);
}

}  // namespace tmprof::workload
