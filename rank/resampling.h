// SPDX-License-Identifier: Apache-2.0
// Tells how far an estimate scatters, by estimating it again from evidence drawn with replacement.
// Only rank/ uses it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/page_key.h"
#include "rank/hit_rates.h"
#include "rank/rate_fit.h"

namespace tmprof {

// Fewer groups do not show how groups differ.
inline constexpr std::size_t kLeastGroups = 8;
inline constexpr std::uint64_t kBlockPages = 512;  // a scanner clears and reads these at once

// Pages whose evidence goes together are a group: blocks of 2 MiB, which a scanner clears at once
// and reads at once. A small program has smaller groups, so that there are enough to draw from.
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

// Estimates of several hit rates from one choice of evidence, each group weighing so many times.
using EstimateFromGroups = std::function<std::vector<double>(std::span<const double> times)>;

// Adds intervals to the values that `estimate` gives for all evidence.
std::vector<HitRate> WithIntervals(const EstimateFromGroups& estimate, std::size_t groups);

// Rates that the points of the grid stand for.
class RateColumns {
 public:
  explicit RateColumns(std::span<const double> grid) : columns_{{grid.begin(), grid.end()}} {}
  // `untold` are other rates, to the evidence that they are rates of.
  RateColumns(std::span<const double> grid, const UntoldRates& untold, std::vector<double> rates)
      : untold_(untold), columns_{{grid.begin(), grid.end()}, std::move(rates)} {}

  std::size_t size() const { return columns_.size(); }
  // Column 0 is the grid itself.
  std::size_t ColumnOf(const RateKind& kind) const { return untold_ && untold_->AreOf(kind); }
  const std::vector<double>& column(std::size_t column) const { return columns_[column]; }
  const std::vector<double>& Of(const RateKind& kind) const { return columns_[ColumnOf(kind)]; }

 private:
  std::optional<UntoldRates> untold_;
  std::vector<std::vector<double>> columns_;
};

// Estimates the hit rates from all evidence again, with other rates than the grid's.
using EstimateFromRates = std::function<std::vector<double>(const RateColumns& rates)>;

// Widens the intervals if untried pages may be faster than the first read can resolve: their rates
// may be anything from its limit to far above it.
void WidenByUntoldRates(const RateFit& fit, const EstimateFromRates& estimate,
                        std::vector<HitRate>& rates);

// Accesses to unknown pages, as parts of all accesses.
struct UnknownAccesses {
  double expected = 0;
  double deviation = 0;  // a standard deviation
};
// Widens `rate` for an independent error of the accesses to unknown pages. `may_be_hits`: these
// pages may be among those that tier 1 holds.
void WidenByUnknown(const UnknownAccesses& unknown, bool may_be_hits, HitRate& rate);

// Widens intervals so far as the hit rates may be `values` instead.
void WidenBy(std::span<const double> values, std::vector<HitRate>& rates);

}  // namespace tmprof
