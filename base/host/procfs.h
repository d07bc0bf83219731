// SPDX-License-Identifier: Apache-2.0
// Reads /proc's files about processes. The root is a parameter, so tests read a directory tree of
// their own.

#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/epoch_profile.h"
#include "base/result.h"
#include "base/units.h"

namespace tmprof {

// One process, whoever gets its number later.
struct ProcessInstance {
  Pid pid;
  std::uint64_t start_time_ticks = 0;  // /proc/PID/stat field 22

  friend auto operator<=>(const ProcessInstance&, const ProcessInstance&) = default;
  friend bool operator==(const ProcessInstance&, const ProcessInstance&) = default;
};

struct ListedProcess {
  Pid pid;
  // Inode of the process's folder in /proc. It is made with the first look into the folder and gone
  // with the process, so another process of the same number has another (fs/proc/base.c,
  // proc_pid_make_inode()). The kernel may also forget the inode and make a new one. Equal inodes
  // therefore prove the same process; different ones prove nothing.
  std::uint64_t inode = 0;
};

// Fields of /proc/PID/stat (proc(5)).
struct ProcessStat {
  Pid parent;
  Pid session;       // the process that heads it: its own number if it does
  std::string name;  // comm
  char state = '?';
  std::chrono::nanoseconds cpu_time{0};  // utime + stime of all threads, at clock-tick resolution
  std::uint64_t start_time_ticks = 0;
  std::uint32_t threads = 1;
  PageCount mapped{0};  // size of the address space
  PageCount resident{0};
  bool kernel_thread = false;

  // Has memory left to look at. A main thread that has exited before the others stays as a zombie.
  bool alive() const { return (state != 'Z' || threads > 1) && state != 'X' && state != 'x'; }
};

// Memory of one mapping, from /proc/PID/smaps (proc(5)).
struct MappedMemory {
  Mapping mapping;
  PageCount resident;  // in this mapping; without pages of hugetlbfs and of devices
  // Each of these pages divided by the number of mappings that have it, of all processes. The
  // kernel rounds it down to 1 KiB.
  std::uint64_t proportional_bytes = 0;
  // A driver maps it, and the kernel keeps no account of its pages (VM_IO, VM_PFNMAP). Not so for
  // [vvar] and the like, which the kernel maps into each process.
  bool of_device = false;
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
  // comm; nullopt for a thread that does not exist (any more).
  std::optional<std::string> ThreadName(Pid pid, Tid thread) const;
  // The CPUs on which its threads are running now. In a process with many threads, some are asked.
  std::set<CpuId> CpusInUse(Pid pid) const;
  // Direct children, ascending.
  std::vector<Pid> Children(Pid pid) const;
  // Every process, ascending; what has ended in the meantime may be missing or not. Some us for
  // each.
  std::vector<ListedProcess> Processes() const;
  // The path of the program that it runs, as it was named when that was started. Fails with ESRCH,
  // also for a kernel thread, or EACCES where ptrace access is refused.
  Result<std::string> Executable(Pid pid) const;
  // The name by which open(2) opens that program, though its path may lead elsewhere by now.
  std::filesystem::path ExecutableLink(Pid pid) const { return OfProcess(pid, "exe"); }
  // The environment that its program was started with: "NAME=value", each ended by a NUL. A program
  // may write other text there. Fails with ESRCH, with EACCES where ptrace access is refused, or
  // with EAGAIN while the process begins to run another program, which has none yet.
  Result<std::string> Environment(Pid pid) const;
  // True: its program runs with more privileges than its starter had (AT_SECURE of getauxval(3)),
  // so that its loader preloads nothing from elsewhere. nullopt: not readable.
  std::optional<bool> IsSecure(Pid pid) const;
  // Its path in the hierarchy of cgroup v2, from the root that this process sees: "/system.slice".
  // Fails with ESRCH, or with ENOENT where there is no such hierarchy.
  Result<std::string> Cgroup(Pid pid) const;
  // Memory that the kernel moves, ages and clears apart from the rest, by /proc/PID/status;
  // nullopt: not readable. Both are sizes of mappings: pages that were never touched count.
  struct HeldMemory {
    PageCount locked;   // mlock(2), mlockall(2)
    PageCount hugetlb;  // pages of hugetlbfs in use
  };
  std::optional<HeldMemory> Held(Pid pid) const;
  // Ascending. Fails with ESRCH, or EACCES where ptrace access is refused. The kernel goes through
  // all page tables, and holds off changes of a mapping in the meantime: 15 ns for each resident
  // page and 2 us for each mapping (Linux 6.18, guest of 2 CPUs: a GiB took 4 ms, 60 000 mappings
  // 110 ms).
  Result<std::vector<MappedMemory>> MemoryByMapping(Pid pid) const;
  // The number of its IPC namespace, which System V segments belong to; nullopt: not readable.
  std::optional<std::uint64_t> IpcNamespace(Pid pid) const;
  // The number of its PID namespace; nullopt: not readable.
  std::optional<std::uint64_t> PidNamespace(Pid pid) const;
  // The process that has this number in a PID namespace below this one (a container), where there
  // is exactly one such process; nullopt otherwise. Some us for each process of the machine.
  std::optional<Pid> InOtherNamespace(Pid inner) const;
  // Fails where this folder is not of the PID namespace of the caller, so that its numbers are of
  // other processes: tmprof in a namespace of its own with the /proc of another one.
  Status CheckNamespace() const;
  // MemTotal of /proc/meminfo.
  std::optional<PageCount> TotalMemory() const;

 private:
  std::filesystem::path OfProcess(Pid pid, std::string_view file) const;
  std::filesystem::path OfThread(Pid pid, Tid thread, std::string_view file) const;
  Result<std::string> ReadOfMemory(Pid pid, std::string_view file, std::string_view attempt) const;

  std::filesystem::path root_;
};

// CPU time of all threads of a process to the nanosecond, from its CPU clock; nullopt once it is
// gone.
std::optional<std::chrono::nanoseconds> ProcessCpuTime(Pid pid);
using CpuTimeOf = std::function<std::optional<std::chrono::nanoseconds>(Pid)>;

// One line of /proc/PID/maps; nullopt where it is malformed. `heap` and `[stack]` are known by the
// kernel's own labels.
std::optional<Mapping> ParseMapsLine(std::string_view line);

}  // namespace tmprof
