// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/own_libraries.h"

#include <fmt/format.h>

#include <algorithm>

namespace tmprof {

namespace fs = std::filesystem;

Result<fs::path> FindOwnLibraries(const std::string& user,
                                  std::initializer_list<const char*> names) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const char* missing = *names.begin();
  for (const fs::path& folder :
       {program.parent_path() / "lib", program.parent_path() / "../lib/tmprof"}) {
    if (!fs::is_directory(folder, error)) continue;
    const auto* absent = std::ranges::find_if(
        names, [&](const char* name) { return !fs::exists(folder / name, error); });
    if (absent == names.end()) return folder.lexically_normal();
    missing = *absent;
  }
  return Fail(Error{.attempt = fmt::format("find the libraries of '{}' beside", user),
                    .object = program.string(),
                    .reason = fmt::format("there is no lib/{}", missing),
                    .advice = "build tmprof by the preset 'release', which makes all of them"});
}

}  // namespace tmprof
