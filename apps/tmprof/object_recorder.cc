// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/object_recorder.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>

#include "report/symbols.h"

namespace tmprof {

using objtrace::LogEventKind;

namespace {

// Nothing: written by the target, which may write anything.
std::optional<AllocationKind> KindOf(LogEventKind kind) {
  switch (kind) {
    case LogEventKind::kAllocated:
      return AllocationKind::kAllocated;
    case LogEventKind::kFreed:
      return AllocationKind::kFreed;
    case LogEventKind::kMapped:
      return AllocationKind::kMapped;
    case LogEventKind::kUnmapped:
      return AllocationKind::kUnmapped;
  }
  return std::nullopt;
}

}  // namespace

Result<ObjectRecorder> ObjectRecorder::Create(const AllocationLogs::Options& options) {
  Result<AllocationLogs> logs = AllocationLogs::Create(options);
  if (!logs) return Fail(logs.error());
  return ObjectRecorder(*std::move(logs), options.threshold_bytes);
}

const Target* ObjectRecorder::FindTarget(const EpochProfile& epoch, Pid pid) {
  const auto found = std::ranges::find(epoch.targets, pid, &Target::pid);
  return found != epoch.targets.end() ? &*found : nullptr;
}

std::vector<SourceFrame> ObjectRecorder::FramesOf(const ProcessLog& log, std::uint32_t site) {
  std::vector<LoggedModule> modules = log.Modules();
  modules.resize(std::min(modules.size(), log.ModulesOf(site)));
  std::ranges::reverse(modules);  // what lay at an address last comes first
  std::unique_ptr<Symbols> symbols;
  std::vector<SourceFrame> frames;
  for (const std::uint64_t address : log.Frames(site)) {
    const auto module = std::ranges::find_if(modules, [&](const LoggedModule& candidate) {
      return candidate.start < address && address <= candidate.end;
    });
    const auto key = module != modules.end() ? std::pair(module->path, address - module->bias)
                                             : std::pair(std::string(), address);
    auto call = calls_.find(key);
    if (call == calls_.end()) {
      if (symbols == nullptr) {
        std::vector<LoadedModule> loaded;
        for (const LoggedModule& one : modules) {
          loaded.push_back(
              {.path = one.path, .start = one.start, .end = one.end, .bias = one.bias});
        }
        symbols = std::make_unique<Symbols>(std::move(loaded), std::string(), CheckFiles::kNo);
      }
      call = calls_.emplace(key, symbols->CallBefore(address)).first;
    }
    std::ranges::copy(call->second, std::back_inserter(frames));
  }
  return frames;
}

std::uint32_t ObjectRecorder::SiteOf(Process& process, const ProcessLog& log, std::uint32_t site,
                                     Allocations& into) {
  if (site == kUnknownSite) return kUnknownSite;
  const auto [known, is_new] = process.sites.try_emplace(site, kUnknownSite);
  if (!is_new) return known->second;
  std::vector<SourceFrame> frames = FramesOf(log, site);
  if (frames.empty()) return kUnknownSite;
  const auto id = static_cast<std::uint32_t>(sites_.size() + 1);
  const auto [place, is_first] = sites_.try_emplace(std::move(frames), id);
  if (is_first) into.sites.push_back({.id = id, .frames = place->first});
  return known->second = place->second;
}

void ObjectRecorder::Add(Process& process, const ProcessLog& log, const LoggedEvent& event,
                         TargetId target, Allocations& into) {
  into.events.push_back({.target = target,
                         .kind = *KindOf(event.kind),
                         .address = event.address,
                         .bytes = event.bytes,
                         .time = event.time,
                         .site = SiteOf(process, log, event.site, into),
                         .weight = event.weight});
}

bool ObjectRecorder::Apply(Process& process, const LoggedEvent& event) {
  switch (event.kind) {
    case LogEventKind::kAllocated:
      process.allocated.insert_or_assign(event.address, event);
      return true;
    case LogEventKind::kFreed:
      return process.allocated.erase(event.address) > 0;
    case LogEventKind::kMapped:
      process.mapped.insert_or_assign(event.address, event);
      return true;
    case LogEventKind::kUnmapped:
      break;
  }
  const std::uint64_t end = event.address + event.bytes;
  bool any = false;
  auto at = process.mapped.upper_bound(event.address);
  if (at != process.mapped.begin()) --at;  // they seldom overlap
  while (at != process.mapped.end() && at->first < end) {
    const bool overlaps = event.address < at->first + at->second.bytes;
    any = any || overlaps;
    const bool is_covered = event.address <= at->first && at->first + at->second.bytes <= end;
    at = is_covered ? process.mapped.erase(at) : std::next(at);
  }
  return any;
}

void ObjectRecorder::TellWhatLives(Process& process, const ProcessLog& log, const Target& target,
                                   Allocations& into) {
  if (process.told == target.id) return;
  process.told = target.id;
  for (const LiveEvents* live : {&process.mapped, &process.allocated}) {
    for (const auto& [address, event] : *live) Add(process, log, event, target.id, into);
  }
}

void ObjectRecorder::End(const Process& process, TargetId target, Allocations& into) {
  for (const auto& [address, event] : process.allocated) {
    into.events.push_back({.target = target,
                           .kind = AllocationKind::kFreed,
                           .address = address,
                           .time = process.last});
  }
  for (const auto& [address, event] : process.mapped) {
    into.events.push_back({.target = target,
                           .kind = AllocationKind::kUnmapped,
                           .address = address,
                           .bytes = event.bytes,
                           .time = process.last});
  }
}

ObjectRecorder::Process& ObjectRecorder::ProcessOf(const AllocationLogs::Log& log) {
  Process& process = processes_[{log->pid(), log->begin()}];
  process.log = log;
  return process;
}

void ObjectRecorder::Service() {
  logs_.Take(
      [&](const AllocationLogs::Log& log, const LoggedEvent& event) {
        if (KindOf(event.kind)) ProcessOf(log).waiting.push_back(event);
      },
      [&](const AllocationLogs::Log& log, bool is_gone) { ProcessOf(log).is_gone = is_gone; });
}

void ObjectRecorder::Complete(EpochProfile& epoch) {
  Service();
  Allocations& into = epoch.allocations.emplace();
  into.all_from_bytes = all_from_bytes_;
  for (auto& [key, process] : processes_) {
    const ProcessLog& log = *process.log;
    const Target* target = FindTarget(epoch, log.pid());
    if (target != nullptr) TellWhatLives(process, log, *target, into);
    for (const LoggedEvent& event : std::exchange(process.waiting, {})) {
      process.last = std::max(process.last, event.time);
      if (Apply(process, event) && target != nullptr) Add(process, log, event, target->id, into);
    }
    const std::uint64_t lost = log.lost();
    into.lost += lost - std::exchange(process.lost, lost);
    // Another program may run in the process from now on.
    if (process.is_gone && target != nullptr) End(process, target->id, into);
  }
  std::erase_if(processes_, [](const auto& process) { return process.second.is_gone; });
}

}  // namespace tmprof
