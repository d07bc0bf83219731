// SPDX-License-Identifier: Apache-2.0
// An output file that is there whole or not at all.

#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace tmprof {

// The file is written beside the one that it replaces, and renamed when it is whole. If the disk is
// full or the program is killed, the old file stays. Devices, pipes and files that are open as
// standard output or error are appended to directly. A symbolic link keeps its target.
class ReplacedFile {
 public:
  // A new file gets `mode`; an existing one keeps its own. Refuses a trace that is being recorded.
  static Result<ReplacedFile> Create(const std::filesystem::path& file, mode_t mode);

  ReplacedFile(ReplacedFile&& other) noexcept;
  ReplacedFile& operator=(ReplacedFile&&) = delete;
  ~ReplacedFile();  // removes the new file unless it was committed

  int fd() const { return fd_.get(); }
  // The path to write to until Commit(), for callers that open files by name.
  const std::filesystem::path& path() const { return aside_.empty() ? file_ : aside_; }

  Status Write(std::string_view bytes);
  // The caller commits after the last write.
  Status Commit();

 private:
  ReplacedFile(std::filesystem::path file, std::filesystem::path aside, UniqueFd fd)
      : file_(std::move(file)), aside_(std::move(aside)), fd_(std::move(fd)) {}

  std::filesystem::path file_;
  std::filesystem::path aside_;  // empty: the file itself is written to, or all is done
  UniqueFd fd_;
};

}  // namespace tmprof
