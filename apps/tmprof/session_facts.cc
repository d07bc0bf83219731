// SPDX-License-Identifier: Apache-2.0

#include "apps/tmprof/session_facts.h"

#include <algorithm>
#include <ranges>
#include <string>
#include <string_view>

namespace tmprof {
namespace {

constexpr std::size_t kMostAsked = 64;  // some 20 us each
constexpr std::chrono::seconds kAskAgainAfter{1};

bool IsStopped(char state) { return state == 'T' || state == 't'; }  // proc(5)

std::uint64_t DetailOf(const SourceStatus& status, std::string_view name) {
  const auto detail = std::ranges::find(status.details, name, &NamedCount::name);
  return detail == status.details.end() ? 0 : detail->count;
}

}  // namespace

void SessionFacts::SeeTargets(const std::vector<TrackedProcess>& targets, PageCount resident,
                              std::uint64_t left_out, MonotonicTime now) {
  facts_.over_max_targets = std::max(facts_.over_max_targets, left_out);
  if (targets.empty()) return;
  for (const TrackedProcess& target : targets) targets_.insert(target.pid);
  if (resident > facts_.resident.value_or(PageCount(0))) facts_.resident = resident;
  if (now < look_again_) return;
  look_again_ = now + kAskAgainAfter;
  ProcFs::HeldMemory held;
  for (const TrackedProcess& target : targets | std::views::take(kMostAsked)) {
    if (!seen_not_stopped_) {
      const auto stat = procfs_.Stat(target.pid);
      if (stat) seen_targets_ = true;
      seen_not_stopped_ = stat && !IsStopped(stat->state);
    }
    if (const auto own = procfs_.Held(target.pid)) {
      held.locked += own->locked;
      held.hugetlb += own->hugetlb;
    }
  }
  const auto tell = [this](std::string_view kind, PageCount pages) {
    const auto known = std::ranges::find(facts_.unobservable, kind, &Unobservable::kind);
    if (known != facts_.unobservable.end()) {
      known->pages = std::max(known->pages, pages);
    } else if (pages.value() > 0) {
      facts_.unobservable.push_back({.kind = std::string(kind), .pages = pages});
    }
  };
  tell("locked", held.locked);
  tell("in huge pages of hugetlbfs", held.hugetlb);
}

void SessionFacts::Add(const EpochProfile& epoch) {
  ++facts_.epochs;
  if (!start_) start_ = epoch.start;
  facts_.length = epoch.end - *start_;
  facts_.all_ended = true;
  for (const Target& target : epoch.targets) {
    facts_.all_ended = facts_.all_ended && target.exited;
    cpu_time_known_ = cpu_time_known_ && target.cpu_time.has_value();
    if (target.cpu_time)
      facts_.cpu_time = facts_.cpu_time.value_or(std::chrono::nanoseconds(0)) + *target.cpu_time;
  }
  std::uint64_t unclearable = 0;
  for (const SourceStatus& source : epoch.sources) {
    if (source.state == SourceState::kUnavailable) continue;
    any_source_ = true;
    any_active_ = any_active_ || source.state == SourceState::kActive;
    facts_.had_references |= source.role == SourceRole::kReferences;
    facts_.had_samples |= source.role == SourceRole::kSamples;
    facts_.had_truth |= source.role == SourceRole::kTruth;
    unclearable += DetailOf(source, "unclearable_pages");
    if (!source.refusal.empty()) facts_.refusal = source.refusal;
  }
  // The exact tracer is told of no targets.
  for (const Target& target : epoch.targets) {
    if (facts_.had_truth) targets_.insert(target.pid);
  }
  facts_.unclearable = std::max(facts_.unclearable, PageCount(unclearable));
  JoinedSpans looked_at(looked_at_);
  JoinedSpans accessed(accessed_);
  const PageColumns& pages = epoch.pages;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const PageCount span(pages.span_pages[i]);
    if (pages.looks[i] > 0) {
      looked_at.Add(pages.key(i), span);
      facts_.looks += std::uint64_t{pages.looks[i]} * span.value();
      facts_.by_regions = facts_.by_regions || !IsOneEntry(span.value());
    }
    if (AnySourceSaw(pages, i)) accessed.Add(pages.key(i), span);
    facts_.samples += std::uint64_t{pages.load_samples[i]} + pages.store_samples[i];
  }
}

RecordingFacts SessionFacts::Facts() const {
  RecordingFacts facts = facts_;
  facts.targets.assign(targets_.begin(), targets_.end());
  facts.stopped_throughout = seen_targets_ && !seen_not_stopped_;
  facts.gated_throughout = any_source_ && !any_active_;
  if (!cpu_time_known_) facts.cpu_time.reset();
  facts.looked_at = looked_at_.size();
  facts.accessed = accessed_.size();
  return facts;
}

}  // namespace tmprof
