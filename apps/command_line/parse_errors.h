// SPDX-License-Identifier: Apache-2.0
// Says what is wrong with a command line, in the words of the programs instead of CLI11's.

#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tmprof {

// The name that `word` was most likely meant to be: one that it begins, or one that takes few
// slips (a letter that is wrong, missing, doubled or swapped with its neighbour; at most a third of
// the letters). The first of several that are as near. Empty: none is near.
std::string Nearest(std::string_view word, std::span<const std::string> names);

// "did you mean 'record'?", with `rest` behind; `rest` alone where no name is near.
std::string DidYouMean(std::string_view word, std::span<const std::string> names,
                       std::string_view rest);

// The error of a word in place of a command's name. Precondition: `app` has commands.
Error UnknownCommand(const CLI::App& app, const std::string& word);

// `error` was thrown by parsing `words`, which are those behind the name of `command`.
Error ExplainParseError(const CLI::App& command, const std::vector<std::string>& words,
                        const CLI::ParseError& error);

// Admits one of `names`. A refusal lists them, and names the nearest. Help and completion read them
// from its description.
CLI::Validator OneOf(std::vector<std::string> names);

}  // namespace tmprof
