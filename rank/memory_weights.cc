// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_weights.h"

#include <cmath>
#include <limits>
#include <vector>

namespace tmprof {
namespace {

double SamplesOf(const std::vector<SampledPages>& seen) {
  double samples = 0;
  for (const SampledPages& each : seen) samples += each.samples;
  return samples;
}

double RateOf(const TargetTime& time, double pages, double accesses) {
  return time.cpu_seconds > 0 ? accesses / (pages * time.cpu_seconds) : 0;
}

SampledPages Seen(const EvidenceTable& table, std::size_t row, const TargetTime& time,
                  double accesses) {
  const auto pages = static_cast<double>(table.span_pages[row]);
  return {.rate = RateOf(time, pages, accesses),
          .pages = pages,
          .seconds = time.watched_seconds,
          .samples = table.evidence[row].samples()};
}

}  // namespace

// Rows without a score tell nothing of a rate: no bit of them was read, or another row has the
// page.
MemoryWeights::MemoryWeights(const EvidenceTable& table, const TargetTimes& times,
                             const Scores& accesses)
    : table_(table), times_(times), accesses_(accesses) {
  std::vector<SampledPages> of_all;
  std::vector<SampledPages> of_target;
  for (std::size_t row = 0; row < table.size();) {
    const TargetId target = table.key[row].target;
    const TargetTime time = times.Of(target);
    of_target.clear();
    for (; row < table.size() && table.key[row].target == target; ++row) {
      if (accesses[row] <= 0) continue;
      of_target.push_back(Seen(table, row, time, accesses[row]));
    }
    // A target that did not run in the last epoch has no known rates.
    if (time.cpu_seconds <= 0 || time.watched_seconds <= 0) continue;
    if (SamplesOf(of_target) >= MemoryWorth::kFewestSamples)
      of_target_.try_emplace(target, of_target);
    of_all.insert(of_all.end(), of_target.begin(), of_target.end());
  }
  if (SamplesOf(of_all) >= MemoryWorth::kFewestSamples) all_.emplace(of_all);
}

const MemoryWorth& MemoryWeights::WorthOf(TargetId target) const {
  const auto found = of_target_.find(target);
  return found == of_target_.end() ? *all_ : found->second;
}

MemoryWeights::Weight MemoryWeights::OfRow(std::size_t row) const {
  const PageKey key = table_.key[row];
  const TargetTime time = times_.Of(key.target);
  if (accesses_[row] <= 0 || time.cpu_seconds <= 0)
    return {.score = 0, .relative_sd = std::numeric_limits<double>::infinity()};
  const SampledPages seen = Seen(table_, row, time, accesses_[row]);
  const MemoryWorth::Moments moments = WorthOf(key.target).OfPages(seen);
  return {.score = seen.pages * time.cpu_seconds * moments.mean,
          .relative_sd = std::sqrt(moments.variance) / moments.mean};
}

double MemoryWeights::OfPages(TargetId target, double pages, double accesses) const {
  const TargetTime time = times_.Of(target);
  return pages * time.cpu_seconds * WorthOf(target).OfRate(RateOf(time, pages, accesses));
}

}  // namespace tmprof
