// SPDX-License-Identifier: Apache-2.0
// Running text for people: lines of a width, and the paragraphs of a command's help.

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tmprof {

// Breaks `text` between words into lines of at most `columns`. Each line but the first begins with
// `indent` spaces, which count. The first line has `used` columns already. A longer word is alone.
std::string Wrapped(std::string_view text, std::size_t columns, std::size_t indent,
                    std::size_t used);

// "a", "a or b", "a, b or c".
std::string Alternatives(const std::vector<std::string>& words);

// A command's footer has paragraphs. Those that begin with "Usage:" and "Examples:" list command
// lines; the others are notes. A line of a note that begins with two spaces is an entry of a list:
// its name, two spaces, its text.
struct Footer {
  std::vector<std::string> usage;
  std::vector<std::string> notes;     // paragraphs
  std::vector<std::string> examples;  // lines, without their indent
};
Footer ParseFooter(std::string_view text);

struct ListEntry {
  std::string name;
  std::string text;
};
// The entry in a line of a note; nullopt where it is plain text.
std::optional<ListEntry> EntryOf(std::string_view line);

}  // namespace tmprof
