// SPDX-License-Identifier: Apache-2.0
// Code that `tmprof cc` links and has not built: it counts nothing, though it is a part of a
// program that does.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "objects/commands/cc_arguments.h"

namespace tmprof {

// Names the code without counters in the command's objects, archives or members of them, and
// assembler. It leaves out shared libraries, which a profile lists by itself, and the compiler's
// own additions. All members of an archive that have code are named, because only the linker knows
// which of them it takes. Files that cannot be read are taken for counted, because the linker
// complains of them. `system_folders`: searched after -L.
std::vector<std::string> UncountedCode(const CompilerCommand& command,
                                       const std::vector<std::filesystem::path>& system_folders);

// Assembler text of a constructor that tells libtmprof_objects of them.
std::string UncountedNote(const std::vector<std::string>& uncounted);

}  // namespace tmprof
