// SPDX-License-Identifier: Apache-2.0
// What /proc says of processes. The root is given, so that tests read a directory tree of their
// own.

#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "base/units.h"

namespace tmprof {

// From /proc/PID/stat (proc(5)).
struct ProcessStat {
  Pid parent;
  std::string name;  // comm
  char state = '?';
  std::chrono::nanoseconds cpu_time{0};  // utime + stime of all threads, at clock-tick resolution
  std::uint64_t start_time_ticks = 0;
  std::uint32_t threads = 1;
  PageCount resident{0};

  // Has memory left to look at. A main thread that has exited before the others stays as a zombie.
  bool alive() const { return (state != 'Z' || threads > 1) && state != 'X' && state != 'x'; }
};

class ProcFs {
 public:
  explicit ProcFs(std::filesystem::path root = "/proc") : root_(std::move(root)) {}

  // The process's memory is seen through this thread: the main one, unless that has exited before
  // the others. nullopt: the process has no memory (any more).
  std::optional<Tid> ThreadWithMemory(Pid pid) const;

  // ESRCH for a process that does not exist (any more).
  Result<ProcessStat> Stat(Pid pid) const;
  // argv joined by spaces; empty where the kernel gives none.
  std::string Command(Pid pid) const;
  // Ascending. Fails with ESRCH, or EACCES where ptrace access is refused.
  Result<std::vector<Mapping>> Mappings(Pid pid) const;
  // Ascending; empty for a process that does not exist (any more).
  std::vector<Tid> Threads(Pid pid) const;
  // Where its threads are running now. Of a process with many threads, some are asked.
  std::set<CpuId> CpusInUse(Pid pid) const;
  // Direct children, ascending.
  std::vector<Pid> Children(Pid pid) const;
  // MemTotal of /proc/meminfo.
  std::optional<PageCount> TotalMemory() const;

 private:
  std::filesystem::path OfProcess(Pid pid, std::string_view file) const;
  std::filesystem::path OfThread(Pid pid, Tid thread, std::string_view file) const;
  Result<std::string> ReadOfMemory(Pid pid, std::string_view file, std::string_view attempt) const;
  std::vector<Pid> AllProcesses() const;

  std::filesystem::path root_;
};

// CPU time of all threads of a process to the nanosecond, from its CPU clock; nullopt once it is
// gone.
std::optional<std::chrono::nanoseconds> ProcessCpuTime(Pid pid);

// One line of /proc/PID/maps; nullopt where it is malformed. `heap` and `[stack]` are told by the
// kernel's own labels.
std::optional<Mapping> ParseMapsLine(std::string_view line);

}  // namespace tmprof
