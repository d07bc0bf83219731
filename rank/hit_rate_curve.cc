// SPDX-License-Identifier: Apache-2.0

#include "rank/hit_rate_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "rank/best_shares.h"
#include "rank/rate_fit.h"
#include "rank/resampling.h"

namespace tmprof {
namespace {

// Probabilities of a change that differ by less are taken as equal.
constexpr int kChanceSteps = 16;

class Curve {
 public:
  Curve(const RatedRows& rated, std::span<const PageCount> capacities)
      : capacities_(capacities), kinds_(rated.kinds), fit_(FitRates(rated.kinds)) {
    full_prior_ = fit_.mixture.prior();
    SortIntoClasses(rated);
    AddUnknown(rated);
  }

  // Returns the oracle's hit rate at each capacity, then the attainable one at each.
  std::vector<double> Estimate(const std::vector<std::uint32_t>& group_of_row,
                               std::span<const double> times) {
    Weigh(group_of_row, times);
    fit_.mixture.FitPrior(kinds_, /*looked_at_only=*/true, full_prior_, Rare::kKept);
    return Read(RateColumns(fit_.mixture.rates()));
  }

  // Returns these hit rates under the prior of the last estimate, if the points of the grid stand
  // for `rates`. Pages are ranked by the grid's own rates and `ranking_prior`; null: the prior of
  // the last estimate. `untimed_rate` is the rate of pages that were found accessed at no known
  // time; nullopt: they are distributed as the others.
  std::vector<double> Read(const RateColumns& rates,
                           std::optional<double> untimed_rate = std::nullopt,
                           const std::vector<double>* ranking_prior = nullptr) const {
    const std::vector<double>& grid = fit_.mixture.rates();
    const std::size_t points = grid.size();
    std::vector<Heat> best;
    std::vector<Heat> ranked;
    std::vector<Heat> seen;  // the pages that were looked at
    std::vector<double> posterior(points);
    for (const Target& target : targets_) {
      std::vector<std::vector<double>> pages_at(rates.size(), std::vector<double>(points));
      double looked_at = 0;
      double all = 0;
      for (std::size_t c = target.first_class; c < target.end_class; ++c) {
        const Class& each = classes_[c];
        if (each.pages == 0) continue;
        const bool is_looked_at = kinds_[each.kind].looked_at();
        double estimate = 0;  // estimated rate; orders the ranking
        double mean = 0;      // mean rate, if the grid stands for `rates`
        const auto add = [&](std::uint32_t kind, double chance) {
          if (ranking_prior != nullptr) estimate += chance * MeanRate(kind, *ranking_prior);
          std::ranges::fill(posterior, 0.0);
          AddPosterior(kind, chance, posterior);
          const std::size_t column = rates.ColumnOf(kinds_[kind]);
          for (std::size_t j = 0; j < points; ++j) {
            if (ranking_prior == nullptr) estimate += posterior[j] * grid[j];
            mean += posterior[j] * rates.column(column)[j];
            if (is_looked_at) pages_at[column][j] += each.pages * posterior[j];
          }
        };
        add(each.kind, 1 - each.chance);
        if (each.chance > 0) add(each.kind_since, each.chance);
        const double score = target.score_seconds * estimate;
        if (each.found_untimed && untimed_rate) {
          const double accesses = target.cpu_seconds * *untimed_rate;
          best.push_back({accesses, accesses, each.pages});
          ranked.push_back({score, accesses, each.pages});
          continue;
        }
        ranked.push_back({score, target.cpu_seconds * mean, each.pages});
        all += each.pages;
        looked_at += is_looked_at ? each.pages : 0;
      }
      if (looked_at <= 0) pages_at.front() = fit_.mixture.prior();
      const double each = looked_at > 0 ? 1 / looked_at : 1;
      double mean = 0;  // accesses of a page
      for (std::size_t column = 0; column < pages_at.size(); ++column) {
        for (std::size_t j = 0; j < points; ++j) {
          const double accesses = target.cpu_seconds * rates.column(column)[j];
          const double part = each * pages_at[column][j];
          mean += part * accesses;
          best.push_back({accesses, accesses, (all + target.unknown_pages) * part});
          if (unknown_as_all_ > 0) seen.push_back({0, accesses, looked_at * part});
        }
      }
      ranked.push_back({0, mean, target.unknown_pages});
    }
    double pages_seen = 0;
    for (const Heat& each : seen) pages_seen += each.pages;
    for (Heat& each : seen) {
      if (pages_seen <= 0) break;
      each.pages *= unknown_as_all_ / pages_seen;
      ranked.push_back(each);
      best.push_back({each.accesses, each.accesses, each.pages});
    }
    std::vector<double> result = SharesOfTheBest(std::move(best), capacities_);
    const std::vector<double> attainable = SharesOfTheBest(std::move(ranked), capacities_);
    result.insert(result.end(), attainable.begin(), attainable.end());
    return result;
  }

  // Returns the hit rates if as many pages are as fast as the evidence leaves possible. The ranking
  // stays, because nobody knows which pages they are.
  std::vector<double> ReadTowardsTheFastest() {
    std::vector<double> towards = fit_.mixture.rates();
    for (double& rate : towards) rate /= fit_.mixture.rates().back();
    std::vector<double> prior = fit_.mixture.PriorTowards(kinds_, /*looked_at_only=*/true, towards);
    fit_.mixture.SwapPrior(prior);
    std::vector<double> rates = Read(RateColumns(fit_.mixture.rates()), std::nullopt, &prior);
    fit_.mixture.SwapPrior(prior);
    return rates;
  }

  // Returns the accesses that the unknown pages may have. Blocks of memory differ among themselves,
  // and the unknown ones are others than those that were looked at. Rows have the keys.
  // Precondition: all groups have equal weights in the last estimate.
  struct Unknown {
    UnknownAccesses all;
    // The part for targets of which too few blocks were looked at to know how blocks differ.
    UnknownAccesses unlike;
  };
  Unknown AccessesToUnknown(std::span<const PageKey> keys) const {
    const std::vector<double>& rates = fit_.mixture.rates();
    const std::vector<double>& prior = fit_.mixture.prior();
    const double of_prior = std::inner_product(prior.begin(), prior.end(), rates.begin(), 0.0);
    const std::vector<double> mean_of_class = MeansOfClasses();
    double accesses = 0;
    Unknown unknown;  // not yet as parts, and with variances
    const auto add = [&](const LookedAt& seen, double pages, double mean) {
      accesses += pages * mean;
      for (UnknownAccesses* sum : {&unknown.all, &unknown.unlike}) {
        if (sum == &unknown.unlike && seen.blocks.size() >= 2) continue;
        sum->expected += pages * mean;
        sum->deviation += seen.VarianceOf(pages, mean);
      }
    };
    LookedAt all;
    std::size_t row = 0;
    for (const Target& target : targets_) {
      LookedAt own;
      double sampled = 0;
      std::optional<std::uint64_t> block;
      for (; row < rows_.size() && rows_[row].of_class < target.end_class; ++row) {
        const Class& each = classes_[rows_[row].of_class];
        if (!kinds_[each.kind].looked_at()) {
          sampled += rows_[row].pages;
          continue;
        }
        const double count = rows_[row].pages;
        const Pages pages{count, count * target.cpu_seconds * mean_of_class[rows_[row].of_class]};
        const std::uint64_t at = keys[row].vpn.value() / kBlockPages;
        const bool is_new = std::exchange(block, at) != at;
        own.Add(pages, is_new);
        all.Add(pages, is_new);
      }
      const double mean = own.sum.pages > 0 ? own.mean() : target.cpu_seconds * of_prior;
      accesses += own.sum.accesses + sampled * mean;
      add(own, target.unknown_pages, mean);
    }
    add(all, unknown_as_all_, all.mean());
    if (accesses <= 0) return {};
    for (UnknownAccesses* sum : {&unknown.all, &unknown.unlike})
      *sum = {sum->expected / accesses, std::sqrt(sum->deviation) / accesses};
    return unknown;
  }

  const RateFit& fit() const { return fit_; }

 private:
  struct Pages {
    double pages = 0;
    double accesses = 0;

    void operator+=(const Pages& more) {
      pages += more.pages;
      accesses += more.accesses;
    }
  };
  struct LookedAt {
    std::vector<Pages> blocks;
    Pages sum;

    void Add(const Pages& pages, bool is_new_block) {
      if (is_new_block) blocks.emplace_back();
      blocks.back() += pages;
      sum += pages;
    }
    // The accesses of a page.
    double mean() const { return sum.pages > 0 ? sum.accesses / sum.pages : 0; }
    // Returns the variance of the accesses to so many other pages, each taken to have this mean.
    double VarianceOf(double pages, double mean_of_page) const {
      if (pages <= 0) return 0;
      const auto count = static_cast<double>(blocks.size());
      if (count < 2) return pages * mean_of_page * pages * mean_of_page;
      double squares = 0;
      double largest = 0;
      for (const Pages& seen : blocks) {
        const double off = seen.accesses - seen.pages * mean_of_page;
        squares += off * off;
        largest = std::max(largest, off * off);
      }
      // Few blocks may be far hotter than all others, and most samples of blocks miss them.
      squares += largest;
      // The accesses vary from block to block, and their mean is known by few blocks.
      const double part = pages / sum.pages;
      return part * (1 + part) * squares * count / (count - 1);
    }
  };
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
    double cpu_seconds;    // remembered
    double score_seconds;  // CPU time that its scores are proportional to
    std::size_t first_class;
    std::size_t end_class;
    double unknown_pages = 0;  // like its own
  };

  void SortIntoClasses(const RatedRows& rated) {
    std::unordered_map<std::uint64_t, std::uint32_t> class_of;
    // The ranking of an earlier epoch stays if no row has a score.
    const bool any_ran_last =
        std::ranges::any_of(rated.rows, [](const RatedRow& row) { return row.cpu_seconds > 0; });
    const RatedRow* before = nullptr;
    for (const RatedRow& row : rated.rows) {
      if (before == nullptr || before->key.target != row.key.target) {
        class_of.clear();
        targets_.push_back({row.remembered_cpu_seconds,
                            any_ran_last ? row.cpu_seconds : row.remembered_cpu_seconds,
                            classes_.size(), classes_.size()});
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

  void AddUnknown(const RatedRows& rated) {
    std::map<TargetId, UnknownPages> unknown;
    for (const UnknownPages& each : rated.unknown) {
      if (each.are_as_all) {
        unknown_as_all_ += each.pages;
      } else {
        unknown[each.target] = each;
      }
    }
    auto target = targets_.begin();
    for (std::size_t i = 0; i < rated.rows.size(); ++i) {
      if (i > 0 && rated.rows[i].key.target == rated.rows[i - 1].key.target) continue;
      if (const auto found = unknown.extract(rated.rows[i].key.target))
        target->unknown_pages = found.mapped().pages;
      ++target;
    }
    // No page of these targets is known.
    for (const auto& [target_id, each] : unknown) {
      targets_.push_back({.cpu_seconds = each.remembered_cpu_seconds,
                          .score_seconds = each.remembered_cpu_seconds,
                          .first_class = classes_.size(),
                          .end_class = classes_.size(),
                          .unknown_pages = each.pages});
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
      kinds_[each.kind].pieces += each.rows * (1 - each.chance);
      if (each.chance > 0) kinds_[each.kind_since].pieces += each.rows * each.chance;
    }
  }

  std::vector<double> MeansOfClasses() const {
    std::vector<double> means;
    for (const Class& each : classes_) {
      double mean = (1 - each.chance) * fit_.mixture.Mean(each.kind, fit_.mixture.rates());
      if (each.chance > 0)
        mean += each.chance * fit_.mixture.Mean(each.kind_since, fit_.mixture.rates());
      means.push_back(mean);
    }
    return means;
  }

  double MeanRate(std::uint32_t kind, const std::vector<double>& prior) const {
    const std::span<const double> likelihood = fit_.mixture.Likelihood(kind);
    double mass = 0;
    double sum = 0;
    for (std::size_t j = 0; j < prior.size(); ++j) {
      mass += prior[j] * likelihood[j];
      sum += prior[j] * likelihood[j] * fit_.mixture.rates()[j];
    }
    return sum / mass;
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
  std::vector<Class> classes_;
  std::vector<Target> targets_;
  std::vector<Row> rows_;
  double unknown_as_all_ = 0;  // pages, like those of all targets
};

}  // namespace

std::vector<HitRates> HitRatesOf(const RatedRows& rated, std::span<const PageCount> capacities) {
  std::vector<HitRates> result(capacities.size());
  std::vector<PageKey> keys;
  for (const RatedRow& row : rated.rows) keys.push_back(row.key);
  const PageCount unknown = rated.unknown_pages();
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    result[i] = {.capacity = capacities[i], .pages = rated.pages() + unknown, .unknown = unknown};
  }
  if (rated.rows.empty()) return result;
  // No access is known of programs that did not run.
  if (std::ranges::none_of(rated.rows,
                           [](const RatedRow& row) { return row.remembered_cpu_seconds > 0; })) {
    return result;
  }
  if (std::ranges::none_of(rated.kinds, &RateKind::looked_at)) return result;
  Curve curve(rated, capacities);

  const PageGroups groups(keys);
  std::vector<HitRate> rates = WithIntervals(
      [&](std::span<const double> times) { return curve.Estimate(groups.of_row(), times); },
      groups.size());
  curve.Estimate(groups.of_row(), std::vector<double>(groups.size(), 1.0));
  const auto [of_all, of_unlike] = curve.AccessesToUnknown(keys);
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    WidenByUnknown(of_unlike, /*may_be_hits=*/true, rates[i]);
    WidenByUnknown(of_all, /*may_be_hits=*/false, rates[capacities.size() + i]);
  }
  WidenByUntoldRates(
      curve.fit(), [&](const RateColumns& columns) { return curve.Read(columns); }, rates);
  WidenBy(curve.ReadTowardsTheFastest(), rates);
  // Pages whose reads came late may be the fastest of all.
  WidenBy(curve.Read(RateColumns(curve.fit().mixture.rates()), curve.fit().fastest_believed),
          rates);
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    result[i].oracle = rates[i];
    result[i].attainable = rates[capacities.size() + i];
  }
  return result;
}

}  // namespace tmprof
