// SPDX-License-Identifier: Apache-2.0
// Which of the machine's processes are the ones that were asked for.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host/procfs.h"
#include "base/result.h"
#include "base/units.h"
#include "profiler/process_filter.h"

namespace tmprof {

// A process that one of them holds for is a target.
struct TargetRules {
  // Patterns as of fnmatch(3) of its command name. The kernel keeps 15 bytes of that (comm); where
  // it takes all of them, the file name of the program that begins with it counts, too.
  std::vector<std::string> commands;
  // Patterns of the path of its program; `*` stands for a '/', too.
  std::vector<std::string> executables;
  // Paths in cgroup v2, as in /proc/PID/cgroup: "/system.slice/redis.service". It is there or
  // below.
  std::vector<std::string> cgroups;
  // It has this number when the finder is made. Who gets that later is a stranger.
  std::vector<Pid> pids;
  // Any process while it passes, judged by full seconds: by its CPU share from the second look on,
  // by its memory at once. A family passes while together it uses the least CPU share; of it, the
  // busiest processes are targets (ProcessFilter::busiest_part).
  //
  // A process is of its parent's family. Not so if its command has another name than its parent's
  // and it heads a session or is a child of PID 1: services, containers and login shells begin
  // families. The backends of PostgreSQL head sessions, and have the name of their parent.
  std::optional<ProcessFilter> any;
};

// Kernel threads and the observer are nobody's target.
//
// A look lists all processes and examines those that are new; a young one again after 1, 2, 4 …
// looks, as it will still change its program or control group, an old one each 32nd look. With
// `any`, it reads each one's CPU clock, and the memory of those that have run since. Among 2000
// idle processes a look takes 5 to 6 ms of CPU, the first 75 ms; with `any` some 15 us more for
// each that has run (bench/find_targets, Linux 6.18 in a virtual machine on a busy AMD EPYC).
class TargetFinder {
 public:
  struct Findings {
    std::vector<ProcessInstance> targets;  // all there are now, ascending
    // Processes of which it is not known whether they are, and the reason of one of them: not by
    // name, nor could the rest be read. Those that vanish meanwhile do not count.
    std::uint64_t unreadable = 0;
    std::optional<Error> refusal;
  };

  // `procfs` must outlive the finder.
  TargetFinder(const ProcFs& procfs, CpuTimeOf cpu_time_of, TargetRules rules,
               std::optional<Pid> observer);

  // The process numbers in the rules that no process had.
  const std::vector<Pid>& missing() const { return missing_; }

  // To be called once a second.
  Findings Look(MonotonicTime now);

 private:
  struct Known {
    ProcessInstance instance;
    std::uint64_t inode = 0;
    bool eligible = false;           // alive, and no kernel thread
    bool matches = false;            // a rule other than `any`
    bool passes = false;             // `any`
    bool passes_alone = false;       // for its own CPU share or memory
    std::optional<Error> refusal{};  // why it is not known whether it matches
    std::uint64_t examine_at = 0;    // the number of a look
    std::uint64_t interval = 0;      // between examinations, in looks; 0 before the first
    PageCount resident;
    Pid parent;
    bool heads_session = false;
    std::string command;
    CpuShareMeter cpu_share;
  };

  // False: the process is gone.
  bool Examine(Known& process) const;
  bool Judge(Known& process, MonotonicTime now) const;
  static void TakeState(Known& process, const ProcessStat& stat);
  // Decides which of `known_` pass, for themselves or for their families.
  void JudgeFamilies();
  // Returns the index in `known_`; nullopt: no other process is of the parent's family.
  std::optional<std::size_t> ParentInFamily(const Known& process) const;
  void Schedule(Known& process) const;
  // True if a rule matches. If none does, but not all could be read: the reason.
  Result<bool> Matches(const Known& process, const std::string& command) const;
  Result<bool> MatchesCommand(Pid pid, const std::string& command) const;
  Result<bool> MatchesExecutable(Pid pid) const;
  Result<bool> MatchesCgroup(Pid pid) const;

  const ProcFs& procfs_;
  CpuTimeOf cpu_time_of_;
  TargetRules rules_;  // its cgroups end in '/'
  std::optional<Pid> observer_;
  std::optional<PageCount> total_memory_;
  std::vector<ProcessInstance> named_;  // processes named by PID
  std::vector<Pid> missing_;
  std::vector<Known> known_;  // ascending
  std::uint64_t looks_ = 0;
};

}  // namespace tmprof
