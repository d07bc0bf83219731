// SPDX-License-Identifier: Apache-2.0

#include "base/text/shell_text.h"

#include <cstddef>
#include <vector>

namespace tmprof {
namespace {

// Splits a shell's command at blanks outside of quotes.
std::vector<std::string> ShellWords(std::string_view command) {
  std::vector<std::string> words(1);
  char quote = 0;  // the open one; 0: none
  for (const char c : command) {
    if (c == ' ' && quote == 0) {
      words.emplace_back();
      continue;
    }
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    }
    words.back() += c;
  }
  return words;
}

}  // namespace

std::string Escaped(std::string_view text, std::string_view characters, std::string_view by) {
  std::string escaped;
  for (const char c : text) {
    if (characters.contains(c)) escaped += by;
    escaped += c;
  }
  return escaped;
}

std::string ShellQuoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string FishQuoted(std::string_view text) { return "'" + Escaped(text, "\\'", "\\") + "'"; }

std::string BrokenCommand(const std::string& command, std::size_t columns) {
  constexpr std::string_view kBreak = " \\\n      ";
  constexpr std::size_t kBackslash = 2;  // columns of it, with its blank
  constexpr std::size_t kIndent = kBreak.size() - kBackslash - 1;
  const std::vector<std::string> words = ShellWords(command);
  std::string text = "  " + words.front();
  std::size_t used = text.size();
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::size_t behind = i + 1 < words.size() ? kBackslash : 0;
    const bool fits = used + 1 + words[i].size() + behind <= columns;
    text += fits ? std::string_view(" ") : kBreak;
    text += words[i];
    used = (fits ? used + 1 : kIndent) + words[i].size();
  }
  return text;
}

}  // namespace tmprof
