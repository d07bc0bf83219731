// SPDX-License-Identifier: Apache-2.0

#include "profiler/target_tracker.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace tmprof {

TargetTracker::TargetTracker(const ProcFs& procfs, CpuTimeOf cpu_time_of, Options options)
    : procfs_(procfs),
      cpu_time_of_(std::move(cpu_time_of)),
      options_(options),
      total_memory_(procfs.TotalMemory()) {}

TargetTracker::Process* TargetTracker::Find(Pid pid, std::uint64_t start_time_ticks) {
  const auto found = std::ranges::find_if(processes_, [&](const Process& process) {
    return process.target.pid == pid && process.target.start_time_ticks == start_time_ticks;
  });
  return found == processes_.end() ? nullptr : &*found;
}

void TargetTracker::Register(Pid pid, const ProcessStat& stat, bool named) {
  Process process;
  process.target = {.id = TargetId(next_id_++),
                    .pid = pid,
                    .start_time_ticks = stat.start_time_ticks,
                    .name = stat.name,
                    .command = procfs_.Command(pid)};
  process.named = named;
  process.cpu_time_now = cpu_time_of_(pid);
  // A child's time counts from its birth; a named process may have run long before.
  process.cpu_time_at_epoch = named ? process.cpu_time_now : std::chrono::nanoseconds(0);
  if (auto mappings = procfs_.Mappings(pid)) process.target.mappings = *std::move(mappings);
  processes_.push_back(std::move(process));
}

Status TargetTracker::AddNamed(Pid pid) {
  const Result<ProcessStat> stat = procfs_.Stat(pid);
  if (!stat) {
    return Fail(Refused("observe PID", std::to_string(pid.value()),
                        stat.error().system_error.value_or(ESRCH),
                        "see 'ps -e' for live processes"));
  }
  if (!stat->alive()) {
    return Fail(Refused("observe PID", std::to_string(pid.value()), ESRCH,
                        "the process has exited and waits for its parent"));
  }
  if (const auto mappings = procfs_.Mappings(pid); !mappings) {
    return Fail(Refused("read the memory map of PID", std::to_string(pid.value()),
                        mappings.error().system_error.value_or(ESRCH),
                        "run as root or as the owner of the process"));
  }
  if (Process* known = Find(pid, stat->start_time_ticks)) {
    known->named = known->passes_filter = true;
  } else {
    Register(pid, *stat, /*named=*/true);
  }
  RebuildTracked();
  return {};
}

std::optional<ProcessStat> TargetTracker::Observe(Process& process) const {
  Target& target = process.target;
  // The state last: what was read before it is this process's own only if the PID still is.
  const auto cpu_time = cpu_time_of_(target.pid);
  const Result<ProcessStat> stat = procfs_.Stat(target.pid);
  if (!stat && stat.error().system_error != ESRCH) return std::nullopt;
  if (!stat || stat->start_time_ticks != target.start_time_ticks) {
    target.exited = true;
    return std::nullopt;
  }
  // The clock of a dead process that waits for its parent still tells its final sum.
  if (cpu_time || stat->alive()) process.cpu_time_now = cpu_time;
  target.exited = !stat->alive();
  return target.exited ? std::nullopt : std::optional(*stat);
}

void TargetTracker::Update(Process& process) const {
  Target& target = process.target;
  auto mappings = procfs_.Mappings(target.pid);
  std::string command = procfs_.Command(target.pid);
  const std::optional<ProcessStat> stat = Observe(process);
  if (!stat) return;
  if (mappings) target.mappings = *std::move(mappings);
  if (!command.empty()) target.command = std::move(command);  // an exec may keep the name
  target.name = stat->name;
  process.resident = stat->resident;
}

void TargetTracker::FollowChildrenOf(Pid parent) {
  for (const Pid child : procfs_.Children(parent)) {
    if (child == options_.observer) continue;
    const Result<ProcessStat> stat = procfs_.Stat(child);
    if (stat && stat->alive() && Find(child, stat->start_time_ticks) == nullptr) {
      Register(child, *stat, /*named=*/false);
    }
  }
}

void TargetTracker::FindChildren() {
  if (options_.observer && options_.observer_adopts_orphans) FollowChildrenOf(*options_.observer);
  // Grown while walked: grandchildren are found in the same pass.
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (!processes_[i].target.exited) FollowChildrenOf(processes_[i].target.pid);
  }
}

void TargetTracker::Evaluate(Process& process, MonotonicTime now) const {
  if (!process.cpu_time_now) return;
  if (!process.cpu_share.Add(now, *process.cpu_time_now)) return;
  if (process.named || !options_.filter) return;
  process.passes_filter =
      options_.filter->Passes(process.cpu_share.share(), process.resident, total_memory_);
}

void TargetTracker::Refresh(MonotonicTime now) {
  for (Process& process : processes_) {
    if (!process.target.exited) Update(process);
  }
  if (options_.follow_children) FindChildren();
  for (Process& process : processes_) {
    if (!process.target.exited) Evaluate(process, now);
  }
  RebuildTracked();
}

void TargetTracker::RebuildTracked() {
  std::vector<Process*> chosen;
  for (Process& process : processes_) {
    process.tracked = false;
    if (!process.target.exited && process.passes_filter) chosen.push_back(&process);
  }
  if (options_.max_targets && chosen.size() > *options_.max_targets) {
    std::ranges::stable_sort(chosen, [](const Process* a, const Process* b) {
      if (a->named != b->named) return a->named;
      return a->cpu_share.share() > b->cpu_share.share();
    });
    chosen.resize(*options_.max_targets);
    std::ranges::sort(chosen, {}, [](const Process* process) { return process->target.id; });
  }
  tracked_.clear();
  for (Process* process : chosen) {
    process->tracked = process->observed = true;
    tracked_.push_back({.id = process->target.id,
                        .pid = process->target.pid,
                        .start_time_ticks = process->target.start_time_ticks,
                        .mappings = process->target.mappings});
  }
}

bool TargetTracker::AnyAlive() const {
  return std::ranges::any_of(processes_,
                             [](const Process& process) { return !process.target.exited; });
}

std::vector<Target> TargetTracker::EndEpoch() {
  std::vector<Target> targets;
  for (Process& process : processes_) {
    if (!process.target.exited) Observe(process);
    process.target.cpu_time.reset();
    if (process.cpu_time_now && process.cpu_time_at_epoch) {
      process.target.cpu_time = *process.cpu_time_now - *process.cpu_time_at_epoch;
    }
    process.cpu_time_at_epoch = process.cpu_time_now;
    if (process.target.exited) ++process.epochs_since_exit;
    targets.push_back(process.target);
    if (!process.observed) targets.back().mappings.clear();
    process.observed = process.tracked || (process.observed && process.target.exited);
  }
  std::erase_if(processes_, [](const Process& process) { return process.epochs_since_exit > 1; });
  return targets;
}

}  // namespace tmprof
