// SPDX-License-Identifier: Apache-2.0

#include "base/forked_pages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "base/kept_groups.h"

namespace tmprof {
namespace {

using Run = ForkedPages::Run;

PageKey NameAt(const Run& run, Vpn page) {
  return {run.name.target, run.name.vpn + (page - run.range.start)};
}

void Push(std::vector<Run>& runs, const Run& run) {
  if (run.range.start >= run.range.end) return;
  if (!runs.empty() && runs.back().range.end == run.range.start &&
      NameAt(runs.back(), run.range.start) == run.name) {
    runs.back().range.end = run.range.end;
  } else {
    runs.push_back(run);
  }
}

Run PartOf(const Run& run, Vpn start, Vpn end) {
  const VpnRange part{std::max(run.range.start, start), std::min(run.range.end, end)};
  return {part, part.start < part.end ? NameAt(run, part.start) : run.name};
}

// Pages of a target that get a name; nullopt: they lose theirs.
struct Change {
  VpnRange range;
  std::optional<PageKey> name;
};

// `changes` ascend.
std::vector<Run> Changed(std::span<const Run> runs, std::span<const Change> changes) {
  std::vector<Run> changed;
  auto run = runs.begin();
  Vpn done;
  for (const Change& change : changes) {
    for (; run != runs.end() && run->range.start < change.range.start; ++run) {
      Push(changed, PartOf(*run, done, change.range.start));
      if (run->range.end > change.range.start) break;
    }
    if (change.name) Push(changed, {change.range, *change.name});
    done = change.range.end;
    while (run != runs.end() && run->range.end <= done) ++run;
  }
  for (; run != runs.end(); ++run) Push(changed, PartOf(*run, done, run->range.end));
  return changed;
}

// The records of an epoch, and the names that they had before it.
class Records {
 public:
  Records(const PageColumns& pages, const ForkedPages& forked) : pages_(pages) {
    std::span<const Run> runs;
    auto run = runs.begin();
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (i == 0 || pages.target[i] != pages.target[i - 1]) {
        runs = forked.RunsOf(pages.target[i]);
        run = runs.begin();
      }
      const VpnRange range = RangeOf(i);
      while (run != runs.end() && run->range.end <= range.start) ++run;
      const bool has_name =
          run != runs.end() && run->range.start <= range.start && range.end <= run->range.end;
      name_.push_back(has_name ? NameAt(*run, range.start) : pages.key(i));
      has_name_.push_back(has_name);
    }
    const std::vector<std::uint32_t>& same_as = *pages.same_as;
    grouped_.resize(pages.size());
    for (std::uint32_t i = 0; i < pages.size(); ++i) {
      if (same_as[i] == i || same_as[i] == kNotCompared) continue;
      grouped_[i] = grouped_[same_as[i]] = true;
    }
    // Sorts by the first record, by counting.
    std::vector<std::uint32_t> place(pages.size() + 1);
    for (std::uint32_t i = 0; i < pages.size(); ++i) {
      if (grouped_[i]) ++place[same_as[i] + 1];
    }
    for (std::size_t i = 1; i < place.size(); ++i) place[i] += place[i - 1];
    groups_.resize(place.back());
    for (std::uint32_t i = 0; i < pages.size(); ++i) {
      if (grouped_[i]) groups_[place[same_as[i]]++] = {same_as[i], i};
    }
  }

  VpnRange RangeOf(std::size_t i) const {
    return {pages_.vpn[i], pages_.vpn[i] + PageCount(pages_.span_pages[i])};
  }
  bool IsGrouped(std::size_t i) const { return grouped_[i]; }
  bool HasName(std::size_t i) const { return has_name_[i]; }
  PageKey NameOf(std::size_t i) const { return name_[i]; }
  // First record and record, ascending.
  const std::vector<std::pair<std::uint32_t, std::uint32_t>>& groups() const { return groups_; }

  // A record without looks has a frame, too, unless it is of samples or counted accesses alone.
  bool WasCompared(std::size_t i) const {
    if ((*pages_.same_as)[i] == kNotCompared) return false;
    return pages_.looks[i] > 0 || grouped_[i] ||
           ((pages_.load_samples[i] | pages_.store_samples[i]) == 0 && !HasAccesses(i));
  }
  bool HasAccesses(std::size_t i) const {
    return pages_.accesses && (pages_.accesses->loads[i] | pages_.accesses->stores[i]) != 0;
  }
  // True if the page at this address is known to be where its record says.
  bool WasCompared(PageKey key, std::uint32_t span_pages) const {
    std::size_t first = 0;
    std::size_t end = pages_.size();
    while (first < end) {
      const std::size_t middle = first + (end - first) / 2;
      if (pages_.key(middle) < key) {
        first = middle + 1;
      } else {
        end = middle;
      }
    }
    return first < pages_.size() && pages_.key(first) == key &&
           pages_.span_pages[first] == span_pages && WasCompared(first);
  }
  // True if the page with the record's name is now another one, or another record that was compared
  // had that name. Precondition: the record was compared, and is not grouped.
  bool IsApart(std::size_t i) {
    if (WasCompared(name_[i], pages_.span_pages[i])) return true;
    if (compared_.empty()) {
      for (std::size_t k = 0; k < pages_.size(); ++k) {
        if (has_name_[k] && WasCompared(k)) compared_.emplace_back(name_[k], pages_.span_pages[k]);
      }
      std::ranges::sort(compared_);
    }
    const auto same =
        std::ranges::equal_range(compared_, std::pair(name_[i], pages_.span_pages[i]));
    return same.size() > 1;
  }

 private:
  const PageColumns& pages_;
  std::vector<PageKey> name_;  // its own address if it has none
  std::vector<bool> has_name_;
  std::vector<bool> grouped_;  // another record is of the same pages
  std::vector<std::pair<std::uint32_t, std::uint32_t>> groups_;
  // Names and pages, ascending. Empty until they are needed.
  std::vector<std::pair<PageKey, std::uint32_t>> compared_;
};

}  // namespace

std::span<const Run> ForkedPages::RunsOf(TargetId target) const {
  const auto runs = runs_.find(target);
  return runs == runs_.end() ? std::span<const Run>() : runs->second;
}

void ForkedPages::Add(const PageColumns& pages) {
  if (!pages.same_as) return;
  if (runs_.empty()) {
    bool joins = false;
    for (std::uint32_t i = 0; i < pages.size() && !joins; ++i) joins = (*pages.same_as)[i] < i;
    if (!joins) return;
  }
  Records records(pages, *this);
  std::vector<std::optional<PageKey>> named(pages.size());  // names of grouped records
  std::set<PageKey> taken;                                  // names of pages without a record
  std::vector<PageKey> members;
  std::vector<PageKey> known;
  const auto& groups = records.groups();
  for (std::size_t first = 0; first < groups.size();) {
    std::size_t end = first;
    members.clear();
    known.clear();
    for (; end < groups.size() && groups[end].first == groups[first].first; ++end) {
      members.push_back(pages.key(groups[end].second));
      known.push_back(records.NameOf(groups[end].second));
    }
    std::ranges::sort(known);
    const std::uint32_t span_pages = pages.span_pages[groups[first].first];
    PageKey name = members.front();
    for (const PageKey& candidate : known) {
      const bool is_member = std::ranges::binary_search(members, candidate);
      if (!is_member) {
        if (records.WasCompared(candidate, span_pages) || taken.contains(candidate)) continue;
        taken.insert(candidate);
      }
      name = candidate;
      break;
    }
    for (; first < end; ++first) named[groups[first].second] = name;
  }

  std::vector<Change> changes;
  for (std::size_t i = 0; i < pages.size();) {
    const TargetId target = pages.target[i];
    changes.clear();
    for (; i < pages.size() && pages.target[i] == target; ++i) {
      if (records.IsGrouped(i)) {
        if (!records.HasName(i) || records.NameOf(i) != *named[i])
          changes.push_back({records.RangeOf(i), named[i]});
      } else if (records.HasName(i) && records.NameOf(i) != pages.key(i) &&
                 records.WasCompared(i) && records.IsApart(i)) {
        changes.push_back({records.RangeOf(i), std::nullopt});
      }
    }
    if (changes.empty()) continue;
    std::vector<Run> changed = Changed(RunsOf(target), changes);
    if (changed.empty()) {
      runs_.erase(target);
    } else {
      runs_[target] = std::move(changed);
    }
  }
}

void ForkedPages::KeepWithin(TargetId target, std::span<const VpnRange> ranges) {
  const auto of_target = runs_.find(target);
  if (of_target == runs_.end()) return;
  std::vector<Run> kept;
  auto range = ranges.begin();
  for (const Run& run : of_target->second) {
    while (range != ranges.end() && range->end <= run.range.start) ++range;
    for (auto at = range; at != ranges.end() && at->start < run.range.end; ++at) {
      Push(kept, PartOf(run, at->start, at->end));
    }
  }
  if (kept.empty()) {
    runs_.erase(of_target);
  } else {
    of_target->second = std::move(kept);
  }
}

void ForkedPages::KeepOnly(std::span<const TargetId> targets) {
  std::erase_if(runs_, [targets](const auto& of_target) {
    return !std::ranges::binary_search(targets, of_target.first);
  });
}

}  // namespace tmprof
