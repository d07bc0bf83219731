// SPDX-License-Identifier: Apache-2.0
// The part of AbitKernel that depends only on the machine, however accessed bits are read and
// cleared there.

#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "profiler/sources/abit/abit_kernel.h"

namespace tmprof::abit {

// "some avg10=2.50 ...", the first line of /proc/pressure/memory or of a cgroup's memory.pressure.
// Returns why bits are not to be cleared; nullopt: they may be.
std::optional<std::string> StallsOnMemory(const std::string& line);

class HostKernel : public AbitKernel {
 public:
  // `root` has the folder /proc.
  explicit HostKernel(std::filesystem::path root = "/");

  MonotonicTime Now() override;
  std::chrono::nanoseconds OwnCpuTime() override;
  std::chrono::nanoseconds Tick() const override { return tick_; }
  std::optional<std::string> MemoryPressure() override;

 private:
  std::filesystem::path root_;
  std::chrono::nanoseconds tick_{0};
};

// One process, whether it lives, and the CPU time it has used.
class ProcessWatch {
 public:
  // ESRCH: the process that started at that time is gone.
  static Result<ProcessWatch> Open(Pid pid, std::uint64_t start_time_ticks);

  int handle() const { return handle_.get(); }  // a pidfd
  std::chrono::nanoseconds CpuTime();           // the last known time if the process is gone
  bool Alive() const;

 private:
  ProcessWatch(UniqueFd handle, clockid_t clock) : handle_(std::move(handle)), clock_(clock) {}

  UniqueFd handle_;
  clockid_t clock_;
  std::chrono::nanoseconds last_cpu_time_{0};
};

}  // namespace tmprof::abit
