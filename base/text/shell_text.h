// SPDX-License-Identifier: Apache-2.0
// Text for shells to read.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tmprof {

// `text` with `by` before each of these characters.
std::string Escaped(std::string_view text, std::string_view characters, std::string_view by);
// `text` as one word between single quotes: of bash and zsh, and of fish.
std::string ShellQuoted(std::string_view text);
std::string FishQuoted(std::string_view text);

// An indented command in lines of at most `columns`, where no word is longer. A line that is broken
// ends in a backslash, so that a shell takes the lines for one.
std::string BrokenCommand(const std::string& command, std::size_t columns);

}  // namespace tmprof
