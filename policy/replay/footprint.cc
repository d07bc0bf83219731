// SPDX-License-Identifier: Apache-2.0

#include "policy/replay/footprint.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tmprof {

void Footprint::Add(const PageColumns& pages, const SharedPages& shared) {
  // Names of shared pages do not ascend with the records.
  std::vector<std::pair<PageKey, std::uint32_t>> named;
  if (!shared.empty()) {
    for (std::size_t i = 0; i < pages.size(); ++i) {
      const PageCount span(pages.span_pages[i]);
      if (pages.WasSeenAccessed(i))
        named.emplace_back(SharedPages::LastingName(shared.NameOf(pages.key(i), span)),
                           span.value());
    }
    std::ranges::sort(named);
  }
  const auto for_each_span = [&](auto visit) {
    if (!shared.empty()) {
      for (const auto& [key, span] : named) visit(key, span);
      return;
    }
    for (std::size_t i = 0; i < pages.size(); ++i) {
      if (pages.WasSeenAccessed(i)) visit(pages.key(i), pages.span_pages[i]);
    }
  };

  Walk walk(*this);
  bool is_new = false;
  for_each_span(
      [&](PageKey key, std::uint32_t span) { is_new = is_new || !walk.IndexOf(key, span); });
  if (!is_new) return;

  std::vector<Run> merged;
  merged.reserve(runs_.size() + 16);
  const auto append = [&merged](const Run& run) {
    if (!merged.empty() && merged.back().target == run.target && run.start <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, run.end);
    } else {
      merged.push_back(run);
    }
  };
  auto old = runs_.begin();
  for_each_span([&](PageKey key, std::uint32_t span) {
    const std::uint64_t start = key.vpn.value();
    const Run run{key.target, start, start + span, 0};
    while (old != runs_.end() &&
           std::pair(old->target, old->start) <= std::pair(run.target, run.start)) {
      append(*old++);
    }
    append(run);
  });
  while (old != runs_.end()) append(*old++);

  std::uint64_t index = 0;
  for (Run& run : merged) {
    run.first_index = index;
    index += run.end - run.start;
  }
  size_ = PageCount(index);
  runs_ = std::move(merged);
}

std::optional<std::uint64_t> Footprint::IndexOf(PageKey key, std::uint64_t span_pages) const {
  const std::uint64_t start = key.vpn.value();
  const auto after =
      std::ranges::upper_bound(runs_, std::pair(key.target, start), {},
                               [](const Run& run) { return std::pair(run.target, run.start); });
  if (after == runs_.begin()) return std::nullopt;
  const Run& run = *std::prev(after);
  if (run.target != key.target || run.end < start + span_pages) return std::nullopt;
  return run.first_index + (start - run.start);
}

FootprintScan ScanFootprint(EpochStream& trace, bool models_cache) {
  FootprintScan scan{.known = KnownEvidence(models_cache)};
  SharedPages shared;
  scan.end = ReadToEnd(trace, [&](const EpochProfile& epoch) {
    shared.AddEpoch(epoch);
    scan.footprint.Add(epoch.pages, shared);
    scan.known.Look(epoch);
    scan.traffic.Look(epoch);
    scan.resident = std::max(scan.resident, ResidentPages(epoch));
    const PageColumns& pages = epoch.pages;
    for (std::size_t row = 0; row < pages.size(); ++row) {
      scan.references += pages.references[row];
      scan.samples += std::uint64_t{pages.load_samples[row]} + pages.store_samples[row];
    }
    ++scan.epochs;
  });
  return scan;
}

}  // namespace tmprof
