// SPDX-License-Identifier: Apache-2.0
// LD_PRELOAD of a library of ours: which programs load it, and a name for it that harms no program
// that does not.

#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/host/procfs.h"
#include "base/units.h"

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

// Returns why the program that a process runs now does not load `library`, though tmprof asked the
// programs that it starts for that: as above, or its environment lost the request. A script runs as
// its interpreter. nullopt: nothing is known to keep it from that, or the process is gone.
std::optional<NotPreloaded> WhyNotPreloadedBy(const ProcFs& procfs, const ProcessInstance& process,
                                              const std::filesystem::path& library);

// The text of LD_PRELOAD for `folder`/`name`. If the build made the folder preload/, the name has
// $LIB in it, which the loader of glibc alone replaces. The loader of musl does not find the
// library then, and goes on; it would end a program whose preloaded library needs what only glibc
// has.
std::string PreloadName(const std::filesystem::path& folder, const std::string& name);

}  // namespace tmprof
