// SPDX-License-Identifier: Apache-2.0

#include "profiler/sources/exact/truth_frames.h"

#include <utility>

namespace tmprof::exact {

TruthEpoch ByFrame(TruthEpoch epoch) {
  const TruthTarget memory{.number = 0, .name = "memory", .command = "physical memory"};
  std::vector<TruthPage> pages;
  pages.reserve(epoch.pages.size());
  for (TruthPage& page : epoch.pages) {
    if (page.frame) {
      page.target = memory.number;
      page.vpn = Vpn(page.frame->value());
      pages.push_back(page);
    } else {
      epoch.lost_accesses += page.counts.loads + page.counts.stores;
    }
  }
  epoch.pages = std::move(pages);
  epoch.targets = {memory};
  return epoch;
}

}  // namespace tmprof::exact
