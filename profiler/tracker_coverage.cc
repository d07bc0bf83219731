// SPDX-License-Identifier: Apache-2.0

#include "profiler/tracker_coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tmprof {

std::string TrackerCoverage::NotLoaded(const TrackedProcess& target) const {
  const std::string program = program_of_(target);
  return fmt::format(
      "{} did not load the tracker, as if its root folder did not have the file",
      program.empty() ? fmt::format("PID {}", target.pid.value()) : fmt::format("'{}'", program));
}

void TrackerCoverage::SeeTargets(const std::vector<TrackedProcess>& targets) {
  for (const TrackedProcess& target : targets) {
    if (target.mappings.empty()) continue;  // not readable: nothing new is known
    Seen& seen = seen_[target.id];
    const bool has_tracker = std::ranges::any_of(target.mappings, [&](const Mapping& mapping) {
      return mapping.kind == MappingKind::kFile && mapping.path.contains(library_);
    });
    const auto first = std::ranges::find(target.mappings, MappingKind::kFile, &Mapping::kind);
    auto file = first != target.mappings.end() ? std::optional(*first) : std::nullopt;
    const bool is_new = std::exchange(seen.first_file, file) != file;
    const bool has_changed = std::exchange(seen.has_tracker, has_tracker) != has_tracker;
    const bool stays_without = !is_new && !has_tracker && seen.why.empty();
    if (is_new || has_changed || stays_without) seen.why = why_not_(target, has_tracker);
    // Its loader has had the time from one look to the next.
    if (stays_without && seen.why.empty()) seen.why = NotLoaded(target);
  }
}

void TrackerCoverage::Add(const EpochProfile& epoch) {
  JoinedSpans accessed(accessed_);
  JoinedSpans untracked(untracked_);
  for (std::size_t i = 0; i < epoch.pages.size(); ++i) {
    if (!AnySourceSaw(epoch.pages, i)) continue;
    const PageKey page = epoch.pages.key(i);
    accessing_.insert(page.target);
    accessed.Add(page, PageCount(epoch.pages.span_pages[i]));
    const auto seen = seen_.find(page.target);
    if (seen == seen_.end() || seen->second.why.empty()) continue;
    whys_[page.target] = seen->second.why;
    untracked.Add(page, PageCount(epoch.pages.span_pages[i]));
  }
  std::set<TargetId> known;
  for (const Target& target : epoch.targets) known.insert(target.id);
  std::erase_if(seen_, [&](const auto& entry) { return !known.contains(entry.first); });
}

UntrackedProcesses TrackerCoverage::Untracked() const {
  UntrackedProcesses result{.processes = whys_.size(),
                            .of_processes = accessing_.size(),
                            .of_accessed = accessed_.size()};
  std::map<std::string, PageCount> by_why;
  for (const auto& [target, pages] : untracked_.SizeByTarget()) {
    result.accessed += pages;
    by_why[whys_.at(target)] += pages;
  }
  const auto most =
      std::ranges::max_element(by_why, {}, [](const auto& each) { return each.second; });
  if (most == by_why.end()) return result;
  result.why = most->first;
  result.other_reasons = by_why.size() - 1;
  return result;
}

}  // namespace tmprof
