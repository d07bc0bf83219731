// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/abit/host_kernel.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "base/host/first_line.h"
#include "base/host/procfs.h"

namespace tmprof::abit {
namespace {

using std::chrono::nanoseconds;

// Some task stalled on memory for at least this share of the last ten seconds, in percent.
constexpr double kPressurePercent = 1.0;
constexpr double kLeastAvailable = 0.03;  // share of memory; without pressure figures

nanoseconds ReadClock(clockid_t clock) {
  timespec t{};
  if (::clock_gettime(clock, &t) != 0) return nanoseconds(0);
  return std::chrono::seconds(t.tv_sec) + nanoseconds(t.tv_nsec);
}

}  // namespace

std::optional<std::string> StallsOnMemory(const std::string& line) {
  double percent = 0;
  if (std::sscanf(line.c_str(), "some avg10=%lf", &percent) == 1 && percent >= kPressurePercent)
    return fmt::format("tasks stall on memory {:.1f} % of the time", percent);
  return std::nullopt;
}

HostKernel::HostKernel(std::filesystem::path root) : root_(std::move(root)) {
  timespec tick{};
  // The coarse clock advances once per tick.
  ::clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
  tick_ = nanoseconds(tick.tv_nsec);
}

MonotonicTime HostKernel::Now() { return MonotonicTime(ReadClock(CLOCK_MONOTONIC)); }

nanoseconds HostKernel::OwnCpuTime() { return ReadClock(CLOCK_THREAD_CPUTIME_ID); }

std::optional<std::string> HostKernel::MemoryPressure() {
  if (const auto line = FirstLine(root_ / "proc/pressure/memory")) return StallsOnMemory(*line);
  double total = 0;
  double available = 0;
  std::ifstream file(root_ / "proc/meminfo");
  for (std::string key, unit; file >> key;) {
    double kib = 0;
    file >> kib;
    std::getline(file, unit);
    if (key == "MemTotal:") total = kib;
    if (key == "MemAvailable:") available = kib;
  }
  if (total > 0 && available < total * kLeastAvailable)
    return fmt::format("{:.1f} % of memory is available", 100 * available / total);
  return std::nullopt;
}

Result<ProcessWatch> ProcessWatch::Open(Pid pid, std::uint64_t start_time_ticks) {
  const std::string object = fmt::format("PID {}", pid.value());
  UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, pid.value(), 0)));
  if (const int error = errno; !handle) {
    return Fail(Refused("watch", object, error,
                        error == EMFILE ? "each target takes a descriptor; raise the limit of "
                                          "open files ('ulimit -n' or LimitNOFILE=)"
                                        : ""));
  }
  // Read after the handle was taken: should it agree, the handle is of that very process.
  const auto stat = ProcFs().Stat(pid);
  if (!stat) return Fail(stat.error());
  if (stat->start_time_ticks != start_time_ticks) return Fail(Refused("watch", object, ESRCH));
  clockid_t clock{};
  if (const int error = ::clock_getcpuclockid(pid.value(), &clock); error != 0)
    return Fail(Refused("read the CPU time of", object, error));
  return ProcessWatch(std::move(handle), clock);
}

nanoseconds ProcessWatch::CpuTime() {
  timespec t{};
  if (::clock_gettime(clock_, &t) == 0)
    last_cpu_time_ = std::chrono::seconds(t.tv_sec) + nanoseconds(t.tv_nsec);
  return last_cpu_time_;
}

bool ProcessWatch::Alive() const {
  pollfd exited{.fd = handle_.get(), .events = POLLIN, .revents = 0};
  return ::poll(&exited, 1, 0) == 0;
}

}  // namespace tmprof::abit
