// SPDX-License-Identifier: Apache-2.0

#include "base/text/help_text.h"

#include <algorithm>
#include <sstream>

namespace tmprof {
namespace {

constexpr std::string_view kUsage = "Usage:";
constexpr std::string_view kExamples = "Examples:";

std::vector<std::string> Lines(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream stream{std::string(text)};
  for (std::string line; std::getline(stream, line);) {
    line.erase(0, std::min(line.find_first_not_of(' '), line.size()));
    if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

}  // namespace

std::string Wrapped(std::string_view text, std::size_t columns, std::size_t indent,
                    std::size_t used) {
  std::string wrapped;
  std::istringstream words{std::string(text)};
  bool is_line_start = true;
  for (std::string word; words >> word;) {
    if (!is_line_start && used + 1 + word.size() > columns) {
      wrapped += "\n" + std::string(indent, ' ');
      used = indent;
      is_line_start = true;
    }
    if (!is_line_start) {
      wrapped += ' ';
      ++used;
    }
    wrapped += word;
    used += word.size();
    is_line_start = false;
  }
  return wrapped;
}

std::string Alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

Footer ParseFooter(std::string_view text) {
  Footer footer;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\n\n"), rest.size());
    const std::string_view paragraph = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    if (paragraph.starts_with(kUsage)) {
      footer.usage = Lines(paragraph.substr(kUsage.size()));
    } else if (paragraph.starts_with(kExamples)) {
      footer.examples = Lines(paragraph.substr(kExamples.size()));
    } else {
      footer.notes.emplace_back(paragraph);
    }
  }
  return footer;
}

std::optional<ListEntry> EntryOf(std::string_view line) {
  if (!line.starts_with("  ")) return std::nullopt;
  line.remove_prefix(2);
  const std::size_t end = std::min(line.find("  "), line.size());
  const std::string_view text = line.substr(std::min(end + 2, line.size()));
  return ListEntry{.name = std::string(line.substr(0, end)), .text = std::string(text)};
}

}  // namespace tmprof
