// SPDX-License-Identifier: Apache-2.0
// Spells the values of views: for people, for JSON, for CSV.

#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/epoch_profile.h"
#include "base/epoch_stream.h"
#include "base/result.h"
#include "base/text/text_table.h"
#include "base/trace_info.h"
#include "base/units.h"

namespace tmprof {

using Json = nlohmann::ordered_json;

enum class Format : std::uint8_t { kText, kJson, kCsv };

Result<Format> ParseFormat(std::string_view text);  // "text", "json", "csv"

// Makes names printable. They come from the profiled processes, which can put anything into them.
// Control characters (C0, DEL, C1) and bytes that are not UTF-8 become \xNN, so that no terminal
// acts on them.
std::string Printable(std::string_view text);

// Returns one CSV field by RFC 4180: quoted if it holds a comma, a quote or a line break. Other
// control characters are made printable.
std::string CsvField(std::string_view text);
std::string CsvLine(
    const std::vector<std::string>& fields);  // ends with LF, which awk and cut expect

// Replaces bytes that are not UTF-8 by U+FFFD. The text ends with a line feed.
std::string JsonText(const Json& json);

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}
Json OrNull(const std::optional<PageCount>& pages);

std::string Address(Vpn vpn);            // "0x7f0012345000"
std::string HumanSize(PageCount pages);  // "4 KiB", "1.5 GiB"
std::string Percent(double share);       // 0.123 -> "12.3 %"
std::string Significant(double value);   // four significant digits: "0.1235", "1 234 000"
// Spells the numbers of a column on one scale and to the same decimal: "32.510", "0.012".
class ColumnScale {
 public:
  // Whole numbers below a thousand stay whole.
  explicit ColumnScale(std::span<const double> values);
  // Returns "million accesses" for "accesses".
  std::string Title(std::string_view unit) const;
  std::string operator()(double value) const;

 private:
  double divisor_ = 1;
  std::string_view prefix_;
  int decimals_ = 0;
};

std::string Exact(double value);           // shortest text that reads back as the same double
std::string Grouped(std::uint64_t value);  // "1 234 567"
// "1 page", "2 pages", "1 234 pages" of "page". A noun whose plural has no "s" is given with it.
std::string CountText(std::uint64_t count, std::string_view noun, std::string_view plural = {});
std::string CountText(PageCount pages);  // "1 page", "1 234 pages"

// Spell counts, of pages or of anything else, for OrUnknown() and OrEmpty().
inline constexpr auto kPlain = [](const auto& count) {
  if constexpr (requires { count.value(); })
    return fmt::format("{}", count.value());
  else
    return fmt::format("{}", count);
};
inline constexpr auto kGrouped = [](const auto& count) {
  if constexpr (requires { count.value(); })
    return Grouped(count.value());
  else
    return Grouped(count);
};

template <typename T, typename Spell>
std::string OrUnknown(const std::optional<T>& value, Spell spell) {
  return value ? spell(*value) : "unknown";
}
template <typename T, typename Spell>
std::string OrEmpty(const std::optional<T>& value, Spell spell) {
  return value ? spell(*value) : "";
}

// "2026-01-01T00:00:00Z"
std::string WallTime(std::chrono::system_clock::time_point time);
// Returns a line of a list of facts.
std::string TitledLine(std::string_view title, std::string_view text);
std::string SettingsText(const std::vector<Setting>& settings, TextWidth width = {});
Json DamageJson(const StreamEnd& end);
// Adds what the reader of a view must know of the file: `finished` (null: unknown) and `damage`
// (null: none) after the other keys, and `lost_epochs` if that is known.
Json WithEnd(Json view, const StreamEnd& end, std::optional<std::uint64_t> lost_epochs = {});

// Returns one word for the kind, then the path if there is one: "heap", "file /usr/lib/libc.so.6".
std::string Describe(const Mapping& mapping);

}  // namespace tmprof
