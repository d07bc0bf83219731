// SPDX-License-Identifier: Apache-2.0

#include "rank/hit_rate_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

#include "rank/rate_fit.h"
#include "rank/resampling.h"

namespace tmprof {
namespace {

// Chances of a change that differ by less are taken for equal.
constexpr int kChanceSteps = 16;

// Pages that are equally hot.
struct Heat {
  double accesses;  // of each page, up to a factor of all
  double pages;
};

// The share of all accesses that go to the hottest pages, for each capacity.
std::vector<double> SharesOfTheHottest(std::vector<Heat> heat,
                                       std::span<const PageCount> capacities) {
  std::ranges::sort(heat, std::greater(), &Heat::accesses);
  double all = 0;
  for (const Heat& each : heat) all += each.accesses * each.pages;
  std::vector<double> shares;
  for (const PageCount capacity : capacities) {
    double left = static_cast<double>(capacity.value());
    double hit = 0;
    for (const Heat& each : heat) {
      const double taken = std::min(left, each.pages);
      hit += taken * each.accesses;
      left -= taken;
      if (left <= 0) break;
    }
    shares.push_back(all > 0 ? hit / all : 0);
  }
  return shares;
}

class Curve {
 public:
  Curve(const RatedRows& rated, std::span<const PageCount> capacities)
      : capacities_(capacities),
        kinds_(rated.kinds),
        fit_(FitRates(rated.kinds, FoundAt::kBetweenReads)) {
    full_prior_ = fit_.mixture.prior();
    any_bits_ = std::ranges::any_of(kinds_, &RateKind::looked_at);
    SortIntoClasses(rated);
  }

  bool any_bits() const { return any_bits_; }

  // Of the oracle at each capacity, then attainable at each.
  std::vector<double> Estimate(const std::vector<std::uint32_t>& group_of_row,
                               std::span<const double> times) {
    Weigh(group_of_row, times);
    fit_.mixture.FitPrior(kinds_, any_bits_, full_prior_, Rare::kKept);
    return Read(fit_.mixture.rates());
  }

  // The same of all evidence, had the rates above those that bits can tell these values. Columns
  // over the grid of rates; the prior is that of the last estimate.
  // `untimed_rate`: of pages that were found accessed at no known time; nullopt: they are
  // distributed as the others.
  std::vector<double> Read(std::span<const double> rates,
                           std::optional<double> untimed_rate = std::nullopt) const {
    const std::size_t points = rates.size();
    std::vector<Heat> best;
    std::vector<Heat> ranked;
    std::vector<double> posterior(points);
    for (const Target& target : targets_) {
      std::vector<double> pages_at(points);
      double looked_at = 0;
      double all = 0;
      for (std::size_t c = target.first_class; c < target.end_class; ++c) {
        const Class& each = classes_[c];
        if (each.pages == 0) continue;
        if (each.found_untimed && untimed_rate) {
          best.push_back({target.cpu_seconds * *untimed_rate, each.pages});
          ranked.push_back({target.cpu_seconds * *untimed_rate, each.pages});
          continue;
        }
        all += each.pages;
        std::ranges::fill(posterior, 0.0);
        AddPosterior(each.kind, 1 - each.chance, posterior);
        if (each.chance > 0) AddPosterior(each.kind_since, each.chance, posterior);
        double mean = 0;
        for (std::size_t j = 0; j < points; ++j) mean += posterior[j] * rates[j];
        ranked.push_back({target.cpu_seconds * mean, each.pages});
        if (!kinds_[each.kind].looked_at()) continue;
        looked_at += each.pages;
        for (std::size_t j = 0; j < points; ++j) pages_at[j] += each.pages * posterior[j];
      }
      for (std::size_t j = 0; j < points; ++j) {
        const double pages =
            looked_at > 0 ? pages_at[j] * all / looked_at : fit_.mixture.prior()[j] * all;
        best.push_back({target.cpu_seconds * rates[j], pages});
      }
    }
    std::vector<double> result = SharesOfTheHottest(std::move(best), capacities_);
    const std::vector<double> attainable = SharesOfTheHottest(std::move(ranked), capacities_);
    result.insert(result.end(), attainable.begin(), attainable.end());
    return result;
  }

  const RateFit& fit() const { return fit_; }

 private:
  // Rows that are alike.
  struct Class {
    std::uint32_t kind;
    std::uint32_t kind_since;
    double chance;
    bool found_untimed;
    double rows = 0;
    double pages = 0;
  };
  struct Target {
    double cpu_seconds;
    std::size_t first_class;
    std::size_t end_class;
  };

  void SortIntoClasses(const RatedRows& rated) {
    std::unordered_map<std::uint64_t, std::uint32_t> class_of;
    const RatedRow* before = nullptr;
    for (const RatedRow& row : rated.rows) {
      if (before == nullptr || before->key.target != row.key.target) {
        class_of.clear();
        targets_.push_back({row.remembered_cpu_seconds, classes_.size(), classes_.size()});
      }
      before = &row;
      const auto steps = static_cast<std::uint64_t>(std::lround(row.chance * kChanceSteps));
      const std::uint64_t since = steps > 0 ? row.kind_since : 0;
      const std::uint64_t code =
          std::uint64_t{row.kind} << 36 | since << 8 | steps << 1 | (row.found_untimed ? 1 : 0);
      const auto [at, is_new] =
          class_of.try_emplace(code, static_cast<std::uint32_t>(classes_.size()));
      if (is_new) {
        classes_.push_back({.kind = row.kind,
                            .kind_since = static_cast<std::uint32_t>(since),
                            .chance = static_cast<double>(steps) / kChanceSteps,
                            .found_untimed = row.found_untimed});
        targets_.back().end_class = classes_.size();
      }
      rows_.push_back({at->second, row.pages});
    }
  }

  void Weigh(const std::vector<std::uint32_t>& group_of_row, std::span<const double> times) {
    for (Class& each : classes_) each.rows = each.pages = 0;
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      Class& each = classes_[rows_[row].of_class];
      const double weight = times[group_of_row[row]];
      each.rows += weight;
      each.pages += weight * rows_[row].pages;
    }
    for (RateKind& kind : kinds_) kind.pieces = 0;
    for (const Class& each : classes_) {
      kinds_[each.kind].pieces += each.rows;
      if (each.chance > 0) kinds_[each.kind_since].pieces += each.rows;
    }
  }

  void AddPosterior(std::uint32_t kind, double weight, std::vector<double>& sum) const {
    const std::span<const double> likelihood = fit_.mixture.Likelihood(kind);
    const std::vector<double>& prior = fit_.mixture.prior();
    const double scale = weight / fit_.mixture.Mass(kind);
    for (std::size_t j = 0; j < sum.size(); ++j) sum[j] += scale * prior[j] * likelihood[j];
  }

  struct Row {
    std::uint32_t of_class;
    std::uint32_t pages;
  };

  std::span<const PageCount> capacities_;
  std::vector<RateKind> kinds_;
  RateFit fit_;
  std::vector<double> full_prior_;
  bool any_bits_ = false;
  std::vector<Class> classes_;
  std::vector<Target> targets_;
  std::vector<Row> rows_;
};

}  // namespace

std::vector<HitRates> HitRatesOf(const RatedRows& rated, std::span<const PageCount> capacities) {
  std::vector<HitRates> result(capacities.size());
  PageCount pages;
  std::vector<PageKey> keys;
  for (const RatedRow& row : rated.rows) {
    pages += PageCount(row.pages);
    keys.push_back(row.key);
  }
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    result[i] = {.capacity = capacities[i], .pages = pages};
  }
  if (rated.rows.empty()) return result;
  Curve curve(rated, capacities);
  if (!curve.any_bits()) return result;

  const PageGroups groups(keys);
  std::vector<HitRate> rates = WithIntervals(
      [&](std::span<const double> times) { return curve.Estimate(groups.of_row(), times); },
      groups.size());
  curve.Estimate(groups.of_row(), std::vector<double>(groups.size(), 1.0));
  WidenByUntoldRates(
      curve.fit(), [&](std::span<const double> column) { return curve.Read(column); }, rates);
  // Pages whose reads came late may be the fastest of all.
  const std::vector<double>& grid = curve.fit().mixture.rates();
  const std::vector<double> had_they_been_fast =
      curve.Read(grid, curve.fit().untold_from.value_or(grid.back()));
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double apart = had_they_been_fast[i] - rates[i].value;
    rates[i].low = std::max(0.0, rates[i].low + std::min(0.0, apart));
    rates[i].high = std::min(1.0, rates[i].high + std::max(0.0, apart));
  }
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    result[i].oracle = rates[i];
    result[i].attainable = rates[capacities.size() + i];
  }
  return result;
}

}  // namespace tmprof
