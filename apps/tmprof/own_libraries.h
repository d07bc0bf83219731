// SPDX-License-Identifier: Apache-2.0
// Libraries that come with this program, for others to load.

#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>

#include "base/result.h"

namespace tmprof {

// The folder that has all of them: beside this program's build, or where it was installed. `user`
// is what needs them: "tmprof cc".
Result<std::filesystem::path> FindOwnLibraries(const std::string& user,
                                               std::initializer_list<const char*> names);

}  // namespace tmprof
