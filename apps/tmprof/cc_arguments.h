// SPDX-License-Identifier: Apache-2.0
// What `tmprof cc` adds to a compiler's arguments.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace tmprof {

// The one that the plugin is built for.
inline constexpr int kClangMajor = 19;

// `command`, the compiler first, with `plugin` where it compiles and the runtime in
// `library_folder` where it links. Without an input, as for --version, it is left as it is. Refuses
// what cannot be instrumented.
Result<std::vector<std::string>> InstrumentedCommand(const std::vector<std::string>& command,
                                                     const std::filesystem::path& plugin,
                                                     const std::filesystem::path& library_folder);

}  // namespace tmprof
