// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_weights.h"

#include <cmath>
#include <cstddef>
#include <limits>
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
  std::vector<SampledPages>* of_target = nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MemoryRow& row = rows[i];
    if (i == 0 || row.target != rows[i - 1].target) of_target = &by_target[row.target];
    // Nobody could sample a target that did not run while a sampler was on.
    if (row.looked_at && row.seen.seconds > 0) of_target->push_back(row.seen);
  }
  std::erase_if(by_target, [](const auto& each) { return each.second.empty(); });
  Sums all;
  for (const auto& [target, seen] : by_target) {
    const Sums sums = SumsOf(seen);
    all.samples += sums.samples;
    all.accesses += sums.accesses;
    if (sums.samples >= MemoryWorth::kFewestSamples) of_target_.try_emplace(target, seen);
  }
  is_told_ = all.samples >= MemoryWorth::kFewestSamples;
  if (!is_told_) {
    // Half a sample more keeps the order of pages where none was taken.
    const double per_access = all.accesses > 0 ? (all.samples + 0.5) / all.accesses : 1;
    all_ = MemoryWorth::InProportion(per_access);
  } else if (by_target.size() == 1) {
    all_ = of_target_.begin()->second;
  } else {
    std::vector<SampledPages> of_all;
    for (const auto& [target, seen] : by_target)
      of_all.insert(of_all.end(), seen.begin(), seen.end());
    all_.emplace(of_all);
  }
}

const MemoryWorth& MemoryWeights::WorthOf(TargetId target) const {
  const auto found = of_target_.find(target);
  return found == of_target_.end() ? *all_ : found->second;
}

MemoryWeights::Weight MemoryWeights::Of(const MemoryRow& row) const {
  const MemoryWorth::Moments moments = WorthOf(row.target).OfPages(row.seen);
  return {.mean = moments.mean,
          .relative_sd = moments.mean > 0 ? std::sqrt(moments.variance) / moments.mean
                                          : std::numeric_limits<double>::infinity()};
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
