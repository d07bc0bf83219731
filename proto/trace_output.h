// SPDX-License-Identifier: Apache-2.0
// The file of a recording, and the fate of the trace that had its name before.

#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace tmprof {

// Keeps the previous trace once, as FILE.old, like perf. Until Keep() that loses no file: the
// previous FILE.old stays beside it, and Restore() puts both back. Devices and pipes are written to
// directly; a symbolic link is followed.
class TraceOutput {
 public:
  // Takes the message about a file that stays where it should not.
  using TellLeftover = std::function<void(const std::string& message)>;

  // Fails where another recorder writes the file.
  static Result<TraceOutput> Prepare(const std::filesystem::path& file, TellLeftover warn);

  const std::filesystem::path& path() const { return path_; }  // to write to

  // The recording has begun: the trace before the previous one goes.
  void Keep();
  // Leaves all as it was before Prepare() and removes the new file, because the recording failed.
  void Restore();

 private:
  TraceOutput(std::filesystem::path path, TellLeftover warn)
      : path_(std::move(path)), warn_(std::move(warn)) {}
  Status MovePrevious();

  std::filesystem::path path_;
  TellLeftover warn_;
  UniqueFd previous_;                           // holds its lock
  std::optional<std::filesystem::path> old_;    // the previous trace
  std::optional<std::filesystem::path> older_;  // the file that had its name
};

}  // namespace tmprof
