// SPDX-License-Identifier: Apache-2.0
// Code that `tmprof cc` links and has not built: it counts nothing, though it is a part of a
// program that does.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/tmprof/cc_arguments.h"

namespace tmprof {

// Of what the command hands its linker: objects, archives or members of them, assembler. Not shared
// libraries, which a profile lists by itself, nor what the compiler adds of its own. Which members
// of an archive the linker takes is not known: all with code are named. What cannot be read is
// taken for counted: the linker tells of it. `system_folders`: searched after -L.
std::vector<std::string> UncountedCode(const CompilerCommand& command,
                                       const std::vector<std::filesystem::path>& system_folders);

// Assembler text of a constructor that tells libtmprof_objects of them.
std::string UncountedNote(const std::vector<std::string>& uncounted);

}  // namespace tmprof
