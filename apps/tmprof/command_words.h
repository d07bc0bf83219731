// SPDX-License-Identifier: Apache-2.0
// Tells the options of tmprof from the command that it runs, as in `tmprof record -q sleep 1`.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tmprof {

struct CommandWords {
  std::vector<std::string> options;  // with their values
  std::vector<std::string> command;  // empty: none was given
};

// The command begins with the first word that is neither an option of `command` nor the value of
// one, or behind a "--" before that word. An option that takes a list of numbers has all numbers
// behind it. An option that `command` does not have is taken for one without a value.
CommandWords SplitCommand(const CLI::App& command, const std::vector<std::string>& words);

}  // namespace tmprof
