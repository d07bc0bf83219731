// SPDX-License-Identifier: Apache-2.0

#include "profiler/target_patterns.h"

#include <fmt/format.h>

#include <cstddef>
#include <filesystem>
#include <string_view>

namespace tmprof {
namespace {

constexpr std::size_t kCommandBytes = 15;  // in a name: TASK_COMM_LEN - 1 (include/linux/sched.h)

}  // namespace

std::string FaultOfCommand(const std::string& command) {
  const bool has_wildcard = command.find_first_of("*?[\\") != std::string::npos;
  if (has_wildcard || command.size() <= kCommandBytes) return {};
  return fmt::format(
      "'{}' can match no process: the kernel keeps {} bytes of a name; end it with '*' there, or "
      "use exe",
      command, kCommandBytes);
}

std::string FaultOfExecutable(const std::string& exe) {
  if (exe.starts_with('/') || exe.starts_with('*')) return {};
  return fmt::format("'{}' can match no process: a path begins with '/', a pattern with '/' or '*'",
                     exe);
}

std::string FaultOfCgroup(const std::string& cgroup) {
  constexpr std::string_view kMount = "/sys/fs/cgroup/";
  if (cgroup.starts_with(kMount)) {
    return fmt::format("'{}' is named from the root of control groups: '{}'", cgroup,
                       cgroup.substr(kMount.size() - 1));
  }
  const std::filesystem::path path(cgroup);
  if (path.is_absolute() && path.has_filename() && path.lexically_normal() == path) return {};
  return fmt::format(
      "'{}' is no control group as /proc/PID/cgroup has it, such as '/system.slice/redis.service'",
      cgroup);
}

}  // namespace tmprof
