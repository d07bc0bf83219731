// SPDX-License-Identifier: Apache-2.0

#include "objects/commands/own_libraries.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "base/check.h"

namespace tmprof {

namespace fs = std::filesystem;

Result<fs::path> FindLibrariesOf(const fs::path& program, const std::string& user,
                                 std::initializer_list<const char*> names) {
  TMPROF_CHECK(names.size() > 0);
  std::error_code error;
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

Result<fs::path> FindOwnLibraries(const std::string& user,
                                  std::initializer_list<const char*> names) {
  constexpr const char* kThisProgram = "/proc/self/exe";
  std::error_code error;
  const fs::path program = fs::read_symlink(kThisProgram, error);
  if (error) return Fail(Refused("read", kThisProgram, error.value(), "mount /proc"));
  return FindLibrariesOf(program, user, names);
}

}  // namespace tmprof
