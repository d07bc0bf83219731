// SPDX-License-Identifier: Apache-2.0
// Reads a compiler's arguments, and holds those that `tmprof cc` adds.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace tmprof {

// The one that the plugin is built for.
inline constexpr int kClangMajor = 19;

struct CompilerInput {
  enum class Kind : std::uint8_t {
    kCompiled,   // clang generates its code
    kAssembled,  // written by hand, as far as anybody knows
    kLinked,     // an object, an archive, a shared library
    kLibrary,    // -l: its name
  };
  Kind kind = Kind::kLinked;
  std::string name;
  bool prefers_archive = false;  // kLibrary: after -Bstatic
};

// A command, with the arguments of its response files in their places.
struct CompilerCommand {
  std::vector<std::string> arguments;  // without the compiler
  std::vector<CompilerInput> inputs;
  std::vector<std::string> library_folders;  // -L
  bool links = true;
  bool generates = true;  // code
};

CompilerCommand ParseCompilerCommand(const std::vector<std::string>& command);

// `command`, the compiler first, with `plugin` where it compiles and the runtime in
// `library_folder` where it links. Without an input, as for --version, it is left as it is. Refuses
// what cannot be instrumented.
Result<std::vector<std::string>> InstrumentedCommand(const std::vector<std::string>& command,
                                                     const std::filesystem::path& plugin,
                                                     const std::filesystem::path& library_folder);

}  // namespace tmprof
