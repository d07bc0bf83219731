// SPDX-License-Identifier: Apache-2.0
// The help of both programs, and the parts of a command's text that manual pages share with it.
//
// The first line of an option's description is its help; later lines go to the manual page alone.

#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/help_text.h"

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

// "-o, --output FILE"; the name alone of a positional.
std::string Heading(const CLI::Option& option);
// The values of an option that takes one of a fixed set: {"text", "json"}; else empty.
std::vector<std::string> FixedValues(const CLI::Option& option);
// The first line of its description, and the rest.
std::string ShortText(const CLI::Option& option);
std::string LongText(const CLI::Option& option);
// "text, json or csv; default text"; empty where an option has neither.
std::string ValuesAndDefault(const CLI::Option& option);

// The footer of a command. Without a "Usage:" paragraph, its usage is made from the options.
Footer FooterOf(const CLI::App& command);

// Gives `app`, and commands that are added to it later, the help of this file and -h.
void UseHelpText(CLI::App& app);

}  // namespace tmprof
