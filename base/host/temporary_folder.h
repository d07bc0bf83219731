// SPDX-License-Identifier: Apache-2.0
// A folder that is there for as long as an object is.

#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace tmprof {

class TemporaryFolder {
 public:
  // Makes one below TMPDIR or /tmp, whose name begins so.
  static Result<TemporaryFolder> Make(std::string_view name);

  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  // Removes all that is in it, too.
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

}  // namespace tmprof
