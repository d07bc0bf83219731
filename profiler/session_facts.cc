// SPDX-License-Identifier: Apache-2.0

#include "profiler/session_facts.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>

#include "base/process_families.h"

namespace tmprof {
namespace {

constexpr std::size_t kMostAsked = 64;  // some 20 us each
constexpr std::chrono::seconds kAskAgainAfter{1};

constexpr std::chrono::seconds kFirstLookAtShared{1};
constexpr std::chrono::milliseconds kMostTimeOfLook{5};
constexpr std::chrono::milliseconds kMostTimeOfLastLook{50};
// ProcFs::MemoryByMapping
constexpr std::chrono::nanoseconds kTimeOfPage{15};
constexpr std::chrono::microseconds kTimeOfMapping{2};

bool IsStopped(char state) { return state == 'T' || state == 't'; }  // proc(5)

std::optional<std::uint64_t> DetailOf(const SourceStatus& status, std::string_view name) {
  const auto detail = std::ranges::find(status.details, name, &NamedCount::name);
  return detail == status.details.end() ? std::nullopt : std::optional(detail->count);
}

void KeepMost(std::optional<PageCount>& most, PageCount pages) {
  most = std::max(most.value_or(PageCount(0)), pages);
}

}  // namespace

void SessionFacts::SeeTargets(const std::vector<TrackedProcess>& targets, PageCount resident,
                              std::uint64_t left_out, const FilteredChildren& filtered,
                              MonotonicTime now) {
  facts_.over_max_targets = std::max(facts_.over_max_targets, left_out);
  if (!facts_.filtered || filtered.processes > facts_.filtered->processes)
    facts_.filtered = filtered;
  if (targets.empty()) return;
  for (const TrackedProcess& target : targets) targets_.insert(target.pid);
  most_since_ = std::max(most_since_, resident);
  most_targets_ = std::max(most_targets_, targets.size());
  if (look_at_shared_again_.count() == 0) {
    look_at_shared_again_ = kFirstLookAtShared;
    look_at_shared_ = now + look_at_shared_again_;
  } else if (now >= look_at_shared_) {
    SeeShared(targets, kMostTimeOfLook);
    look_at_shared_again_ *= 2;
    look_at_shared_ = now + look_at_shared_again_;
  }
  if (now < look_again_) return;
  look_again_ = now + kAskAgainAfter;
  std::optional<ProcFs::HeldMemory> held;
  for (const TrackedProcess& target : targets | std::views::take(kMostAsked)) {
    if (!seen_not_stopped_) {
      const auto stat = procfs_.Stat(target.pid);
      if (stat) seen_targets_ = true;
      seen_not_stopped_ = stat && !IsStopped(stat->state);
    }
    if (const auto own = procfs_.Held(target.pid)) {
      if (!held) held.emplace();
      held->locked += own->locked;
      held->hugetlb += own->hugetlb;
    }
  }
  if (!held) return;
  KeepMost(facts_.unobservable.locked, held->locked);
  KeepMost(facts_.unobservable.hugetlb, held->hugetlb);
}

void SessionFacts::SeeLast(const std::vector<TrackedProcess>& targets) {
  SeeShared(targets, kMostTimeOfLastLook);
}

void SessionFacts::SeeShared(const std::vector<TrackedProcess>& targets,
                             std::chrono::nanoseconds most_time) {
  std::vector<ProcessMemory> processes;
  ProcessFamilies families;
  std::size_t unread = 0;  // number of those that live
  for (const TrackedProcess& target : targets) {
    const auto stat = procfs_.Stat(target.pid);
    if (!stat || !stat->alive() || stat->start_time_ticks != target.start_time_ticks) continue;
    ++unread;
    families.Join(target.pid, stat->parent);
    const auto time =
        kTimeOfPage * stat->resident.value() + kTimeOfMapping * target.mappings.size();
    if (time > most_time) continue;
    auto mappings = procfs_.MemoryByMapping(target.pid);
    if (!mappings || mappings->empty()) continue;
    --unread;
    most_time -= time;
    processes.push_back({.id = target.id,
                         .ipc_namespace = target.ipc_namespace,
                         .family = target.pid,
                         .mappings = *std::move(mappings)});
  }
  if (processes.empty()) return;
  for (ProcessMemory& process : processes) process.family = families.RootOf(*process.family);
  const JointMemory joint = JointMemoryOf(processes);
  KeepMost(facts_.unobservable.device, joint.device);
  // A target that was just forked is not recorded yet: the look at most memory counts. One that was
  // left out for its size counts as another process here.
  if (unread == 0 && joint.counted >= most_counted_) {
    most_counted_ = joint.counted;
    facts_.mapped_elsewhere = joint.elsewhere;
  }
  for (const bool joins_relatives : {false, true})
    KeepMost(held_[joins_relatives], HeldSince(joint, joins_relatives));
  most_since_ = PageCount(0);
  joint_ = joint;
}

// Since the last look at what is shared until now, when `joint` was read. The look at more memory
// shows more.
PageCount SessionFacts::HeldSince(const JointMemory& joint, bool joins_relatives) const {
  return (joint_.counted > joint.counted ? joint_ : joint).HeldIf(most_since_, joins_relatives);
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
  std::optional<PageCount> refused;
  for (const SourceStatus& source : epoch.sources) {
    if (source.state == SourceState::kUnavailable) continue;
    any_source_ = true;
    any_active_ = any_active_ || source.state == SourceState::kActive;
    facts_.had_references |= source.role == SourceRole::kReferences;
    facts_.had_samples |= source.role == SourceRole::kSamples;
    facts_.had_truth |= source.role == SourceRole::kTruth;
    if (const auto own = DetailOf(source, "unclearable_pages"))
      refused = refused.value_or(PageCount(0)) + PageCount(*own);
    if (!source.refusal.empty()) facts_.refusal = source.refusal;
  }
  // The exact tracer is told of no targets.
  for (const Target& target : epoch.targets) {
    if (facts_.had_truth) targets_.insert(target.pid);
  }
  if (refused) KeepMost(facts_.unobservable.refused, *refused);
  shared_.AddEpoch(epoch);
  joins_relatives_ = joins_relatives_ || epoch.pages.same_as;
  JoinedSpans looked_at(looked_at_);
  JoinedSpans accessed(accessed_);
  const PageColumns& pages = epoch.pages;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const PageCount span(pages.span_pages[i]);
    const PageKey name = SharedPages::LastingName(shared_.NameOf(pages.key(i), span));
    if (pages.looks[i] > 0) {
      looked_at.Add(name, span);
      facts_.looks += std::uint64_t{pages.looks[i]} * span.value();
      facts_.by_regions = facts_.by_regions || !IsOneEntry(span.value());
    }
    if (AnySourceSaw(pages, i)) accessed.Add(name, span);
    facts_.samples += std::uint64_t{pages.load_samples[i]} + pages.store_samples[i];
  }
}

RecordingFacts SessionFacts::Facts() const {
  RecordingFacts facts = facts_;
  facts.targets.assign(targets_.begin(), targets_.end());
  facts.stopped_throughout = seen_targets_ && !seen_not_stopped_;
  facts.gated_throughout = any_source_ && !any_active_;
  if (!cpu_time_known_) facts.cpu_time.reset();
  const std::optional<PageCount>& held = held_[joins_relatives_];
  if (most_since_.value() > 0 || held) {
    facts.resident = held;
    KeepMost(facts.resident, HeldSince(JointMemory(), joins_relatives_));
  }
  facts.resident_is_at_most = !held && most_targets_ > 1;
  facts.looked_at = looked_at_.size();
  facts.accessed = accessed_.size();
  return facts;
}

}  // namespace tmprof
