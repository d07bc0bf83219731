// SPDX-License-Identifier: Apache-2.0

#include "base/host/temporary_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace tmprof {

namespace fs = std::filesystem;

Result<TemporaryFolder> TemporaryFolder::Make(std::string_view name) {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  std::string path = (error ? fs::path("/tmp") : parent) / fmt::format("{}-XXXXXX", name);
  if (mkdtemp(path.data()) == nullptr) {
    return Fail(
        Refused("make a temporary folder", path, errno, "set TMPDIR to a folder with room"));
  }
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace tmprof
