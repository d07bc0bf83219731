// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_weights.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
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

// A target may have a million rows. Rates, and times in which pages could be sampled, that differ
// by less than this part of an octave are taken for one.
constexpr int kStepsPerOctaveApart = 32;

double Rounded(double value) {
  if (value <= 0) return 0;
  return std::exp2(std::round(kStepsPerOctaveApart * std::log2(value)) / kStepsPerOctaveApart);
}

// Rows without samples that are alike become one. Those with samples have rounded rates, too: a
// rate of their own would put them into another class than those without.
class SeenOfTarget {
 public:
  void Add(SampledPages seen) {
    seen.rate = Rounded(seen.rate);
    if (seen.samples > 0) {
      sampled_.push_back(seen);
      return;
    }
    seen.seconds = Rounded(seen.seconds);
    SampledPages alike = seen;
    alike.times = 0;
    const auto key = std::tuple(seen.rate, seen.seconds, seen.pages);
    unsampled_.try_emplace(key, alike).first->second.times += seen.times;
  }
  bool empty() const { return sampled_.empty() && unsampled_.empty(); }
  std::vector<SampledPages> Take() && {
    for (const auto& [key, alike] : unsampled_) sampled_.push_back(alike);
    return std::move(sampled_);
  }

 private:
  std::vector<SampledPages> sampled_;
  std::map<std::tuple<double, double, double>, SampledPages> unsampled_;
};

}  // namespace

MemoryWeights::MemoryWeights(std::span<const MemoryRow> rows, double units_per_sample)
    : units_per_sample_(units_per_sample) {
  std::map<TargetId, SeenOfTarget> rows_by_target;
  SeenOfTarget* of_target = nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MemoryRow& row = rows[i];
    if (i == 0 || row.target != rows[i - 1].target) of_target = &rows_by_target[row.target];
    // Nobody could sample a target that did not run while a sampler was on.
    if (row.looked_at && row.seen.seconds > 0) of_target->Add(row.seen);
  }
  std::map<TargetId, std::vector<SampledPages>> by_target;
  for (auto& [target, seen] : rows_by_target)
    if (!seen.empty()) by_target.emplace(target, std::move(seen).Take());
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
    const double per_access =
        all.accesses > 0 ? (all.samples + 0.5) / all.accesses : 1 / units_per_sample;
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
  return {.mean = units_per_sample_ * moments.mean,
          .relative_sd = moments.mean > 0 ? std::sqrt(moments.variance) / moments.mean
                                          : std::numeric_limits<double>::infinity()};
}

MemoryWeights MemoryWeights::Draw(std::mt19937_64& random) const {
  MemoryWeights drawn;
  drawn.units_per_sample_ = units_per_sample_;
  drawn.is_told_ = true;
  for (const auto& [target, worth] : of_target_)
    drawn.of_target_.emplace(target, worth.Draw(random));
  drawn.all_ = all_->Draw(random);
  return drawn;
}

}  // namespace tmprof
