// SPDX-License-Identifier: Apache-2.0
// Says what is wrong with a command line, in the words of the programs instead of CLI11's.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/text/near_names.h"

namespace tmprof {

// The error of a word in place of a command's name. Precondition: `app` has commands.
Error UnknownCommand(const CLI::App& app, const std::string& word);

// `error` was thrown by parsing `words`, which are those behind the name of `command`.
Error ExplainParseError(const CLI::App& command, const std::vector<std::string>& words,
                        const CLI::ParseError& error);

// Admits one of `names`. A refusal lists them, and names the nearest. Help and completion read them
// from its description.
CLI::Validator OneOf(std::vector<std::string> names);

}  // namespace tmprof
