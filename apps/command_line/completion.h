// SPDX-License-Identifier: Apache-2.0
// Completion for shells, made from a program's own options, so that it cannot go stale.

#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tmprof {

// A script for each shell. It completes the names of commands and options, and the values of
// options that take one of a fixed set; for other words, names of files.
std::string BashCompletion(const CLI::App& app);
std::string ZshCompletion(const CLI::App& app);
std::string FishCompletion(const CLI::App& app);

}  // namespace tmprof
