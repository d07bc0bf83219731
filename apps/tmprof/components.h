// SPDX-License-Identifier: Apache-2.0
// Optional components of the program. A build without one does not offer what needs it, and says so
// if somebody asks for it.

#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tmprof {

// True if the component is in this build. Its parts of commands are in a folder of its name, and
// without_objects.cc or without_locking.cc stands for them in other builds.
bool HasObjects();
bool HasLocking();

// The names of components that this build lacks.
std::vector<std::string> MissingComponents();
// "this build of tmprof lacks the component objects"
std::string LacksComponent(std::string_view component);

// Adds an option or a flag that is not shown, and is refused if it is given.
CLI::Option* AddMissingOption(CLI::App& command, const std::string& flags,
                              std::string_view component);
CLI::Option* AddMissingFlag(CLI::App& command, const std::string& flags,
                            std::string_view component);
// Adds a command that is not shown, and says that it is missing.
void AddMissingCommand(CLI::App& app, const std::string& name, std::string_view component,
                       int& exit_status);
// Admits one of `names`. It refuses `missing` words because the component is not there.
CLI::Validator OneOfThese(std::vector<std::string> names, std::vector<std::string> missing,
                          std::string_view component);

}  // namespace tmprof
