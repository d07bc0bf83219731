// SPDX-License-Identifier: Apache-2.0

#include "objects/commands/object_recorder.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <span>

#include "objects/analysis/symbols.h"

namespace tmprof {

using objtrace::LogEventKind;

namespace {

// nullopt: no kind of allocation. The target wrote the value, and may write anything.
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
    case LogEventKind::kThreadBegan:
    case LogEventKind::kThreadEnded:
    case LogEventKind::kGoing:
    case LogEventKind::kGone:
    case LogEventKind::kStayed:
      break;
  }
  return std::nullopt;
}

// True for events of a range that may be freed.
bool IsOfGoing(const LoggedEvent& event) {
  return event.kind == LogEventKind::kGoing || event.kind == LogEventKind::kGone ||
         event.kind == LogEventKind::kStayed;
}

bool IsOfThread(const LoggedEvent& event) {
  return event.kind == LogEventKind::kThreadBegan || event.kind == LogEventKind::kThreadEnded;
}

bool WasAccessed(const PageColumns& pages, std::size_t record) {
  return pages.references[record] > 0 || pages.load_samples[record] > 0 ||
         pages.store_samples[record] > 0;
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
  std::ranges::reverse(modules);  // the module that lay at an address last comes first
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
  const auto [place, is_first] = sites_.try_emplace(std::move(frames), last_site_ + 1);
  if (is_first) {
    into.sites.push_back({.id = ++last_site_, .frames = place->first});
    for (const SourceFrame& frame : place->first) TellFile(frame.module, into);
  }
  return known->second = place->second;
}

void ObjectRecorder::TellFile(const std::string& path, Allocations& into) {
  if (path.empty() || !told_files_.insert(path).second) return;
  if (std::string build_id = BuildIdOf(path); !build_id.empty()) {
    into.files.push_back({.path = path, .build_id = std::move(build_id)});
  }
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

std::vector<LoggedEvent> ObjectRecorder::Settle(Process& process, const LoggedEvent& event) {
  // More than as many threads have in hand: those before were lost.
  constexpr std::size_t kMostGoing = 1024;
  const auto gone = [&](LoggedEvent going) {
    going.kind = LogEventKind::kUnmapped;
    return going;
  };
  std::vector<LoggedEvent>& all = process.going;
  if (event.kind == LogEventKind::kGoing) {
    if (all.size() == kMostGoing) all.erase(all.begin());
    all.push_back(event);
    return {};
  }
  if (IsOfGoing(event)) {
    const auto going = std::ranges::find_if(all, [&](const LoggedEvent& candidate) {
      return candidate.address == event.address && candidate.bytes == event.bytes;
    });
    if (going == all.end()) return {};  // something was mapped there meanwhile
    std::vector<LoggedEvent> settled;
    if (event.kind == LogEventKind::kGone) settled.push_back(gone(*going));
    all.erase(going);
    return settled;
  }
  std::vector<LoggedEvent> settled;
  if (event.kind == LogEventKind::kMapped) {
    std::erase_if(all, [&](const LoggedEvent& going) {
      const bool overlaps = going.address < event.address + event.bytes &&
                            event.address < going.address + going.bytes;
      if (overlaps) settled.push_back(gone(going));
      return overlaps;
    });
  }
  settled.push_back(event);
  return settled;
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
    case LogEventKind::kThreadBegan:
    case LogEventKind::kThreadEnded:
    case LogEventKind::kGoing:
    case LogEventKind::kGone:
    case LogEventKind::kStayed:
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
  const MonotonicTime time = std::max(process.last, process.end.value_or(process.last));
  for (const auto& [address, event] : process.allocated) {
    into.events.push_back(
        {.target = target, .kind = AllocationKind::kFreed, .address = address, .time = time});
  }
  for (const auto& [address, event] : process.mapped) {
    into.events.push_back({.target = target,
                           .kind = AllocationKind::kUnmapped,
                           .address = address,
                           .bytes = event.bytes,
                           .time = time});
  }
  const auto end = [&](FixedKind kind, std::uint64_t address) {
    into.fixed.push_back(
        {.target = target, .kind = kind, .ends = true, .address = address, .time = time});
  };
  for (const LoadedData::Change& change : loaded_.Forget(target)) {
    end(change.datum.kind, change.start);
  }
  for (const auto& [thread, stack] : process.stacks) {
    if (stack.site != kUnknownSite) end(FixedKind::kStack, stack.start);
  }
  const Stack& main = fixed_[target].main;
  if (main.site != kUnknownSite) end(FixedKind::kStack, main.start);
  fixed_.erase(target);
}

// Events are believed, although the target may write anything.
void ObjectRecorder::FollowThread(Process& process, const LoggedEvent& event) {
  const auto end = [&](auto stack) {
    stack->second.end = event.time;
    process.ended.push_back(std::move(stack->second));
    return process.stacks.erase(stack);
  };
  if (event.kind == LogEventKind::kThreadEnded) {
    const auto stack = process.stacks.find(event.site);
    if (stack == process.stacks.end()) return;
    stack->second.name = ThreadNameOf(event);
    end(stack);
    return;
  }
  if (event.bytes == 0 || event.address + event.bytes < event.address) return;
  // The ends of those that had the number or the memory before were lost.
  for (auto at = process.stacks.begin(); at != process.stacks.end();) {
    const Stack& stack = at->second;
    const bool overlaps =
        stack.start < event.address + event.bytes && event.address < stack.start + stack.bytes;
    at = at->first == event.site || overlaps ? end(at) : std::next(at);
  }
  process.stacks[event.site] = {.thread = Tid(static_cast<std::int32_t>(event.site)),
                                .start = event.address,
                                .bytes = event.bytes,
                                .begin = event.time};
}

std::uint32_t ObjectRecorder::SiteOf(const LoadedData::Change& change, Allocations& into) {
  const FileDatum& datum = change.datum;
  // All that a section has without a symbol is one.
  const std::uint64_t offset = datum.kind == FixedKind::kVariable ? datum.start : 0;
  const auto [site, is_first] = data_sites_.try_emplace(
      std::tuple(datum.kind, datum.name, change.file, offset), last_site_ + 1);
  if (is_first) {
    into.sites.push_back({.id = ++last_site_,
                          .frames = {{.module = change.file, .offset = datum.start}},
                          .name = datum.name});
  }
  return site->second;
}

void ObjectRecorder::AddData(const EpochProfile& epoch, const Target& target,
                             std::span<const Mapping> mappings, std::optional<MonotonicTime> begin,
                             std::span<const VpnRange> accessed, Allocations& into) {
  std::map<std::string, MonotonicTime>& files = fixed_[target.id].files;
  const bool is_first = files.empty();
  std::map<std::string, MonotonicTime> still;
  for (const Mapping& mapping : mappings) {
    if (mapping.kind != MappingKind::kFile || still.contains(mapping.path)) continue;
    const auto before = files.find(mapping.path);
    still[mapping.path] = before != files.end() ? before->second
                          : is_first && begin   ? *begin
                                                : epoch.start;
  }
  files = std::move(still);
  for (const LoadedData::Change& change : loaded_.See(target.id, mappings, accessed)) {
    const auto since = files.find(change.file);
    into.fixed.push_back({.target = target.id,
                          .kind = change.datum.kind,
                          .ends = change.ends,
                          .address = change.start,
                          .bytes = change.ends ? 0 : change.datum.bytes,
                          .time = change.ends || since == files.end() ? epoch.start : since->second,
                          .site = change.ends ? kUnknownSite : SiteOf(change, into)});
  }
}

void ObjectRecorder::AddStack(TargetId target, Stack& stack, std::string name, Allocations& into) {
  if (stack.site == kUnknownSite) {
    stack.site = ++last_site_;
    into.sites.push_back(
        {.id = stack.site, .frames = {}, .name = std::move(name), .thread = stack.thread});
  }
  into.fixed.push_back({.target = target,
                        .kind = FixedKind::kStack,
                        .address = stack.start,
                        .bytes = stack.bytes,
                        .time = stack.begin,
                        .site = stack.site});
}

void ObjectRecorder::AddMainStack(const EpochProfile& epoch, const Target& target,
                                  std::span<const Mapping> mappings,
                                  std::optional<MonotonicTime> begin,
                                  std::span<const VpnRange> accessed, Allocations& into) {
  const auto mapping = std::ranges::find(mappings, MappingKind::kStack, &Mapping::kind);
  if (mapping == mappings.end()) return;
  Stack& main = fixed_[target.id].main;
  const std::uint64_t start = mapping->range.start.value() * kBasePageBytes;
  const std::uint64_t bytes = mapping->range.size().value() * kBasePageBytes;
  const bool was_told = main.site != kUnknownSite;
  if (was_told && main.start == start && main.bytes == bytes) return;
  if (!was_told && !Overlaps(accessed, mapping->range)) return;
  if (was_told && (start >= main.start + main.bytes || main.start >= start + bytes)) {
    into.fixed.push_back({.target = target.id,
                          .kind = FixedKind::kStack,
                          .ends = true,
                          .address = main.start,
                          .time = epoch.start});
    main = Stack();
  }
  main.thread = Tid(target.pid.value());
  main.begin = main.site == kUnknownSite ? begin.value_or(epoch.start) : epoch.start;
  main.start = start;
  main.bytes = bytes;
  AddStack(target.id, main, target.name, into);
}

void ObjectRecorder::AddFixed(const EpochProfile& epoch, const Target& target, Process* process,
                              std::span<const VpnRange> accessed, Allocations& into) {
  std::span<const Mapping> mappings = target.mappings;
  std::optional<MonotonicTime> begin;
  if (process != nullptr) {
    begin = process->log->begin();
    const bool are_its = process->mappings.empty() && process->log->IsMappedIn(mappings);
    if (!are_its) mappings = process->mappings;  // the target's may be of the next program already
  }
  if (!mappings.empty()) {
    AddData(epoch, target, mappings, begin, accessed, into);
    AddMainStack(epoch, target, mappings, begin, accessed, into);
  }
  if (process == nullptr) return;
  for (Stack& stack : process->ended) {
    const bool was_told = stack.site != kUnknownSite;
    if (!was_told && !Overlaps(accessed, stack.pages())) continue;
    if (!was_told) AddStack(target.id, stack, stack.name, into);
    into.fixed.push_back({.target = target.id,
                          .kind = FixedKind::kStack,
                          .ends = true,
                          .address = stack.start,
                          .time = *stack.end});
  }
  for (auto& [number, stack] : process->stacks) {
    if (stack.site != kUnknownSite || !Overlaps(accessed, stack.pages())) continue;
    // A thread that has ended meanwhile has reported its name by the next epoch.
    const auto name = procfs_.ThreadName(target.pid, *stack.thread);
    if (name || process->end) AddStack(target.id, stack, name.value_or(target.name), into);
  }
}

ObjectRecorder::Accessed ObjectRecorder::AccessedPages(const PageColumns& pages) {
  Accessed accessed;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (!WasAccessed(pages, i)) continue;
    std::vector<VpnRange>& ranges = accessed[pages.target[i]];
    const VpnRange span{pages.vpn[i], pages.vpn[i] + PageCount(pages.span_pages[i])};
    if (!ranges.empty() && ranges.back().end == span.start) {
      ranges.back().end = span.end;
    } else {
      ranges.push_back(span);
    }
  }
  return accessed;
}

ObjectRecorder::Process& ObjectRecorder::ProcessOf(const AllocationLogs::Log& log) {
  const auto [known, is_new] = processes_.try_emplace({log->pid(), log->begin()});
  Process& process = known->second;
  process.log = log;
  tracked_any_ = true;
  // The process may end before the epoch does, so its first mappings are read now.
  if (is_new) LookAtMappings(process);
  return process;
}

void ObjectRecorder::LookAtMappings(Process& process) {
  const ProcessLog& log = *process.log;
  auto mappings = procfs_.Mappings(log.pid());
  if (!mappings || mappings->empty()) {
    // Refused, which says nothing, unless nobody has waited for it yet.
    const auto stat = procfs_.Stat(log.pid());
    if (stat && !stat->alive()) AllocationLogs::Leave(process.log);
  } else if (log.IsMappedIn(*mappings)) {
    process.mappings = *std::move(mappings);
  } else {
    AllocationLogs::Leave(process.log);
  }
}

void ObjectRecorder::Service() {
  logs_.Take(
      [&](const AllocationLogs::Log& log, const LoggedEvent& event) {
        if (KindOf(event.kind) || IsOfThread(event) || IsOfGoing(event))
          ProcessOf(log).waiting.push_back(event);
      },
      [&](const AllocationLogs::Log& log, std::optional<MonotonicTime> end) {
        ProcessOf(log).end = end;
      });
}

void ObjectRecorder::Complete(EpochProfile& epoch) {
  for (auto& [key, process] : processes_) {
    if (!process.end) LookAtMappings(process);
  }
  Service();  // reads all that was written until then
  Allocations& into = SetAllocations(epoch);
  into.all_from_bytes = all_from_bytes_;
  const Accessed accessed = AccessedPages(epoch.pages);
  const auto pages_of = [&](TargetId target) -> std::span<const VpnRange> {
    const auto pages = accessed.find(target);
    if (pages == accessed.end()) return {};
    return pages->second;
  };
  std::set<TargetId> tracked;
  for (auto& [key, process] : processes_) {
    const ProcessLog& log = *process.log;
    const Target* target = FindTarget(epoch, log.pid());
    if (target != nullptr) TellWhatLives(process, log, *target, into);
    for (const LoggedEvent& event : std::exchange(process.waiting, {})) {
      process.last = std::max(process.last, event.time);
      if (IsOfThread(event)) {
        FollowThread(process, event);
        continue;
      }
      for (const LoggedEvent& settled : Settle(process, event)) {
        if (!Apply(process, settled) || target == nullptr) continue;
        Add(process, log, settled, target->id, into);
      }
    }
    const std::uint64_t lost = log.lost();
    into.lost += lost - std::exchange(process.lost, lost);
    if (target != nullptr) {
      tracked.insert(target->id);
      AddFixed(epoch, *target, &process, pages_of(target->id), into);
    }
    process.ended.clear();
    // Another program may run in the process from now on.
    if (process.end && target != nullptr) End(process, target->id, into);
  }
  for (const Target& target : epoch.targets) {
    if (!tracked.contains(target.id)) {
      AddFixed(epoch, target, nullptr, pages_of(target.id), into);
    }
    if (!target.exited) continue;
    loaded_.Forget(target.id);
    fixed_.erase(target.id);
  }
  std::erase_if(processes_, [](const auto& process) { return process.second.end.has_value(); });
}

}  // namespace tmprof
