// SPDX-License-Identifier: Apache-2.0
#include "profiler/sources/perf/sample_table.h"

#include <utility>

namespace tmprof {

void SampleTable::Deliver(TargetId id, const Pages& pages, Taken& taken) {
  for (const auto& [page, counts] : pages) {
    taken.samples.push_back({{id, page}, counts.loads, counts.stores});
  }
}

void SampleTable::SetTargets(const std::vector<TrackedProcess>& targets) {
  std::unordered_map<Pid, TargetId> named;
  for (const TrackedProcess& target : targets) named.emplace(target.pid, target.id);
  for (auto& [pid, process] : processes_) {
    const auto found = named.find(pid);
    const bool same = found != named.end() && process.id == found->second;
    if (!process.id || same) continue;
    Deliver(*process.id, process.pages, leaving_);
    process = Process{};
  }
  for (const auto& [pid, id] : named) processes_[pid].id = id;
}

void SampleTable::Add(Pid process, Vpn page, AccessKind kind) {
  Counts& counts = processes_[process].pages[page];
  ++(kind == AccessKind::kStore ? counts.stores : counts.loads);
}

SampleTable::Taken SampleTable::Take() {
  Taken taken = std::exchange(leaving_, {});
  for (auto entry = processes_.begin(); entry != processes_.end();) {
    Process& process = entry->second;
    if (process.id) {
      Deliver(*process.id, process.pages, taken);
      process.pages.clear();
    } else if (!process.waited_an_epoch) {
      process.waited_an_epoch = true;
    } else {
      for (const auto& [page, counts] : process.pages) {
        taken.unknown_process += counts.loads + counts.stores;
      }
      entry = processes_.erase(entry);
      continue;
    }
    ++entry;
  }
  return taken;
}

}  // namespace tmprof
