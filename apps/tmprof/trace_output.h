// SPDX-License-Identifier: Apache-2.0
// Where a recording goes, and what becomes of the trace that was there before.

#pragma once

#include <filesystem>
#include <optional>

#include "base/result.h"
#include "base/unique_fd.h"

namespace tmprof {

// As perf does, the previous trace is kept once, as FILE.old. Until Keep() nothing is lost by that:
// what was FILE.old stays beside it, and Restore() puts both back. Devices and pipes are written to
// as they are; a symbolic link is followed.
class TraceOutput {
 public:
  // Fails where another recorder writes the file.
  static Result<TraceOutput> Prepare(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return path_; }  // to write to

  // The recording has begun: the trace before the previous one goes.
  void Keep();
  // Nothing was recorded: all is as it was before Prepare(), and what was written goes.
  void Restore();

 private:
  explicit TraceOutput(std::filesystem::path path) : path_(std::move(path)) {}
  Status MovePrevious();

  std::filesystem::path path_;
  UniqueFd previous_;                           // holds its lock
  std::optional<std::filesystem::path> old_;    // the previous trace
  std::optional<std::filesystem::path> older_;  // what had its name
};

}  // namespace tmprof
