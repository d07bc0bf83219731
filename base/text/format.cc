// SPDX-License-Identifier: Apache-2.0

#include "base/text/format.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <limits>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace tmprof {
namespace {

// Returns the length in bytes of the well-formed UTF-8 sequence at the front of `text`, or 0
// (Unicode 15, table 3-7).
std::size_t Utf8Length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned char second_min = 0x80;
  unsigned char second_max = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) second_min = 0xa0;
    if (lead == 0xed) second_max = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) second_min = 0x90;
    if (lead == 0xf4) second_max = 0x8f;
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte(1) < second_min || byte(1) > second_max) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  return length;
}

bool IsControl(std::string_view sequence) {
  const auto lead = static_cast<unsigned char>(sequence[0]);
  if (sequence.size() == 1) return lead < 0x20 || lead == 0x7f;
  return lead == 0xc2 && static_cast<unsigned char>(sequence[1]) < 0xa0;  // U+0080 to U+009F
}

std::string Sanitised(std::string_view text, bool keep_line_breaks) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = Utf8Length(text);
    const std::string_view sequence = text.substr(0, std::max<std::size_t>(length, 1));
    const bool line_break = sequence == "\n" || sequence == "\r";
    if (length != 0 && (!IsControl(sequence) || (keep_line_breaks && line_break))) {
      result += sequence;
    } else {
      for (const char c : sequence)
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(sequence.size());
  }
  return result;
}

}  // namespace

Result<Format> ParseFormat(std::string_view text) {
  if (text == "text") return Format::kText;
  if (text == "json") return Format::kJson;
  if (text == "csv") return Format::kCsv;
  return Fail(BadInput("choose an output format", std::string(text), "no such format",
                       "use text, json or csv"));
}

std::string Printable(std::string_view text) { return Sanitised(text, false); }

std::string CsvField(std::string_view text) {
  const std::string clean = Sanitised(text, true);
  if (clean.find_first_of(",\"\r\n") == std::string::npos) return clean;
  std::string quoted = "\"";
  for (const char c : clean) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string CsvLine(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i != 0) line += ',';
    line += CsvField(fields[i]);
  }
  return line + "\n";
}

std::string JsonText(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json OrNull(const std::optional<PageCount>& pages) {
  return pages ? Json(pages->value()) : Json(nullptr);
}

std::string Address(Vpn vpn) { return fmt::format("{:#x}", AddressOf(vpn)); }

std::string HumanSize(PageCount pages) {
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double size = static_cast<double>(pages.value()) * (kBasePageBytes / 1024.0);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return fmt::format("{:.4g} {}", size, kUnits[unit]);
}

std::string Percent(double share) { return fmt::format("{:.3g} %", share * 100); }

std::string Significant(double value) {
  constexpr double kMostUngrouped = 9'999.5;  // rounds to five digits
  constexpr double kMostGrouped = 1e9;
  const double size = std::abs(value);
  if (!(size >= kMostUngrouped && size < kMostGrouped)) return fmt::format("{:.4g}", value);
  const double unit = std::pow(10, std::floor(std::log10(size)) - 3);
  const auto rounded = static_cast<std::uint64_t>(std::round(size / unit) * unit);
  return (value < 0 ? "-" : "") + Grouped(rounded);
}

ColumnScale::ColumnScale(std::span<const double> values) {
  static constexpr std::array<std::string_view, 5> kPrefixes = {"", "thousand ", "million ",
                                                                "billion ", "trillion "};
  constexpr int kDigits = 4;        // digits of the largest value
  constexpr int kFewestDigits = 2;  // digits of the smallest value
  constexpr int kMostDecimals = 6;
  double largest = 0;
  double smallest = std::numeric_limits<double>::infinity();  // above 0
  bool whole = true;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    largest = std::max(largest, value);
    if (value > 0) smallest = std::min(smallest, value);
    whole = whole && value == std::floor(value);
  }
  std::size_t prefix = 0;
  for (; largest / divisor_ >= 1000 && prefix + 1 < kPrefixes.size(); ++prefix) divisor_ *= 1000;
  prefix_ = kPrefixes[prefix];
  if (largest <= 0 || (whole && prefix == 0)) return;
  const auto decade = [this](double value) {
    return static_cast<int>(std::floor(std::log10(value / divisor_)));
  };
  decimals_ =
      std::clamp(std::max(kDigits - 1 - decade(largest), kFewestDigits - 1 - decade(smallest)), 0,
                 kMostDecimals);
}

std::string ColumnScale::Title(std::string_view unit) const {
  return fmt::format("{}{}", prefix_, unit);
}

std::string ColumnScale::operator()(double value) const {
  const double least = std::pow(10, -decimals_);
  if (value > 0 && value / divisor_ < least / 2) return fmt::format("< {:.{}f}", least, decimals_);
  return fmt::format("{:.{}f}", value / divisor_, decimals_);
}

std::string Exact(double value) { return fmt::format("{}", value); }

std::string Grouped(std::uint64_t value) {
  std::string digits = fmt::format("{}", value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ' ');
  return digits;
}

std::string CountText(std::uint64_t count, std::string_view noun, std::string_view plural) {
  if (count == 1) return fmt::format("1 {}", noun);
  return plural.empty() ? fmt::format("{} {}s", Grouped(count), noun)
                        : fmt::format("{} {}", Grouped(count), plural);
}

std::string CountText(PageCount pages) { return CountText(pages.value(), "page"); }

std::string Describe(const Mapping& mapping) {
  std::string kind(Name(mapping.kind));
  return mapping.path.empty() ? kind : kind + " " + mapping.path;
}

std::string WallTime(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

std::string TitledLine(std::string_view title, std::string_view text) {
  return fmt::format("{:<14}{}\n", title, text);
}

std::string SettingsText(const std::vector<Setting>& settings, TextWidth width) {
  using enum TextTable::Align;
  TextTable table({{"setting", kLeft}, {"value", kLeft}});
  for (const Setting& setting : settings) {
    table.AddRow({Printable(setting.name), Printable(setting.value)});
  }
  return table.Text(width);
}

Json DamageJson(const StreamEnd& end) {
  return end.damage ? Json(end.damage->Message()) : Json(nullptr);
}

Json WithEnd(Json view, const StreamEnd& end, std::optional<std::uint64_t> lost_epochs) {
  if (lost_epochs) view["lost_epochs"] = *lost_epochs;
  view["finished"] = OrNull(end.finished);
  view["damage"] = DamageJson(end);
  return view;
}

}  // namespace tmprof
