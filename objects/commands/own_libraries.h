// SPDX-License-Identifier: Apache-2.0
// Libraries that come with this program, for others to load.

#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>

#include "base/result.h"

namespace tmprof {

// The folder that has all of `names`, which are not empty: lib/ beside `program`, as in a build, or
// ../lib/tmprof from there, as installed. `user` is what needs them: "tmprof cc".
Result<std::filesystem::path> FindLibrariesOf(const std::filesystem::path& program,
                                              const std::string& user,
                                              std::initializer_list<const char*> names);
// FindLibrariesOf() this program.
Result<std::filesystem::path> FindOwnLibraries(const std::string& user,
                                               std::initializer_list<const char*> names);

}  // namespace tmprof
