// SPDX-License-Identifier: Apache-2.0

#include "policy/replay/footprint.h"

#include <algorithm>
#include <utility>

namespace tmprof {
namespace {

bool Observed(const PageColumns& pages, std::size_t i) {
  const bool accessed =
      pages.accesses && (pages.accesses->loads[i] | pages.accesses->stores[i]) != 0;
  return accessed || (pages.references[i] | pages.load_samples[i] | pages.store_samples[i]) != 0;
}

}  // namespace

void Footprint::Add(const PageColumns& pages) {
  Walk walk(*this);
  bool is_new = false;
  for (std::size_t i = 0; i < pages.size() && !is_new; ++i) {
    is_new = Observed(pages, i) && !walk.IndexOf(pages.key(i), pages.span_pages[i]);
  }
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
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if (!Observed(pages, i)) continue;
    const std::uint64_t start = pages.vpn[i].value();
    const Run run{pages.target[i], start, start + pages.span_pages[i], 0};
    while (old != runs_.end() &&
           std::pair(old->target, old->start) <= std::pair(run.target, run.start)) {
      append(*old++);
    }
    append(run);
  }
  while (old != runs_.end()) append(*old++);

  std::uint64_t index = 0;
  for (Run& run : merged) {
    run.first_index = index;
    index += run.end - run.start;
  }
  size_ = PageCount(index);
  runs_ = std::move(merged);
}

FootprintScan ScanFootprint(EpochStream& trace) {
  FootprintScan scan;
  scan.end = ReadToEnd(trace, [&](const EpochProfile& epoch) {
    scan.footprint.Add(epoch.pages);
    scan.known.Look(epoch);
    ++scan.epochs;
  });
  return scan;
}

}  // namespace tmprof
