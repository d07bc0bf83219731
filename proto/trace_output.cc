// SPDX-License-Identifier: Apache-2.0

#include "proto/trace_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tmprof {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // path_resolution(7)

// The file that a symbolic link stands for, there or not yet; devices and pipes as they were named.
fs::path Followed(const fs::path& file) {
  std::error_code failed;
  const fs::file_status status = fs::status(file, failed);
  if (status.type() == fs::file_type::regular) {
    fs::path target = fs::canonical(file, failed);
    return failed || !fs::is_symlink(fs::symlink_status(file, failed)) ? file : target;
  }
  if (status.type() != fs::file_type::not_found) return file;
  fs::path target = file;
  for (int links = 0; links < kMostLinks; ++links) {
    if (!fs::is_symlink(fs::symlink_status(target, failed))) return target;
    const fs::path next = fs::read_symlink(target, failed);
    if (failed) break;
    target = target.parent_path() / next;  // an absolute `next` replaces the folder
  }
  return file;
}

Error AnotherRecorder(const fs::path& file) {
  return Refused("create trace file", file.string(), EWOULDBLOCK,
                 "another recorder writes this file; name another one (-o)");
}

// True: the name still stands for the open file.
bool IsStill(const fs::path& file, int fd) {
  struct stat named{};
  struct stat opened{};
  return ::stat(file.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

// A process that was killed as it began may have left one of that number.
fs::path FreeNameBeside(const fs::path& file) {
  std::error_code failed;
  for (int number = 1;; ++number) {
    fs::path name = file;
    name += fmt::format(".{}", number);
    if (!fs::exists(fs::symlink_status(name, failed))) return name;
  }
}

}  // namespace

Result<TraceOutput> TraceOutput::Prepare(const fs::path& file, TellLeftover warn) {
  TraceOutput output(Followed(file), std::move(warn));
  std::error_code failed;
  if (!fs::is_regular_file(output.path_, failed)) return output;
  if (auto status = output.MovePrevious(); !status) return Fail(std::move(status.error()));
  return output;
}

Status TraceOutput::MovePrevious() {
  previous_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!previous_) return Fail(Refused("keep the previous trace", path_.string(), errno));
  // A trace that is being written is locked (TraceWriter); so is this one, from here on.
  if (::flock(previous_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Fail(AnotherRecorder(path_));
  if (!IsStill(path_, previous_.get())) return Fail(AnotherRecorder(path_));
  fs::path old = path_;
  old += ".old";
  std::error_code failed;
  const fs::file_status before = fs::symlink_status(old, failed);
  if (fs::exists(before) && !fs::is_directory(before)) {
    const fs::path older = FreeNameBeside(old);
    fs::rename(old, older, failed);
    if (failed) return Fail(Refused("keep the trace", old.string(), failed.value()));
    older_ = older;
  }
  fs::rename(path_, old, failed);
  if (failed) {
    const int error = failed.value();
    Restore();
    return Fail(Refused("keep the previous trace as", old.string(), error));
  }
  old_ = old;
  return {};
}

void TraceOutput::Keep() {
  std::error_code failed;
  if (older_ && !fs::remove(*older_, failed) && failed)
    warn_(fmt::format("'{}' could not be removed: {}", older_->string(), failed.message()));
  older_.reset();
  old_.reset();
  previous_ = UniqueFd();
}

void TraceOutput::Restore() {
  std::error_code failed;
  const auto warn = [this, &failed](const fs::path& left, const char* what) {
    if (failed) warn_(fmt::format("'{}' {}: {}", left.string(), what, failed.message()));
  };
  if (old_) {
    fs::rename(*old_, path_, failed);  // over what was written
    warn(*old_, "is the previous trace and could not be moved back");
    old_.reset();
  } else if (!previous_ && fs::is_regular_file(fs::symlink_status(path_, failed))) {
    fs::remove(path_, failed);
    warn(path_, "could not be removed");
  }
  if (older_ && !failed) {
    fs::path old = path_;
    old += ".old";
    fs::rename(*older_, old, failed);
    warn(*older_, "is an earlier trace and could not be moved back");
  }
  older_.reset();
  previous_ = UniqueFd();
}

}  // namespace tmprof
