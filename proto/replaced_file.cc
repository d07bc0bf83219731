// SPDX-License-Identifier: Apache-2.0

#include "proto/replaced_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace tmprof {
namespace {

namespace fs = std::filesystem;

// A trace that is being written is locked (TraceWriter).
Status RequireNotRecorded(int fd, const fs::path& file) {
  if (::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return Fail(Refused("replace file", file.string(), EWOULDBLOCK,
                        "a recorder still writes it; name another file, or wait"));
  }
  return {};
}

bool IsSameFile(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// True if the file is standard output or error, by any name such as /dev/stdout. Other programs
// hold such a file open and would go on with the old one.
bool IsOpenElsewhere(const struct stat& file) {
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status{};
    if (::fstat(fd, &status) == 0 && IsSameFile(status, file)) return true;
  }
  return false;
}

}  // namespace

Result<ReplacedFile> ReplacedFile::Create(const fs::path& file, mode_t mode) {
  fs::path target = file;
  std::optional<struct stat> kept;
  {
    // The file stays whole until Commit(): neither O_TRUNC nor O_CREAT.
    const UniqueFd before(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat status{};
    if (::stat(file.c_str(), &status) == 0) {
      if (!S_ISREG(status.st_mode) || IsOpenElsewhere(status)) {
        UniqueFd fd(::open(file.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
        if (!fd) return Fail(Refused("open file", file.string(), errno));
        return ReplacedFile(file, {}, std::move(fd));
      }
      kept = status;
      if (::access(file.c_str(), W_OK) != 0) {
        return Fail(Refused("write file", file.string(), errno));
      }
      if (before) {
        if (Status free = RequireNotRecorded(before.get(), file); !free) return Fail(free.error());
      }
      std::error_code failed;
      target = fs::canonical(file, failed);
      if (failed) return Fail(Refused("find file", file.string(), failed.value()));
    } else if (errno != ENOENT) {
      return Fail(Refused("create file", file.string(), errno));
    }
  }
  for (int number = 1;; ++number) {
    // A killed program may have left a file with this name.
    std::string aside = fmt::format("{}.{}-{}", target.string(), ::getpid(), number);
    UniqueFd fd(::open(aside.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    if (!fd && errno == EEXIST) continue;
    if (!fd) return Fail(Refused("create a file beside", file.string(), errno));
    ReplacedFile replaced(std::move(target), std::move(aside), std::move(fd));
    // If root replaces a file, it keeps its owner. The mode is set last because a change of owner
    // drops bits.
    if (kept && ::geteuid() == 0 && ::fchown(replaced.fd(), kept->st_uid, kept->st_gid) != 0) {
      return Fail(Refused("keep the owner of file", file.string(), errno));
    }
    if (kept && ::fchmod(replaced.fd(), kept->st_mode & 07777) != 0) {
      return Fail(Refused("set the mode of file", file.string(), errno));
    }
    return replaced;
  }
}

ReplacedFile::ReplacedFile(ReplacedFile&& other) noexcept
    : file_(std::move(other.file_)),
      aside_(std::exchange(other.aside_, {})),
      fd_(std::move(other.fd_)) {}

ReplacedFile::~ReplacedFile() {
  if (!aside_.empty()) (void)::unlink(aside_.c_str());
}

Status ReplacedFile::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail(Refused("write file", file_.string(), errno));
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status ReplacedFile::Commit() {
  if (aside_.empty()) return {};
  // Some file systems report a full disk only here.
  if (::fsync(fd()) != 0) return Fail(Refused("write file", file_.string(), errno));
  if (::rename(aside_.c_str(), file_.c_str()) != 0) {
    return Fail(Refused("replace file", file_.string(), errno));
  }
  aside_.clear();
  return {};
}

}  // namespace tmprof
