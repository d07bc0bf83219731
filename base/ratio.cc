// SPDX-License-Identifier: Apache-2.0

#include "base/ratio.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace tmprof {
namespace {

std::optional<std::uint64_t> ParseDigits(std::string_view digits) {
  std::uint64_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (digits.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Returns value x 10^power; nullopt if it does not fit into 64 bits.
std::optional<std::uint64_t> TimesPowerOfTen(std::uint64_t value, std::size_t power) {
  for (; power > 0; --power) {
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value)) return std::nullopt;
  }
  return value;
}

std::optional<Ratio> ParseFraction(std::string_view text, std::size_t slash) {
  const auto numerator = ParseDigits(text.substr(0, slash));
  const auto denominator = ParseDigits(text.substr(slash + 1));
  if (!numerator || !denominator) return std::nullopt;
  return Ratio{*numerator, *denominator};
}

std::optional<Ratio> ParseDecimal(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  const std::string_view decimals = point == text.size() ? "" : text.substr(point + 1);
  if (point != text.size() && decimals.empty()) return std::nullopt;
  const auto numerator = ParseDigits(std::string(whole).append(decimals));
  const auto denominator = TimesPowerOfTen(1, decimals.size() + (percent ? 2 : 0));
  if (!numerator || !denominator) return std::nullopt;
  return Ratio{*numerator, *denominator};
}

}  // namespace

Result<Ratio> ParseRatio(std::string_view text) {
  const auto refuse = [text](const char* reason) {
    return Fail(BadInput("read ratio", std::string(text), reason,
                         "write a part of the whole such as 1/16, 0.0625 or 6.25%"));
  };
  const std::size_t slash = text.find('/');
  const std::optional<Ratio> ratio =
      slash == std::string_view::npos ? ParseDecimal(text) : ParseFraction(text, slash);
  if (!ratio) return refuse("not an exact ratio");
  if (ratio->denominator == 0) return refuse("the denominator is 0");
  if (ratio->numerator == 0) return refuse("a ratio of 0 leaves no page to judge");
  if (ratio->numerator > ratio->denominator) return refuse("a ratio cannot be above 1");
  const std::uint64_t divisor = std::gcd(ratio->numerator, ratio->denominator);
  return Ratio{ratio->numerator / divisor, ratio->denominator / divisor};
}

std::string ToString(Ratio ratio) {
  std::string text = std::to_string(ratio.numerator);
  if (ratio.denominator != 1) text += "/" + std::to_string(ratio.denominator);
  return text;
}

PageCount CapacityAt(Ratio ratio, PageCount whole) {
  __extension__ using Wide = unsigned __int128;
  const Wide pages = Wide{ratio.numerator} * whole.value() / ratio.denominator;
  return PageCount(std::max<std::uint64_t>(1, static_cast<std::uint64_t>(pages)));
}

}  // namespace tmprof
