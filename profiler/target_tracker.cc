// SPDX-License-Identifier: Apache-2.0

#include "profiler/target_tracker.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/host/capabilities.h"
#include "profiler/helper_processes.h"

namespace tmprof {
namespace {

// Time after which mappings that look unchanged are read again.
constexpr std::chrono::seconds kReadAgainAfter{1};
// The kernel and the parser take 1 to 2 us for each mapping (ProcFs::Mappings of 60 000 on an Intel
// Xeon guest), in which the process cannot map anything. Reads take a twentieth of the time at
// most.
constexpr std::chrono::microseconds kReadOfMappingTakes{2};
constexpr int kReadsRest = 20;

}  // namespace

TargetTracker::TargetTracker(const ProcFs& procfs, CpuTimeOf cpu_time_of, Options options)
    : procfs_(procfs),
      cpu_time_of_(std::move(cpu_time_of)),
      options_(options),
      total_memory_(procfs.TotalMemory()) {}

void TargetTracker::Configure(const Options& options) {
  options_ = options;
  for (Process& process : processes_) {
    if (!options_.follow_children) process.child = false;
    if (!options_.filter) process.passes_filter = true;
  }
}

TargetTracker::Process* TargetTracker::Find(Pid pid, std::uint64_t start_time_ticks) {
  const auto found = std::ranges::find_if(processes_, [&](const Process& process) {
    return process.target.pid == pid && process.target.start_time_ticks == start_time_ticks;
  });
  return found == processes_.end() ? nullptr : &*found;
}

TargetTracker::Process& TargetTracker::Register(Pid pid, const ProcessStat& stat) {
  Process process;
  process.target = {.id = TargetId(next_id_++),
                    .pid = pid,
                    .start_time_ticks = stat.start_time_ticks,
                    .name = stat.name,
                    .command = procfs_.Command(pid),
                    .ipc_namespace = procfs_.IpcNamespace(pid)};
  process.parent = stat.parent;
  process.resident = stat.resident;
  process.cpu_time_now = process.cpu_time_at_epoch = cpu_time_of_(pid);
  process.cpu_time_at_first = process.cpu_time_now;
  if (auto mappings = procfs_.Mappings(pid)) process.target.mappings = *std::move(mappings);
  return processes_.emplace_back(std::move(process));
}

Status TargetTracker::CheckMappings(Pid pid) const {
  if (const auto mappings = procfs_.Mappings(pid); !mappings) {
    return Fail(Refused("read the memory map of PID", std::to_string(pid.value()),
                        mappings.error().system_error.value_or(ESRCH),
                        OwnerAdvice("the owner of the process")));
  }
  return {};
}

Status TargetTracker::AddNamed(Pid pid) {
  const Result<ProcessStat> stat = procfs_.Stat(pid);
  if (!stat) {
    std::string advice = "see 'ps -e' for live processes";
    if (const auto here = procfs_.InOtherNamespace(pid)) {
      advice =
          "a process of another PID namespace (a container) has this number there; here it is " +
          std::to_string(here->value());
    }
    return Fail(Refused("observe PID", std::to_string(pid.value()),
                        stat.error().system_error.value_or(ESRCH), std::move(advice)));
  }
  if (stat->kernel_thread) {
    return Fail(Error{
        .attempt = "observe PID",
        .object = std::to_string(pid.value()),
        .reason = "'" + stat->name + "' is a thread of the kernel, which has no memory of its own",
        .advice = "name a process; 'ps aux' shows threads of the kernel in brackets"});
  }
  if (!stat->alive()) {
    return Fail(Refused("observe PID", std::to_string(pid.value()), ESRCH,
                        "the process has exited and waits for its parent"));
  }
  if (auto status = CheckMappings(pid); !status) return status;
  if (Process* known = Find(pid, stat->start_time_ticks)) {
    known->named = true;
    Update(*known);
  } else {
    Register(pid, *stat).named = true;
  }
  RebuildTracked();
  return {};
}

Status TargetTracker::FollowNew(const ProcessInstance& instance) {
  const Pid pid = instance.pid;
  const Result<ProcessStat> stat = procfs_.Stat(pid);
  if (!stat) return Fail(stat.error());
  if (!stat->alive() || stat->start_time_ticks != instance.start_time_ticks) {
    return Fail(Refused("observe PID", std::to_string(pid.value()), ESRCH));
  }
  if (auto status = CheckMappings(pid); !status) return status;
  Register(pid, *stat).found = true;
  return {};
}

std::vector<Error> TargetTracker::Follow(std::span<const ProcessInstance> found) {
  for (Process& process : processes_) {
    const bool was_found = std::exchange(
        process.found,
        std::ranges::binary_search(
            found, ProcessInstance{process.target.pid, process.target.start_time_ticks}));
    if (process.found && !was_found && !process.target.exited) Update(process);
  }
  std::vector<Error> errors;
  std::vector<ProcessInstance> refused;
  for (const ProcessInstance& instance : found) {
    if (instance.pid == options_.observer || IsHelper(instance.pid)) continue;
    if (Find(instance.pid, instance.start_time_ticks) != nullptr) continue;
    const Status followed = FollowNew(instance);
    if (followed || followed.error().system_error == ESRCH) continue;
    refused.push_back(instance);
    if (!std::ranges::binary_search(refused_, instance)) errors.push_back(followed.error());
  }
  refused_ = std::move(refused);
  RebuildTracked();
  return errors;
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
  // The clock of a dead process that waits for its parent still has its final sum.
  if (cpu_time || stat->alive()) process.cpu_time_now = cpu_time;
  target.exited = !stat->alive();
  return target.exited ? std::nullopt : std::optional(*stat);
}

bool TargetTracker::Update(Process& process) const {
  Target& target = process.target;
  auto mappings = procfs_.Mappings(target.pid);
  std::string command = procfs_.Command(target.pid);
  const std::optional<std::uint64_t> ipc_namespace = procfs_.IpcNamespace(target.pid);
  const std::optional<ProcessStat> stat = Observe(process);
  if (!stat) return false;
  target.ipc_namespace = ipc_namespace;
  const bool has_mappings = mappings.has_value();
  if (has_mappings) target.mappings = *std::move(mappings);
  if (!command.empty()) target.command = std::move(command);  // an exec may keep the name
  target.name = stat->name;
  process.resident = stat->resident;
  return has_mappings;
}

void TargetTracker::UpdateIfDue(Process& process, MonotonicTime now) const {
  const std::optional<ProcessStat> stat = Observe(process);
  if (!stat) return;
  const std::optional<std::chrono::nanoseconds> cpu_time = process.cpu_time_now;
  if (process.mappings_read &&
      !MayHaveOtherMappings(*process.mappings_read, *stat, cpu_time, now)) {
    process.resident = stat->resident;
    return;
  }
  if (Update(process)) {
    process.mappings_read = {.time = now,
                             .cpu_time = cpu_time,
                             .mapped = stat->mapped,
                             .resident = stat->resident,
                             .name = stat->name,
                             .mappings = process.target.mappings.size()};
  }
}

// `cpu_time`: of the process by now.
bool TargetTracker::MayHaveOtherMappings(const Reading& read, const ProcessStat& stat,
                                         std::optional<std::chrono::nanoseconds> cpu_time,
                                         MonotonicTime now) {
  if (stat.name != read.name) return true;
  const auto since = now - read.time;
  if (since < kReadsRest * kReadOfMappingTakes * read.mappings) return false;
  // A program that begins to use reserved memory makes pages resident.
  if (stat.mapped != read.mapped || stat.resident != read.resident) return true;
  return since >= kReadAgainAfter && (!cpu_time || cpu_time != read.cpu_time);
}

void TargetTracker::FollowChildrenOf(Pid parent, std::optional<TargetId> family) {
  for (const Pid child : procfs_.Children(parent)) {
    if (child == options_.observer || IsHelper(child)) continue;
    const Result<ProcessStat> stat = procfs_.Stat(child);
    if (!stat || !stat->alive()) continue;
    if (Process* known = Find(child, stat->start_time_ticks)) {
      known->child = true;
      known->family = family;
      continue;
    }
    Process& process = Register(child, *stat);
    process.child = true;
    process.family = family;
    process.cpu_time_at_epoch = std::chrono::nanoseconds(0);  // all of it since its birth
  }
}

void TargetTracker::FindChildren() {
  if (options_.observer && options_.observer_adopts_orphans)
    FollowChildrenOf(*options_.observer, std::nullopt);
  // Grown while walked: grandchildren are found in the same pass.
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    Process& parent = processes_[i];
    if (parent.target.exited || !parent.followed()) continue;
    if (parent.named || parent.found) parent.family = parent.target.id;
    FollowChildrenOf(parent.target.pid, parent.family);
  }
}

void TargetTracker::ApplyFilter() {
  std::vector<Process*> followed;
  std::vector<FamilyUse> uses;
  for (Process& process : processes_) {
    if (process.target.exited || !process.followed()) continue;
    followed.push_back(&process);
    const std::size_t family = process.family ? std::size_t{process.family->value()} + 1 : 0;
    uses.push_back(
        {.family = family, .recent = process.cpu_share.recent(), .passes = process.passes_filter});
  }
  const std::vector<bool> are_busiest = AreBusiest(uses, options_.filter->busiest_part);
  for (std::size_t i = 0; i < followed.size(); ++i) {
    Process* const process = followed[i];
    if (!process->cpu_share.has_ended_a_period()) continue;
    const bool was_wanted = process->wanted();
    process->passes_filter =
        are_busiest[i] ||
        options_.filter->Passes(process->cpu_share.share(), process->resident, total_memory_);
    if (process->wanted() && !was_wanted) Update(*process);
  }
}

void TargetTracker::Refresh(MonotonicTime now) {
  for (Process& process : processes_) {
    if (process.target.exited) continue;
    if (process.wanted()) {
      UpdateIfDue(process, now);
    } else if (const auto stat = Observe(process)) {
      process.resident = stat->resident;
    }
  }
  if (options_.follow_children) FindChildren();
  bool any_period_ended = false;
  for (Process& process : processes_) {
    if (process.target.exited || !process.cpu_time_now) continue;
    any_period_ended |= process.cpu_share.Add(now, *process.cpu_time_now);
  }
  if (any_period_ended && options_.filter) ApplyFilter();
  RebuildTracked();
}

std::pair<double, double> TargetTracker::Process::Claim() const {
  constexpr auto kZero = std::chrono::nanoseconds(0);
  const double weight = tracked ? kTakesThePlaceOf : 1;
  const auto used = cpu_time_now ? *cpu_time_now - cpu_time_at_first.value_or(kZero) : kZero;
  // A rest of a second is no reason to lose a place to whoever used a little in it.
  const double share = cpu_share.share() > 0 ? cpu_share.share() : cpu_share.recent();
  return {weight * share, weight * static_cast<double>(used.count())};
}

void TargetTracker::RebuildTracked() {
  filtered_ = {};
  std::vector<Process*> chosen;
  for (Process& process : processes_) {
    if (process.target.exited || !process.followed()) continue;
    if (process.wanted()) {
      chosen.push_back(&process);
      continue;
    }
    ++filtered_.processes;
    filtered_.resident += process.resident;
    filtered_.cpu_share += process.cpu_share.recent();
  }
  left_out_ = 0;
  if (options_.max_targets && chosen.size() > *options_.max_targets) {
    std::ranges::stable_sort(chosen, [](const Process* a, const Process* b) {
      if (a->Claim() != b->Claim()) return a->Claim() > b->Claim();
      return (a->named || a->found) && !b->named && !b->found;
    });
    left_out_ = chosen.size() - *options_.max_targets;
    chosen.resize(*options_.max_targets);
    std::ranges::sort(chosen, {}, [](const Process* process) { return process->target.id; });
  }
  for (Process& process : processes_) process.tracked = false;
  tracked_.clear();
  for (Process* process : chosen) {
    process->tracked = process->observed = true;
    tracked_.push_back({.id = process->target.id,
                        .pid = process->target.pid,
                        .start_time_ticks = process->target.start_time_ticks,
                        .mappings = process->target.mappings,
                        .ipc_namespace = process->target.ipc_namespace});
  }
}

PageCount TargetTracker::resident() const {
  PageCount sum;
  for (const Process& process : processes_) {
    if (process.tracked) sum += process.resident;
  }
  return sum;
}

bool TargetTracker::AnyAlive() const {
  return std::ranges::any_of(processes_,
                             [](const Process& process) { return !process.target.exited; });
}

std::optional<Pid> TargetTracker::ParentOf(TargetId target) const {
  const auto process = std::ranges::lower_bound(
      processes_, target, {}, [](const Process& known) { return known.target.id; });
  if (process == processes_.end() || process->target.id != target) return std::nullopt;
  return process->parent;
}

std::vector<Target> TargetTracker::EndEpoch() {
  std::vector<Target> targets;
  for (Process& process : processes_) {
    const std::optional<ProcessStat> stat = process.target.exited ? std::nullopt : Observe(process);
    process.target.resident_pages = stat ? std::optional(stat->resident) : std::nullopt;
    process.target.cpu_time.reset();
    if (process.cpu_time_now && process.cpu_time_at_epoch) {
      process.target.cpu_time = *process.cpu_time_now - *process.cpu_time_at_epoch;
    }
    process.cpu_time_at_epoch = process.cpu_time_now;
    if (process.target.exited) ++process.epochs_since_exit;
    if (process.observed || process.followed()) targets.push_back(process.target);
    if (!process.observed && process.followed()) targets.back().mappings.clear();
    process.observed = process.tracked || (process.observed && process.target.exited);
  }
  std::erase_if(processes_, [](const Process& process) { return process.epochs_since_exit > 1; });
  return targets;
}

}  // namespace tmprof
