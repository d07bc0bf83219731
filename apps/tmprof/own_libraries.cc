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
  const auto has_all = [&](const fs::path& folder) {
    return std::ranges::all_of(names,
                               [&](const char* name) { return fs::exists(folder / name, error); });
  };
  for (const fs::path& folder :
       {program.parent_path() / "lib", program.parent_path() / "../lib/tmprof"}) {
    if (has_all(folder)) return folder.lexically_normal();
  }
  return Fail(Error{.attempt = fmt::format("find the libraries of '{}' beside", user),
                    .object = program.string(),
                    .reason = fmt::format("there is no lib/{}", *names.begin()),
                    .advice = "build the target tmprof, which brings them"});
}

}  // namespace tmprof
