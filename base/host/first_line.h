// SPDX-License-Identifier: Apache-2.0
// How the files of /proc and /sys are read that say one thing.

#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace tmprof {

// nullopt: it is not there, cannot be read, or is empty.
inline std::optional<std::string> FirstLine(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

}  // namespace tmprof
