// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_weights.h"

#include <cmath>
#include <cstddef>
#include <vector>

namespace tmprof {
namespace {

struct Sums {
  double samples = 0;
  double accesses = 0;  // while they could be sampled
};

Sums SumsOf(std::span<const SampledPages> seen) {
  Sums sums;
  for (const SampledPages& each : seen) {
    sums.samples += each.times * each.samples;
    sums.accesses += each.times * each.pages * each.seconds * each.rate;
  }
  return sums;
}

}  // namespace

MemoryWeights::MemoryWeights(std::span<const MemoryRow> rows) {
  std::map<TargetId, std::vector<SampledPages>> by_target;
  for (const MemoryRow& row : rows) {
    // Nobody could sample a target that did not run while a sampler was on.
    if (row.looked_at && row.seen.seconds > 0) by_target[row.target].push_back(row.seen);
  }
  std::vector<SampledPages> of_all;
  for (const auto& [target, seen] : by_target) {
    if (SumsOf(seen).samples >= MemoryWorth::kFewestSamples) of_target_.try_emplace(target, seen);
    of_all.insert(of_all.end(), seen.begin(), seen.end());
  }
  const Sums sums = SumsOf(of_all);
  is_told_ = sums.samples >= MemoryWorth::kFewestSamples;
  if (is_told_) {
    all_.emplace(of_all);
  } else {
    // Half a sample more keeps the order of pages where none was taken.
    const double per_access = sums.accesses > 0 ? (sums.samples + 0.5) / sums.accesses : 1;
    all_ = MemoryWorth::InProportion(per_access);
  }
}

const MemoryWorth& MemoryWeights::WorthOf(TargetId target) const {
  const auto found = of_target_.find(target);
  return found == of_target_.end() ? *all_ : found->second;
}

MemoryWeights::Weight MemoryWeights::Of(const MemoryRow& row) const {
  const MemoryWorth::Moments moments = WorthOf(row.target).OfPages(row.seen);
  return {.mean = moments.mean, .relative_sd = std::sqrt(moments.variance) / moments.mean};
}

MemoryWeights MemoryWeights::Draw(std::mt19937_64& random) const {
  MemoryWeights drawn;
  drawn.is_told_ = true;
  for (const auto& [target, worth] : of_target_)
    drawn.of_target_.emplace(target, worth.Draw(random));
  drawn.all_ = all_->Draw(random);
  return drawn;
}

}  // namespace tmprof
