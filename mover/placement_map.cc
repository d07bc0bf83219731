// SPDX-License-Identifier: Apache-2.0

#include "mover/placement_map.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tmprof {

void Append(std::vector<PlacedRun>& runs, const PlacedRun& run) {
  if (!runs.empty() && runs.back().pages.end == run.pages.start && runs.back().IsLike(run)) {
    runs.back().pages.end = run.pages.end;
  } else {
    runs.push_back(run);
  }
}

void Append(std::vector<Renamed>& all, const Renamed& renamed) {
  const auto behind = [](PageKey key, PageCount pages) {
    return PageKey{key.target, key.vpn + pages};
  };
  if (!all.empty() && behind(all.back().from, all.back().pages) == renamed.from && all.back().to &&
      renamed.to == behind(*all.back().to, all.back().pages)) {
    all.back().pages += renamed.pages;
  } else {
    all.push_back(renamed);
  }
}

// Afterwards no run begins before `at` and ends behind it.
void PlacementMap::Cut(Runs& runs, Vpn at) {
  auto next = runs.lower_bound(at);
  if (next == runs.begin()) return;
  PlacedRun& before = std::prev(next)->second;
  if (before.pages.end <= at) return;
  PlacedRun rest = before;
  rest.pages.start = at;
  before.pages.end = at;
  runs.emplace_hint(next, at, rest);
}

void PlacementMap::JoinAt(Runs& runs, Vpn at) {
  const auto next = runs.find(at);
  if (next == runs.end() || next == runs.begin()) return;
  PlacedRun& before = std::prev(next)->second;
  const PlacedRun& after = next->second;
  if (before.pages.end != at || !before.IsLike(after)) return;
  before.pages.end = after.pages.end;
  runs.erase(next);
}

void PlacementMap::Learn(TargetId target, VpnRange range, std::span<const PlacedRun> runs) {
  Runs& known = targets_[target];
  Cut(known, range.start);
  Cut(known, range.end);
  auto place = known.erase(known.lower_bound(range.start), known.lower_bound(range.end));
  for (const PlacedRun& run : runs) {
    place = std::next(known.emplace_hint(place, run.pages.start, run));
    JoinAt(known, run.pages.start);
  }
  JoinAt(known, range.end);
  if (known.empty()) targets_.erase(target);
}

void PlacementMap::KeepOnly(TargetId target, std::span<const VpnRange> mapped) {
  const auto found = targets_.find(target);
  if (found == targets_.end()) return;
  Runs& runs = found->second;
  Vpn gap_start{0};
  const auto erase_until = [&](Vpn end) {
    Cut(runs, gap_start);
    Cut(runs, end);
    runs.erase(runs.lower_bound(gap_start), runs.lower_bound(end));
  };
  for (const VpnRange& range : mapped) {
    erase_until(range.start);
    gap_start = range.end;
  }
  Cut(runs, gap_start);
  runs.erase(runs.lower_bound(gap_start), runs.end());
  if (runs.empty()) targets_.erase(found);
}

void PlacementMap::Forget(TargetId target) { targets_.erase(target); }

void PlacementMap::Rename(std::span<const Renamed> pages) {
  std::vector<std::pair<TargetId, PlacedRun>> renamed;
  for (const auto& [from, to, count] : pages) {
    if (to == from) continue;
    VpnRange old{from.vpn, from.vpn + count};
    for (PlacedRun run : Within(from.target, old)) {
      const std::uint64_t leaf = run.leaf.value();
      // A leaf that is cut is forgotten whole.
      old.start = std::min(old.start, Vpn(run.pages.start.value() / leaf * leaf));
      old.end = std::max(old.end, Vpn((run.pages.end.value() + leaf - 1) / leaf * leaf));
      if (!to) continue;
      const auto renumber = [&](Vpn vpn) { return to->vpn + (vpn - from.vpn); };
      run.pages = {renumber(run.pages.start), renumber(run.pages.end)};
      if (run.pages.start.value() % leaf != 0 || run.pages.size().value() % leaf != 0) continue;
      renamed.emplace_back(to->target, run);
    }
    Learn(from.target, old, {});
  }
  for (const auto& [target, run] : renamed) Learn(target, run.pages, std::span(&run, 1));
}

std::optional<PlacedRun> PlacementMap::Find(PageKey key) const {
  const Runs& runs = RunsOf(key.target);
  const auto next = runs.upper_bound(key.vpn);
  if (next == runs.begin()) return std::nullopt;
  const PlacedRun& run = std::prev(next)->second;
  if (!run.pages.Contains(key.vpn)) return std::nullopt;
  return run;
}

PageCount PlacementMap::PagesIn(TargetId target, const Tiers& tiers, Tier tier) const {
  PageCount pages;
  for (const auto& [start, run] : RunsOf(target)) {
    if (tiers.TierOf(run.node) == tier) pages += run.pages.size();
  }
  return pages;
}

const PlacementMap::Runs& PlacementMap::RunsOf(TargetId target) const {
  static const Runs kNone;
  const auto found = targets_.find(target);
  return found == targets_.end() ? kNone : found->second;
}

std::vector<PlacedRun> PlacementMap::Within(TargetId target, VpnRange range) const {
  const Runs& runs = RunsOf(target);
  std::vector<PlacedRun> within;
  auto next = runs.upper_bound(range.start);
  if (next != runs.begin()) --next;
  for (; next != runs.end() && next->first < range.end; ++next) {
    PlacedRun run = next->second;
    run.pages = {std::max(run.pages.start, range.start), std::min(run.pages.end, range.end)};
    if (run.pages.start < run.pages.end) within.push_back(run);
  }
  return within;
}

std::size_t PlacementMap::runs() const {
  std::size_t runs = 0;
  for (const auto& [target, of_target] : targets_) runs += of_target.size();
  return runs;
}

}  // namespace tmprof
