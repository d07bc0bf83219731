// SPDX-License-Identifier: Apache-2.0

#include "profiler/target_finder.h"

#include <fnmatch.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "profiler/helper_processes.h"

namespace tmprof {
namespace {

constexpr std::uint64_t kLongestInterval = 32;
// include/linux/sched.h, TASK_COMM_LEN less the terminator.
constexpr std::size_t kLongestCommand = 15;

bool AnyMatches(const std::vector<std::string>& patterns, const std::string& text) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) {
    return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
  });
}

std::string WithSlashAtEnd(std::string path) {
  if (!path.ends_with('/')) path += '/';
  return path;
}

}  // namespace

TargetFinder::TargetFinder(const ProcFs& procfs, CpuTimeOf cpu_time_of, TargetRules rules,
                           std::optional<Pid> observer)
    : procfs_(procfs),
      cpu_time_of_(std::move(cpu_time_of)),
      rules_(std::move(rules)),
      observer_(observer),
      total_memory_(procfs.TotalMemory()) {
  for (std::string& cgroup : rules_.cgroups) cgroup = WithSlashAtEnd(std::move(cgroup));
  for (const Pid pid : rules_.pids) {
    const Result<ProcessStat> stat = procfs_.Stat(pid);
    if (stat && stat->alive()) {
      named_.push_back({pid, stat->start_time_ticks});
    } else {
      missing_.push_back(pid);
    }
  }
}

Result<bool> TargetFinder::MatchesCommand(Pid pid, const std::string& command) const {
  if (AnyMatches(rules_.commands, command)) return true;
  if (rules_.commands.empty() || command.size() < kLongestCommand) return false;
  const Result<std::string> program = procfs_.Executable(pid);
  if (!program) return Fail(program.error());
  const std::string name = program->substr(program->rfind('/') + 1);
  return name.starts_with(command) && AnyMatches(rules_.commands, name);
}

Result<bool> TargetFinder::MatchesExecutable(Pid pid) const {
  if (rules_.executables.empty()) return false;
  const Result<std::string> program = procfs_.Executable(pid);
  if (!program) return Fail(program.error());
  return AnyMatches(rules_.executables, *program);
}

Result<bool> TargetFinder::MatchesCgroup(Pid pid) const {
  if (rules_.cgroups.empty()) return false;
  const Result<std::string> path = procfs_.Cgroup(pid);
  if (!path) return Fail(path.error());
  return std::ranges::any_of(rules_.cgroups, [&](const std::string& cgroup) {
    return WithSlashAtEnd(*path).starts_with(cgroup);
  });
}

Result<bool> TargetFinder::Matches(const Known& process, const std::string& command) const {
  if (std::ranges::find(named_, process.instance) != named_.end()) return true;
  const Pid pid = process.instance.pid;
  std::optional<Error> refusal;
  const auto holds = [&](const Result<bool>& rule) {
    if (!rule && rule.error().system_error != ESRCH) refusal = rule.error();
    return rule.value_or(false);
  };
  if (holds(MatchesCommand(pid, command)) || holds(MatchesExecutable(pid)) ||
      holds(MatchesCgroup(pid))) {
    return true;
  }
  if (refusal) return Fail(*std::move(refusal));
  return false;
}

void TargetFinder::Schedule(Known& process) const {
  const bool examined_before = process.interval > 0;
  if (examined_before) {
    process.interval = std::min(2 * process.interval, kLongestInterval);
    process.examine_at = looks_ + process.interval;
  } else if (looks_ > 1) {
    process.interval = 1;
    process.examine_at = looks_ + 1;
  } else {
    // Those of the first look are old, as a rule. Spread, they do not all come in one look again.
    process.interval = kLongestInterval;
    process.examine_at =
        looks_ + 1 + static_cast<std::uint64_t>(process.instance.pid.value()) % kLongestInterval;
  }
}

void TargetFinder::TakeState(Known& process, const ProcessStat& stat) {
  process.eligible = stat.alive() && !stat.kernel_thread;
  process.resident = stat.resident;
  process.parent = stat.parent;
  process.heads_session = stat.session == process.instance.pid;
  process.command = stat.name;
}

bool TargetFinder::Examine(Known& process) const {
  const Pid pid = process.instance.pid;
  const Result<ProcessStat> stat = procfs_.Stat(pid);
  if (!stat) {
    process.refusal = stat.error();
    process.examine_at = looks_ + 1;
    return stat.error().system_error != ESRCH;
  }
  const std::uint64_t start = stat->start_time_ticks;
  const bool another = process.interval > 0 && process.instance.start_time_ticks != start;
  if (another) process = {.instance = {.pid = pid}, .inode = process.inode};
  process.instance.start_time_ticks = start;
  TakeState(process, *stat);
  process.matches = false;
  process.refusal.reset();
  if (process.eligible) {
    const Result<bool> matches = Matches(process, stat->name);
    process.matches = matches.value_or(false);
    if (!matches) process.refusal = matches.error();
  }
  Schedule(process);
  return true;
}

bool TargetFinder::Judge(Known& process, MonotonicTime now) const {
  const auto used = cpu_time_of_(process.instance.pid);
  if (!used) return true;
  const bool judged = process.cpu_share.Add(now, *used);
  // A process that has not run has got no memory.
  if (judged && process.cpu_share.share() > 0) {
    const Result<ProcessStat> stat = procfs_.Stat(process.instance.pid);
    const bool is_gone = stat ? stat->start_time_ticks != process.instance.start_time_ticks
                              : stat.error().system_error == ESRCH;
    if (is_gone) return false;
    if (stat) TakeState(process, *stat);
  }
  process.passes_alone =
      rules_.any->Passes(process.cpu_share.share(), process.resident, total_memory_);
  return true;
}

std::optional<std::size_t> TargetFinder::ParentInFamily(const Known& process) const {
  const auto found = std::ranges::lower_bound(
      known_, process.parent, {}, [](const Known& known) { return known.instance.pid; });
  if (found == known_.end() || found->instance.pid != process.parent) return std::nullopt;
  // The number of a parent that is gone may be another's by now.
  if (found->instance.start_time_ticks > process.instance.start_time_ticks) return std::nullopt;
  const bool may_begin_a_family = process.heads_session || process.parent == Pid(1);
  if (may_begin_a_family && process.command != found->command) return std::nullopt;
  return static_cast<std::size_t>(found - known_.begin());
}

void TargetFinder::JudgeFamilies() {
  constexpr auto kUnknown = static_cast<std::size_t>(-1);
  std::vector<std::size_t> heads(known_.size(), kUnknown);
  std::vector<std::size_t> way;
  const auto find_head = [&](std::size_t process) {
    way.clear();
    // The parent that is known may be an old one, so that the way could be a circle: it ends there.
    while (heads[process] == kUnknown) {
      heads[process] = process;
      way.push_back(process);
      process = ParentInFamily(known_[process]).value_or(process);
    }
    const std::size_t head = heads[process];
    for (const std::size_t passed : way) heads[passed] = head;
    return head;
  };

  std::vector<std::size_t> running;
  std::vector<FamilyUse> uses;
  std::vector<double> shares(known_.size());  // CPU shares of families, at the index of their head
  for (std::size_t i = 0; i < known_.size(); ++i) {
    Known& process = known_[i];
    if (process.eligible && process.cpu_share.recent() > 0) {
      const std::size_t head = find_head(i);
      shares[head] += process.cpu_share.share();
      running.push_back(i);
      uses.push_back(
          {.family = head, .recent = process.cpu_share.recent(), .passes = process.passes});
    }
    process.passes = process.passes_alone;
  }
  const std::vector<bool> are_busiest = AreBusiest(uses, rules_.any->busiest_part);
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (are_busiest[i] && shares[uses[i].family] >= rules_.any->min_cpu_share)
      known_[running[i]].passes = true;
  }
}

TargetFinder::Findings TargetFinder::Look(MonotonicTime now) {
  ++looks_;
  Findings findings;
  std::vector<Known> known;
  known.reserve(known_.size());
  auto before = known_.begin();
  for (const ListedProcess& listed : procfs_.Processes()) {
    if (listed.pid == observer_ || IsHelper(listed.pid)) continue;
    while (before != known_.end() && before->instance.pid < listed.pid) ++before;
    const bool is_known = before != known_.end() && before->instance.pid == listed.pid &&
                          before->inode == listed.inode;
    Known process = is_known ? std::move(*before)
                             : Known{.instance = {.pid = listed.pid}, .inode = listed.inode};
    if (looks_ >= process.examine_at && !Examine(process)) continue;
    if (rules_.any && process.eligible && !Judge(process, now)) continue;
    known.push_back(std::move(process));
  }
  known_ = std::move(known);
  if (rules_.any) JudgeFamilies();
  for (const Known& process : known_) {
    if (process.eligible && (process.matches || process.passes)) {
      findings.targets.push_back(process.instance);
    } else if (process.refusal) {
      ++findings.unreadable;
      findings.refusal = process.refusal;
    }
  }
  return findings;
}

}  // namespace tmprof
