// SPDX-License-Identifier: Apache-2.0
// Whether a program loads a library of ours that LD_PRELOAD names, and how to name it so that no
// program is harmed that does not.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tmprof {

struct NotPreloaded {
  std::string why;           // "'./prog' is statically linked, ..."
  bool is_harmless = false;  // to ask for it: it is as if nobody had, and children may load it
};

// Why the program that execvp(3) would run for `command`, found by `path` as by $PATH, does not
// load `library`: it is statically linked, of another C library or another kind of CPU, or runs
// with privileges that the loader keeps libraries from. Of a script the program in its #! line
// counts. nullopt: it loads it, or nothing could be learnt, as of a file that is not there or
// cannot be read.
std::optional<NotPreloaded> WhyNotPreloaded(const std::string& command, const std::string& path,
                                            const std::filesystem::path& library);

// What LD_PRELOAD is to say for `folder`/`name`. Where the build made the folder preload/, a name
// with $LIB in it, which the loader of glibc alone replaces: the loader of musl, which would end a
// program whose preloaded library needs what only glibc has, does not find it, and goes on.
std::string PreloadName(const std::filesystem::path& folder, const std::string& name);

}  // namespace tmprof
