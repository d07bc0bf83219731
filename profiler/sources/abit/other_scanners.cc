// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/other_scanners.h"

#include <fmt/format.h>

#include <cstdint>
#include <fstream>
#include <system_error>

#include "base/parse_integer.h"

namespace tmprof::abit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kOurPrograms = "tmprof";

std::string NameIn(const fs::path& folder) {
  std::ifstream file(folder / "comm");
  std::string name;
  std::getline(file, name);
  return name;
}

// Calls `visit` with each entry until it returns true. False: never, or the folder cannot be read,
// which `error` reports.
template <typename Visit>
bool AnyEntry(const fs::path& folder, std::error_code& error, Visit visit) {
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (visit(it->path())) return true;
  return false;
}

bool Scans(const fs::path& process) {
  std::error_code error;
  return NameIn(process).starts_with(kOurPrograms) &&
         AnyEntry(process / "task", error,
                  [](const fs::path& thread) { return NameIn(thread) == kScannerThread; });
}

// "Pid:\t4711" in what the kernel says of a descriptor (pidfd_open(2)).
bool WatchesOneOf(const std::set<Pid>& targets, const fs::path& descriptor) {
  constexpr std::string_view kField = "Pid:\t";
  std::ifstream file(descriptor);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kField)) continue;
    const auto pid = ParseInteger<std::int32_t>(std::string_view(line).substr(kField.size()));
    if (pid && targets.contains(Pid(*pid))) return true;
  }
  return false;
}

}  // namespace

std::optional<std::string> OtherScannerOf(const std::set<Pid>& targets, Pid self,
                                          const fs::path& proc) {
  std::optional<std::string> found;
  std::error_code ignored;
  AnyEntry(proc, ignored, [&](const fs::path& process) {
    const auto pid = ParseInteger<std::int32_t>(process.filename().string());
    if (!pid || Pid(*pid) == self || !Scans(process)) return false;
    std::error_code unreadable;
    const bool watches = AnyEntry(process / "fdinfo", unreadable, [&](const fs::path& file) {
      return WatchesOneOf(targets, file);
    });
    if (!watches && unreadable != std::errc::permission_denied) return false;
    found = fmt::format("PID {} ({}) {} accessed bits of the same processes: both find too few",
                        *pid, NameIn(process), watches ? "clears" : "may clear");
    return watches;
  });
  return found;
}

}  // namespace tmprof::abit
