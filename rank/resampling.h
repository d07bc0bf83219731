// SPDX-License-Identifier: Apache-2.0
// How far an estimate scatters, by estimating it again from evidence drawn with replacement. Of use
// within rank/ only.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "base/page_key.h"
#include "rank/hit_rates.h"
#include "rank/rate_fit.h"

namespace tmprof {

// With fewer groups there is nothing to learn from how they differ.
inline constexpr std::size_t kLeastGroups = 8;

// Groups of pages whose evidence goes together: blocks of 2 MiB, which a scanner clears at once and
// reads at once. A small program has smaller groups, so that there are enough to draw from.
class PageGroups {
 public:
  // `keys` ascend.
  explicit PageGroups(std::span<const PageKey> keys);

  std::size_t size() const { return size_; }
  // Parallel to the keys.
  const std::vector<std::uint32_t>& of_row() const { return of_row_; }

 private:
  std::vector<std::uint32_t> of_row_;
  std::size_t size_ = 0;
};

// How often each group is drawn, of as many draws as there are groups. The draws are the same in
// every run.
class GroupDraws {
 public:
  explicit GroupDraws(std::size_t groups) : times_(groups) {}
  const std::vector<double>& Next();

 private:
  std::mt19937_64 bits_{1};
  std::vector<double> times_;
};

// Estimates of several hit rates from one choice of evidence, each group weighing so many times.
using EstimateFromGroups = std::function<std::vector<double>(std::span<const double> times)>;

// Adds intervals to the values that `estimate` gives for all evidence.
std::vector<HitRate> WithIntervals(const EstimateFromGroups& estimate, std::size_t groups);

// Estimates the hit rates from all evidence again, each point of the grid standing for another
// rate.
using EstimateFromRates = std::function<std::vector<double>(std::span<const double> rates)>;

// Widens the intervals where rates above the first read's limit look alike, and no fast tries tell
// them apart: those may be anything from the limit to far above it.
void WidenByUntoldRates(const RateFit& fit, const EstimateFromRates& estimate,
                        std::vector<HitRate>& rates);

}  // namespace tmprof
