// SPDX-License-Identifier: Apache-2.0

#include "locker/memory_lock.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/human_units.h"
#include "locker/stopped_thread.h"

namespace tmprof {
namespace {

// Calls in one stop of the thread: some 20 us each.
constexpr std::size_t kCallsAtOnce = 64;
constexpr int kIpcLock = 14;  // include/uapi/linux/capability.h, CAP_IPC_LOCK

std::string Named(Pid pid) { return fmt::format("PID {}", pid.value()); }

// Field 22 of /proc/PID/stat; nullopt: the process is gone.
std::optional<std::uint64_t> StartTime(Pid pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid.value()));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = stat.rfind(')');  // a name may hold anything
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t ticks = 0;
  if (!(fields >> ticks)) return std::nullopt;
  return ticks;
}

struct LockRights {
  bool unlimited = false;  // CAP_IPC_LOCK
  std::uint64_t locked_bytes = 0;
};

LockRights RightsOf(Pid pid) {
  LockRights rights;
  std::ifstream file(fmt::format("/proc/{}/status", pid.value()));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string title;
    words >> title;
    if (title == "VmLck:") {
      std::uint64_t kib = 0;
      words >> kib;
      rights.locked_bytes = kib * 1024;
    } else if (title == "CapEff:") {
      std::uint64_t held = 0;
      words >> std::hex >> held;
      rights.unlimited = (held >> kIpcLock & 1) != 0;
    }
  }
  return rights;
}

// nullopt: the limit holds it.
Result<std::optional<std::uint64_t>> RaiseLimit(Pid pid, std::uint64_t more_bytes) {
  const LockRights rights = RightsOf(pid);
  if (rights.unlimited) return std::nullopt;
  const std::uint64_t needed = rights.locked_bytes + more_bytes;
  rlimit limit{};
  if (prlimit(pid.value(), RLIMIT_MEMLOCK, nullptr, &limit) != 0)
    return Fail(Refused("read RLIMIT_MEMLOCK of", Named(pid), errno,
                        "run as the same user or with CAP_SYS_RESOURCE"));
  if (limit.rlim_cur >= needed) return std::nullopt;
  const std::uint64_t had = limit.rlim_cur;
  limit.rlim_cur = needed;
  limit.rlim_max = std::max(limit.rlim_max, limit.rlim_cur);
  if (prlimit(pid.value(), RLIMIT_MEMLOCK, &limit, nullptr) != 0) {
    return Fail(Refused(
        "let " + Named(pid) + " lock", FormatBytes(needed), errno,
        fmt::format("its RLIMIT_MEMLOCK is {}: raise it with prlimit --memlock as root, or give "
                    "the program CAP_IPC_LOCK",
                    FormatBytes(had))));
  }
  return needed;
}

}  // namespace

Result<LockOutcome> ChangeLocks(Pid pid, std::uint64_t start_time_ticks,
                                std::span<const VpnRange> ranges, LockChange change) {
  LockOutcome outcome;
  std::uint64_t bytes = 0;
  for (const VpnRange& range : ranges) bytes += range.size().value() * kBasePageBytes;
  const auto is_the_same = [&] { return StartTime(pid) == start_time_ticks; };
  if (!is_the_same()) {
    return Fail(Refused("lock memory of", Named(pid), ESRCH,
                        "the process has ended; record one that runs"));
  }
  if (change == LockChange::kLock) {
    auto raised = RaiseLimit(pid, bytes);
    if (!raised) return Fail(std::move(raised.error()));
    outcome.raised_limit = *raised;
  }
  while (!ranges.empty()) {
    const auto batch = ranges.first(std::min(kCallsAtOnce, ranges.size()));
    ranges = ranges.subspan(batch.size());
    Result<StoppedThread> thread = StoppedThread::Stop(pid);
    if (!thread) return Fail(std::move(thread.error()));
    // Held, it can no longer become another.
    if (!is_the_same()) return Fail(Refused("lock memory of", Named(pid), ESRCH));
    for (const VpnRange& range : batch) {
      const std::uint64_t start = AddressOf(range.start);
      const std::uint64_t length = range.size().value() * kBasePageBytes;
      const Result<std::int64_t> answer =
          change == LockChange::kLock ? thread->Call(SYS_mlock2, {start, length, MLOCK_ONFAULT})
                                      : thread->Call(SYS_munlock, {start, length, 0});
      if (!answer) return Fail(answer.error());
      if (*answer == 0) {
        outcome.changed += range.size();
      } else {
        outcome.refused.push_back({.range = range, .system_error = static_cast<int>(-*answer)});
      }
    }
    if (Status released = thread->Release(); !released) return Fail(std::move(released.error()));
  }
  return outcome;
}

}  // namespace tmprof
