// SPDX-License-Identifier: Apache-2.0
// Completion for shells, made from a program's own options, so that it cannot go stale.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tmprof {

// Words to offer behind a word of a command, as names of settings behind `tmprof ctl set`.
struct WordsBehind {
  std::string command;
  std::string word;
  std::vector<std::string> words;  // each ends in '=', and its value follows without a blank
};

// A script for each shell. It completes the names of commands and options, the values of options
// that take one of a fixed set, and `behind`; for other words, names of files.
std::string BashCompletion(const CLI::App& app, const WordsBehind& behind = {});
std::string ZshCompletion(const CLI::App& app, const WordsBehind& behind = {});
std::string FishCompletion(const CLI::App& app, const WordsBehind& behind = {});

}  // namespace tmprof
