// SPDX-License-Identifier: Apache-2.0
// Reads tables for people as people do: a number belongs to the title above its end.

#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tmprof {

// A cell of a line of a table. Two blanks or more are between cells.
struct TextCell {
  std::size_t end = 0;  // in bytes
  std::string text;

  bool IsNumber() const {
    const std::size_t first = text.find_first_not_of("<>=~[? ");
    return first != std::string::npos && std::isdigit(static_cast<unsigned char>(text[first])) != 0;
  }
  bool NamesItsUnit() const {
    return std::ranges::any_of(text, [](unsigned char c) { return std::isalpha(c) || c == '%'; });
  }
};

inline std::vector<TextCell> CellsOf(const std::string& line) {
  std::vector<TextCell> cells;
  std::size_t at = line.find_first_not_of(' ');
  while (at != std::string::npos) {
    const std::size_t end = std::min(line.find("  ", at), line.size());
    cells.push_back({.end = end, .text = line.substr(at, end - at)});
    at = line.find_first_not_of(' ', end);
  }
  return cells;
}

// Numbers that count what the title itself names, are of the unit of the column before them, or
// have no unit.
inline constexpr std::array<std::string_view, 18> kPlainCounts = {
    "at least",     "at most",   "rank",         "pid",          "epoch", "lost",
    "observations", "objects",   "live objects", "samples only", "both",  "either",
    "promotions",   "demotions", "failed",       "phases",       "rho",   "tau-b"};

inline bool NamesAUnit(std::string title) {
  // The interval's share is no unit of its ends.
  if (const std::size_t at = title.find("[90 % interval]"); at != std::string::npos)
    title.erase(at);
  static constexpr std::array<std::string_view, 12> kUnits = {
      "accesses", "references", "samples", "misses",  "pages", "bytes",
      "KiB",      "MiB",        "GiB",     "seconds", "CPU s", "%"};
  return std::ranges::any_of(
      kUnits, [&](std::string_view unit) { return title.find(unit) != std::string::npos; });
}

// Returns the titles of columns with numbers whose unit stands neither in the title nor beside
// them.
inline std::set<std::string> TitlesWithoutUnit(const std::string& text) {
  std::set<std::string> without;
  std::vector<std::vector<TextCell>> table;  // the lines above, down from the last that is no row
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<TextCell> cells = CellsOf(line);
    if (cells.size() < 2) {
      table.clear();
      continue;
    }
    for (const TextCell& cell : cells) {
      if (!cell.IsNumber() || cell.NamesItsUnit()) continue;
      const auto is_title = [&](const TextCell& above) {
        return above.end == cell.end && !above.IsNumber();
      };
      for (const std::vector<TextCell>& above : table) {
        const auto title = std::ranges::find_if(above, is_title);
        if (title == above.end()) continue;
        if (!NamesAUnit(title->text) && std::ranges::count(kPlainCounts, title->text) == 0)
          without.insert(title->text);
        break;
      }
    }
    table.push_back(std::move(cells));
  }
  return without;
}

}  // namespace tmprof
