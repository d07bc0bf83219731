// SPDX-License-Identifier: Apache-2.0
// Tables for people. A table that is wider than the terminal shows the columns that matter most.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tmprof {

// Columns of characters that lines may take. nullopt: lines may have any length, as in a file.
using TextWidth = std::optional<std::size_t>;

// Breaks lines that are longer than `width` between words. The parts after the first are indented:
// below the text of a list of facts ("title   text"), else by two blanks. Longer words stay whole.
std::string Fitted(std::string_view text, TextWidth width);

// Columns as wide as their widest cell, two spaces apart, no trailing blanks.
class TextTable {
 public:
  enum class Align : std::uint8_t { kLeft, kRight };
  // Decides which columns a narrow terminal shows: all keys, then as many of the first, the second
  // and the third as fit, and of equals the left ones. A table without its keys is not shown: its
  // rows become lists of cells.
  enum class Importance : std::uint8_t { kKey, kFirst, kSecond, kThird };
  struct Column {
    std::string title;
    Align align = Align::kRight;
    Importance importance = Importance::kSecond;
    // Texts (left-aligned cells) lose their middle down to this width before a column is left out.
    std::size_t shortest = 24;
    // True: it is shown with the column before it, or not at all. Its importance does not count.
    bool joins = false;
  };

  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Precondition: one printable cell per column.
  void AddRow(std::vector<std::string> cells);
  // No line is wider than `width`, unless a word of a list of cells is. The line below the table
  // names what it does not show.
  std::string Text(TextWidth width = std::nullopt) const;

 private:
  std::vector<std::size_t> NaturalWidths() const;
  // Returns the width below which the column is not cut.
  std::size_t LeastWidth(std::size_t column, std::size_t natural) const;
  // Returns all columns, the most important first. Columns that join are behind those before them.
  std::vector<std::size_t> ByImportance() const;
  // Returns the numbers of the columns to show, in order. Empty: the keys do not fit.
  std::vector<std::size_t> Chosen(const std::vector<std::size_t>& natural, std::size_t width) const;
  std::string Table(const std::vector<std::size_t>& chosen,
                    const std::vector<std::size_t>& widths) const;
  std::string Lists(std::size_t width) const;
  std::string LabelOf(std::size_t column) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tmprof
