// SPDX-License-Identifier: Apache-2.0

#include "base/text/text_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <ranges>

#include "base/check.h"

namespace tmprof {
namespace {

constexpr std::size_t kGap = 2;  // blanks between columns
constexpr std::string_view kEllipsis = "…";

bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

std::size_t DisplayWidth(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, BeginsCharacter));
}

// Returns the first `characters` of a text that has at least as many.
std::string_view FirstOf(std::string_view text, std::size_t characters) {
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (BeginsCharacter(text[end]) && characters-- == 0) break;
  }
  return text.substr(0, end);
}

// Names and paths differ at both ends, so the middle goes.
std::string WithoutMiddle(const std::string& text, std::size_t width) {
  const std::size_t length = DisplayWidth(text);
  if (length <= width) return text;
  const std::size_t head = width / 2;
  const std::size_t tail = width - head - 1;
  const std::string_view before_tail = FirstOf(text, length - tail);
  return fmt::format("{}{}{}", FirstOf(text, head), kEllipsis,
                     std::string_view(text).substr(before_tail.size()));
}

// Returns where later parts of a broken line begin.
std::size_t HangingIndent(std::string_view line) {
  constexpr std::size_t kDefault = 2;
  constexpr std::size_t kWidestTitle = 24;
  std::size_t indent = kDefault;
  for (std::size_t at = line.find("  "); at < kWidestTitle; at = line.find("  ", at)) {
    at = std::min(line.find_first_not_of(' ', at), line.size());
    if (at <= kWidestTitle) indent = at;
  }
  return indent;
}

// Returns the length of the first word; the groups of a number, such as 73 218, are one word.
std::size_t EndOfWord(std::string_view words) {
  const auto is_digit = [&](std::size_t at) {
    return at < words.size() && words[at] >= '0' && words[at] <= '9';
  };
  std::size_t end = std::min(words.find(' '), words.size());
  while (end > 0 && is_digit(end - 1) && is_digit(end + 1) && is_digit(end + 2) &&
         is_digit(end + 3) && !is_digit(end + 4))
    end = std::min(words.find(' ', end + 1), words.size());
  return end;
}

// Appends the words to a line that has `used` columns. Later lines begin with `indent` blanks, or
// with fewer if their first word does not fit behind as many.
void AppendWords(std::string& text, std::string_view words, std::size_t used, std::size_t indent,
                 std::size_t width) {
  bool is_line_start = true;
  while (true) {
    words.remove_prefix(std::min(words.find_first_not_of(' '), words.size()));
    if (words.empty()) break;
    const std::string_view word = words.substr(0, EndOfWord(words));
    words.remove_prefix(word.size());
    const std::size_t length = DisplayWidth(word);
    if (!is_line_start && used + 1 + length > width) {
      used = std::min(indent, width - std::min(width, length));
      text += "\n" + std::string(used, ' ');
      is_line_start = true;
    }
    if (!is_line_start) text += ' ';
    text += word;
    used += length + (is_line_start ? 0 : 1);
    is_line_start = false;
  }
}

}  // namespace

std::string Fitted(std::string_view text, TextWidth width) {
  if (!width) return std::string(text);
  std::string fitted;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (DisplayWidth(line) <= *width) {
      fitted += line;
    } else {
      const std::size_t indent = HangingIndent(line);
      const bool has_title = line.substr(0, indent).ends_with("  ");
      if (has_title) fitted += line.substr(0, indent);
      AppendWords(fitted, line.substr(has_title ? indent : 0), has_title ? indent : 0, indent,
                  *width);
    }
    fitted += '\n';
  }
  return fitted;
}

void TextTable::AddRow(std::vector<std::string> cells) {
  TMPROF_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::NaturalWidths() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(DisplayWidth(columns_[c].title));
    for (const auto& row : rows_) widths[c] = std::max(widths[c], DisplayWidth(row[c]));
  }
  return widths;
}

std::size_t TextTable::LeastWidth(std::size_t column, std::size_t natural) const {
  const Column& of = columns_[column];
  if (of.align == Align::kRight) return natural;
  return std::min(natural, std::max(DisplayWidth(of.title), of.shortest));
}

std::vector<std::size_t> TextTable::ByImportance() const {
  std::vector<Importance> importance;
  for (const Column& column : columns_) {
    importance.push_back(column.joins ? importance.back() : column.importance);
  }
  std::vector<std::size_t> order(columns_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t c) { return importance[c]; });
  return order;
}

std::vector<std::size_t> TextTable::Chosen(const std::vector<std::size_t>& natural,
                                           std::size_t width) const {
  std::vector<std::size_t> chosen;
  std::size_t used = 0;  // by the chosen columns
  const std::vector<std::size_t> order = ByImportance();
  for (auto first = order.begin(); first != order.end();) {
    const auto end =
        std::find_if(first + 1, order.end(), [this](std::size_t c) { return !columns_[c].joins; });
    std::size_t with = used;
    for (auto c = first; c != end; ++c) {
      with += LeastWidth(*c, natural[*c]) + (with == 0 ? 0 : kGap);
    }
    if (with <= width) {
      chosen.insert(chosen.end(), first, end);
      used = with;
    } else if (columns_[*first].importance == Importance::kKey) {
      return {};
    }
    first = end;
  }
  std::ranges::sort(chosen);
  return chosen;
}

std::string TextTable::Table(const std::vector<std::size_t>& chosen,
                             const std::vector<std::size_t>& widths) const {
  std::string text;
  const auto add_line = [&](auto cell_of) {
    std::string line;
    for (const std::size_t c : chosen) {
      const std::string cell = WithoutMiddle(cell_of(c), widths[c]);
      const std::string padding(widths[c] - DisplayWidth(cell), ' ');
      if (c != chosen.front()) line += std::string(kGap, ' ');
      line += columns_[c].align == Align::kRight ? padding + cell : cell + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](std::size_t c) -> const std::string& { return columns_[c].title; });
  for (const auto& row : rows_) {
    add_line([&](std::size_t c) -> const std::string& { return row[c]; });
  }
  return text;
}

// A title that several columns have is written with the title before it: "share of samples".
std::string TextTable::LabelOf(std::size_t column) const {
  const std::string& title = columns_[column].title;
  if (column == 0 || std::ranges::count(columns_, title, &Column::title) < 2) return title;
  return fmt::format("{} of {}", title, columns_[column - 1].title);
}

std::string TextTable::Lists(std::size_t width) const {
  std::size_t label_width = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c)
    label_width = std::max(label_width, DisplayWidth(LabelOf(c)));
  label_width = std::min(label_width, width * 2 / 3);
  std::string text;
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (row[c].empty()) continue;
      std::string label = WithoutMiddle(LabelOf(c), label_width);
      label.append(label_width - DisplayWidth(label) + kGap, ' ');
      text += label;
      AppendWords(text, row[c], label_width + kGap, label_width + kGap, width);
      text += '\n';
    }
    text += '\n';
  }
  return text + Fitted("the terminal is too narrow for a table; --wide prints one\n", width);
}

std::string TextTable::Text(TextWidth width) const {
  std::vector<std::size_t> widths = NaturalWidths();
  std::vector<std::size_t> all(columns_.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::size_t whole =
      std::accumulate(widths.begin(), widths.end(), kGap * (columns_.size() - 1));
  if (!width || whole <= *width) return Table(all, widths);

  const std::vector<std::size_t> chosen = Chosen(widths, *width);
  if (chosen.empty()) return Lists(*width);
  // Texts give up what the columns beside them need, the least important and the rightmost first.
  std::size_t used = kGap * (chosen.size() - 1);
  for (const std::size_t c : chosen) used += widths[c];
  std::vector<std::string> cut;
  for (const std::size_t c : std::views::reverse(ByImportance())) {
    if (used <= *width || !std::ranges::binary_search(chosen, c)) continue;
    const std::size_t given = std::min(used - *width, widths[c] - LeastWidth(c, widths[c]));
    if (given == 0) continue;
    widths[c] -= given;
    used -= given;
    cut.insert(cut.begin(), LabelOf(c));
  }
  std::vector<std::string> left_out;
  for (const std::size_t c : all) {
    if (!std::ranges::binary_search(chosen, c)) left_out.push_back(LabelOf(c));
  }
  std::string note;
  if (!left_out.empty()) note = fmt::format("left out: {}", fmt::join(left_out, ", "));
  if (!cut.empty())
    note += fmt::format("{}cut: {}", note.empty() ? "" : "; ", fmt::join(cut, ", "));
  return Table(chosen, widths) + Fitted(note + " (--wide shows all)\n", width);
}

}  // namespace tmprof
