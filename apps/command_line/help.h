// SPDX-License-Identifier: Apache-2.0
// The help of both programs, and the parts of a command's text that manual pages share with it.
//
// The first line of an option's description is its help; later lines go to the manual page alone.

#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tmprof {

// The group of options and commands that are not shown to people.
inline constexpr std::string_view kHidden = "";

std::vector<const CLI::Option*> ShownOptions(const CLI::App& command);
std::vector<const CLI::App*> ShownCommands(const CLI::App& app);

// "tmprof record"
std::string FullName(const CLI::App& command);

// True: a program to run stands behind the options of `command`.
bool LaunchesProgram(const CLI::App& command);

// Columns of help: those of OutputWidth(), but at most 80.
std::size_t HelpColumns();

// Breaks `text` between words into lines of at most `columns`. Each line but the first begins with
// `indent` spaces, which count. The first line has `used` columns already. A longer word is alone.
std::string Wrapped(std::string_view text, std::size_t columns, std::size_t indent,
                    std::size_t used);

// "-o, --output FILE"; the name alone of a positional.
std::string Heading(const CLI::Option& option);
// The values of an option that takes one of a fixed set: {"text", "json"}; else empty.
std::vector<std::string> FixedValues(const CLI::Option& option);
// "a", "a or b", "a, b or c".
std::string Alternatives(const std::vector<std::string>& words);
// The first line of its description, and the rest.
std::string ShortText(const CLI::Option& option);
std::string LongText(const CLI::Option& option);
// "text, json or csv; default text"; empty where an option has neither.
std::string ValuesAndDefault(const CLI::Option& option);

// A command's footer has paragraphs. Those that begin with "Usage:" and "Examples:" list command
// lines; the others are notes. A line of a note that begins with two spaces is an entry of a list:
// its name, two spaces, its text.
struct Footer {
  std::vector<std::string> usage;     // without a "Usage:" paragraph, made from the options
  std::vector<std::string> notes;     // paragraphs
  std::vector<std::string> examples;  // lines, without their indent
};
Footer FooterOf(const CLI::App& command);

struct ListEntry {
  std::string name;
  std::string text;
};
// The entry in a line of a note; nullopt where it is plain text.
std::optional<ListEntry> EntryOf(std::string_view line);

// Gives `app`, and commands that are added to it later, the help of this file and -h.
void UseHelpText(CLI::App& app);

}  // namespace tmprof
