// SPDX-License-Identifier: Apache-2.0

#include "rank/resampling.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace tmprof {
namespace {

// Blocks are cut until there are so many groups.
constexpr std::size_t kEnoughGroups = 16;
// Enough to know a standard deviation to an eighth.
constexpr int kDraws = 32;
// The model errs itself: times are known to a quarter of an octave, and rates to a step of the
// grid. docs/design/hit-rates.md has the error.
constexpr double kModelError = 0.02;
// A rate that no bit shows may be so many times what it is taken for. This is a choice: nothing was
// measured.
constexpr double kBeyondLimit = 16;
// Rates that all fast tries find, and rates above this one, may be so many times what they are
// taken for. On recorded programs tries at 4 us found a quarter of what they should
// (docs/design/recording.md).
constexpr double kBelievedOfTries = 40'000;
constexpr double kBeyondFastLimit = 4;

// Draws as many groups as there are, with replacement, and returns how often each was drawn. The
// draws are the same in every run.
class GroupDraws {
 public:
  explicit GroupDraws(std::size_t groups) : times_(groups) {}
  const std::vector<double>& Next() {
    std::ranges::fill(times_, 0.0);
    for (std::size_t draw = 0; draw < times_.size(); ++draw) times_[bits_() % times_.size()] += 1;
    return times_;
  }

 private:
  std::mt19937_64 bits_{1};
  std::vector<double> times_;
};

}  // namespace

PageGroups::PageGroups(std::span<const PageKey> keys) : of_row_(keys.size()) {
  for (std::uint64_t pages = kBlockPages; pages > 0; pages /= 2) {
    size_ = 0;
    for (std::size_t row = 0; row < keys.size(); ++row) {
      const bool is_new = row == 0 || keys[row].target != keys[row - 1].target ||
                          keys[row].vpn.value() / pages != keys[row - 1].vpn.value() / pages;
      size_ += is_new;
      of_row_[row] = static_cast<std::uint32_t>(size_ - 1);
    }
    if (size_ >= kEnoughGroups) break;
  }
}

std::vector<HitRate> WithIntervals(const EstimateFromGroups& estimate, std::size_t groups) {
  std::vector<HitRate> rates;
  for (const double value : estimate(std::vector<double>(groups, 1.0))) {
    rates.push_back({.value = value});
  }
  if (groups < kLeastGroups) return rates;
  std::vector<double> squares(rates.size(), 0.0);
  GroupDraws draws(groups);
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::vector<double> drawn = estimate(draws.Next());
    for (std::size_t i = 0; i < rates.size(); ++i) {
      squares[i] += (drawn[i] - rates[i].value) * (drawn[i] - rates[i].value);
    }
  }
  const double of_groups = static_cast<double>(groups);
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double sd = std::sqrt(squares[i] / kDraws * of_groups / (of_groups - 1));
    rates[i].low = std::max(0.0, rates[i].value - kDeviationsOf90 * sd - kModelError);
    rates[i].high = std::min(1.0, rates[i].value + kDeviationsOf90 * sd + kModelError);
  }
  return rates;
}

void WidenByUnknown(const UnknownAccesses& unknown, bool may_be_hits, HitRate& rate) {
  const double more = kDeviationsOf90 * unknown.deviation;
  const double fewer = std::min({more, unknown.expected, 1 - 1e-9});
  const double low = rate.value / (1 + more);
  double high = rate.value / (1 - fewer);
  if (may_be_hits) high = std::max(high, (rate.value + more) / (1 + more));
  rate.low = std::max(0.0, rate.value - std::hypot(rate.value - rate.low, rate.value - low));
  rate.high = std::min(1.0, rate.value + std::hypot(rate.high - rate.value, high - rate.value));
}

void WidenBy(std::span<const double> values, std::vector<HitRate>& rates) {
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double apart = values[i] - rates[i].value;
    rates[i].low = std::max(0.0, rates[i].low + std::min(0.0, apart));
    rates[i].high = std::min(1.0, rates[i].high + std::max(0.0, apart));
  }
}

void WidenByUntoldRates(const RateFit& fit, const EstimateFromRates& estimate,
                        std::vector<HitRate>& rates) {
  const std::vector<double>& grid = fit.mixture.rates();
  const double limit =
      fit.fast_limit > 0 ? std::min(fit.fast_limit, kBelievedOfTries) : kBelievedOfTries;
  if (fit.fast_limit > 0 || fit.fastest_believed >= kBelievedOfTries) {
    std::vector<double> fastest;
    for (const double rate : grid) fastest.push_back(rate * (rate >= limit ? kBeyondFastLimit : 1));
    WidenBy(estimate(RateColumns(fastest)), rates);
  }
  for (const UntoldRates& untold : fit.untold) {
    std::vector<double> slowest;
    std::vector<double> fastest;
    for (const double rate : grid) {
      slowest.push_back(std::min(rate, untold.limit));
      fastest.push_back(rate * (rate >= untold.from ? kBeyondLimit : 1));
    }
    WidenBy(estimate(RateColumns(grid, untold, std::move(slowest))), rates);
    WidenBy(estimate(RateColumns(grid, untold, std::move(fastest))), rates);
  }
}

}  // namespace tmprof
