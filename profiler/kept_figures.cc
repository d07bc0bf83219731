// SPDX-License-Identifier: Apache-2.0

#include "profiler/kept_figures.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "base/host/cpu_identity.h"
#include "base/host/own_cpus.h"
#include "base/parse_decimal.h"
#include "base/parse_integer.h"
#include "base/unique_fd.h"

namespace tmprof {
namespace {

using std::chrono::nanoseconds;

constexpr std::string_view kFormat = "tmprof figures 1";
constexpr std::string_view kEnd = "end";
constexpr std::size_t kLargestFile = 16 * 1024;
constexpr mode_t kWrittenByOthers = S_IWGRP | S_IWOTH;

bool IsOfThisUserAlone(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & kWrittenByOthers) == 0;
}

// Opens a directory that nobody else can write to; the descriptor is not valid if there is none.
UniqueFd OpenOwnDirectory(const std::filesystem::path& directory) {
  UniqueFd folder(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (!folder || ::fstat(folder.get(), &status) != 0) return {};
  if (IsOfThisUserAlone(status)) return folder;
  errno = EPERM;
  return {};
}

// Returns the text of a regular file that nobody else can have written.
std::optional<std::string> ReadOwn(const std::filesystem::path& directory,
                                   const std::string& name) {
  const UniqueFd folder = OpenOwnDirectory(directory);
  if (!folder) return std::nullopt;
  const UniqueFd file(
      ::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      !IsOfThisUserAlone(status))
    return std::nullopt;
  std::string text(kLargestFile, '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string_view TakeLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// nullopt: no whole set of figures of that machine.
std::optional<std::pair<MonotonicTime, KeptFigures::Figures>> Parse(std::string_view text,
                                                                    std::string_view machine) {
  if (TakeLine(text) != kFormat || TakeLine(text) != machine) return std::nullopt;
  const auto measured = ParseInteger<std::int64_t>(TakeLine(text));
  if (!measured || *measured < 0) return std::nullopt;
  KeptFigures::Figures figures;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    if (line == kEnd) return std::pair(MonotonicTime(nanoseconds(*measured)), std::move(figures));
    const std::size_t space = line.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    const auto value = ParseFiniteNumber(line.substr(space + 1));
    if (!value) return std::nullopt;
    figures.emplace(line.substr(0, space), *value);
  }
  return std::nullopt;  // the file was cut
}

// Returns the first line of a file, or "none".
std::string FirstLineOf(const char* path) {
  std::string line;
  std::ifstream file(path);
  return std::getline(file, line) && !line.empty() ? line : "none";
}

}  // namespace

std::string ThisMachine() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  utsname system{};
  // A build for tests, such as one with sanitizers, measures other figures.
  struct stat program{};
  if (boot.empty() || ::uname(&system) != 0 || ::stat("/proc/self/exe", &program) != 0) return {};
  std::string cpus;
  for (const CpuId cpu : CpusAtStart())
    cpus += fmt::format("{}{}", cpus.empty() ? "" : ",", cpu.value());
  const std::string kind = ReadCpuIdentity().model;
  return fmt::format("boot {} kernel {} driver {} CPUs {} of {} program {}.{:09} {} bytes", boot,
                     system.release, FirstLineOf("/sys/module/tmprof/srcversion"), cpus,
                     kind.empty() ? "unknown" : kind, program.st_mtim.tv_sec,
                     program.st_mtim.tv_nsec, program.st_size);
}

KeptFigures::KeptFigures(std::filesystem::path directory, std::string machine, Use use)
    : directory_(std::move(directory)), machine_(std::move(machine)), use_(use) {}

KeptFigures KeptFigures::Of(std::string_view part) const {
  return {directory_, machine_.empty() ? machine_ : fmt::format("{} {}", machine_, part), use_};
}

std::optional<KeptFigures::Kept> KeptFigures::Load(std::string_view name, MonotonicTime now) const {
  if (machine_.empty()) return std::nullopt;
  if (use_ == Use::kMeasureAgain) {
    if (const UniqueFd folder = OpenOwnDirectory(directory_))
      (void)::unlinkat(folder.get(), std::string(name).c_str(), 0);
    return std::nullopt;
  }
  const auto text = ReadOwn(directory_, std::string(name));
  if (!text) return std::nullopt;
  auto parsed = Parse(*text, machine_);
  if (!parsed || parsed->first > now) return std::nullopt;
  const nanoseconds age = now - parsed->first;
  if (age > kFiguresAreKeptFor) return std::nullopt;
  return Kept{.figures = std::move(parsed->second), .age = age};
}

Status KeptFigures::Keep(std::string_view name, const Figures& figures, MonotonicTime now) const {
  const auto refused = [&](const char* attempt) {
    return Fail(Refused(attempt, (directory_ / name).string(), errno));
  };
  if (machine_.empty()) {
    errno = ENOENT;
    return refused("name the boot of the machine in");
  }
  if (::mkdir(directory_.c_str(), 0755) != 0 && errno != EEXIST)
    return refused("create the directory of");
  const UniqueFd folder = OpenOwnDirectory(directory_);
  if (!folder) return refused("open the directory of");
  std::string text = fmt::format("{}\n{}\n{}\n", kFormat, machine_, now.time_since_epoch().count());
  for (const auto& [figure, value] : figures) text += fmt::format("{} {}\n", figure, value);
  text += fmt::format("{}\n", kEnd);
  // The set is there whole or not at all, whoever else keeps one now.
  const std::string aside =
      fmt::format(".{}.{}.{}", name, ::getpid(), now.time_since_epoch().count());
  const UniqueFd file(::openat(folder.get(), aside.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file) return refused("create the file of");
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    if (written >= 0) errno = ENOSPC;
  } else if (::renameat(folder.get(), aside.c_str(), folder.get(), std::string(name).c_str()) ==
             0) {
    return {};
  }
  const auto failure = refused("write");
  (void)::unlinkat(folder.get(), aside.c_str(), 0);
  return failure;
}

}  // namespace tmprof
