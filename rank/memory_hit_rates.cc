// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_hit_rates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <tuple>
#include <utility>

namespace tmprof {
namespace {

// Enough to know a standard deviation to a tenth.
constexpr int kMemoryDraws = 64;
constexpr std::uint64_t kSeed = 1;
// The model errs itself: worths of pages of one rate are no Gamma distribution, and the worth is no
// curve of few pieces. docs/accuracy.md ("Accesses to memory") has by how much.
constexpr double kErrorOfOracle = 0.04;
constexpr double kErrorOfAttainable = 0.02;
// Pages whose rates differ by less than this part of an octave are alike.
constexpr int kStepsPerOctave = 8;

// A Gamma distribution of scale 1 as points, evenly apart in their logarithms.
struct Spread {
  static constexpr std::size_t kPoints = 32;
  std::array<double, kPoints> value;
  std::array<double, kPoints> part;  // sums to 1
};

Spread SpreadOf(double shape) {
  // What lies below has next to nothing of all samples.
  const double low = std::log(shape) - std::min(12.0, 6 / std::sqrt(shape));
  const double high = std::log(shape + 8 * std::sqrt(shape) + 8);
  Spread spread;
  double sum = 0;
  for (std::size_t i = 0; i < Spread::kPoints; ++i) {
    const double at = low + (high - low) * static_cast<double>(i) / (Spread::kPoints - 1);
    spread.value[i] = std::exp(at);
    spread.part[i] = std::exp(shape * (at - std::log(shape)) - spread.value[i] + shape);
    sum += spread.part[i];
  }
  double mean = 0;
  for (std::size_t i = 0; i < Spread::kPoints; ++i) {
    spread.part[i] /= sum;
    mean += spread.part[i] * spread.value[i];
  }
  for (double& value : spread.value) value *= shape / mean;
  return spread;
}

// Rows that are alike.
struct MemoryKind {
  MemoryRow row;  // `times`: the number of rows
  double score_seconds;
  double cpu_seconds;
};

std::vector<MemoryKind> MemoryKindsOf(const RatedRows& rated, std::span<const MemoryRow> rows) {
  // The ranking of an earlier epoch stays if no row has a score.
  const bool any_ran_last =
      std::ranges::any_of(rated.rows, [](const RatedRow& row) { return row.cpu_seconds > 0; });
  std::map<std::tuple<TargetId, long, double, double, double, bool>, MemoryKind> kinds;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SampledPages& seen = rows[i].seen;
    const RatedRow& row = rated.rows[i];
    const long step = std::lround(kStepsPerOctave * std::log2(std::max(seen.rate, 1e-9)));
    MemoryKind& kind =
        kinds
            .try_emplace(
                {rows[i].target, step, seen.pages, seen.seconds, seen.samples, rows[i].looked_at},
                MemoryKind{
                    .row = {.target = rows[i].target,
                            .seen = {.rate = std::exp2(static_cast<double>(step) / kStepsPerOctave),
                                     .pages = seen.pages,
                                     .seconds = seen.seconds,
                                     .samples = seen.samples,
                                     .times = 0},
                            .looked_at = rows[i].looked_at},
                    .score_seconds = any_ran_last ? row.cpu_seconds : row.remembered_cpu_seconds,
                    .cpu_seconds = row.remembered_cpu_seconds})
            .first->second;
    ++kind.row.seen.times;
  }
  std::vector<MemoryKind> list;  // rates of kinds do not depend on their samples
  for (const auto& [key, kind] : kinds) list.push_back(kind);
  return list;
}

// Pages whose worths are alike.
struct Part {
  double worth;  // of a page
  double pages;
};

class MemoryCurve {
 public:
  MemoryCurve(std::vector<MemoryKind> kinds, std::span<const PageCount> capacities)
      : capacities_(capacities), kinds_(std::move(kinds)) {
    std::vector<MemoryRow> rows;
    for (const MemoryKind& kind : kinds_) rows.push_back(kind.row);
    weights_.emplace(rows);
    if (!is_told()) return;
    std::vector<double> score;
    for (const MemoryKind& kind : kinds_)
      score.push_back(kind.score_seconds * weights_->Of(kind.row).mean);
    std::vector<std::size_t> order(kinds_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return score[i]; });
    std::vector<MemoryKind> ranked;
    for (const std::size_t i : order) ranked.push_back(kinds_[i]);
    kinds_ = std::move(ranked);
  }

  bool is_told() const { return weights_->are_told(); }

  // The oracle's hit rate at each capacity, then the attainable one at each, with intervals.
  std::vector<HitRate> Estimate() {
    const std::size_t count = 2 * capacities_.size();
    std::vector<double> sums(count);
    std::vector<double> squares(count);
    std::mt19937_64 random(kSeed);
    for (int draw = 0; draw < kMemoryDraws; ++draw) {
      const std::vector<double> drawn = Read(weights_->Draw(random), random);
      for (std::size_t i = 0; i < count; ++i) {
        sums[i] += drawn[i];
        squares[i] += drawn[i] * drawn[i];
      }
    }
    std::vector<HitRate> rates;
    for (std::size_t i = 0; i < count; ++i) {
      const double mean = sums[i] / kMemoryDraws;
      const double variance = std::max(0.0, squares[i] / kMemoryDraws - mean * mean);
      const double of_model = i < capacities_.size() ? kErrorOfOracle : kErrorOfAttainable;
      const double off = kDeviationsOf90 * std::sqrt(variance) + of_model;
      rates.push_back(
          {.value = mean, .low = std::max(0.0, mean - off), .high = std::min(1.0, mean + off)});
    }
    return rates;
  }

 private:
  const Spread& SpreadWith(double shape) {
    const auto found = spreads_.find(shape);
    return found != spreads_.end() ? found->second
                                   : spreads_.emplace(shape, SpreadOf(shape)).first->second;
  }

  // Draws the worths of the pages chosen, and of the others.
  std::vector<double> Read(const MemoryWeights& weights, std::mt19937_64& random) {
    std::vector<Part> parts;
    struct Sum {
      double mean = 0;
      double variance = 0;
    };
    std::vector<Sum> chosen(capacities_.size());
    Sum all;
    double before = 0;
    for (const MemoryKind& kind : kinds_) {
      const SampledPages& seen = kind.row.seen;
      const MemoryWorth& worth = weights.WorthOf(kind.row.target);
      const MemoryWorth::Moments moments = worth.OfPages(seen);
      const double shape = worth.ShapeOf(seen);
      const double pages = seen.times * seen.pages;
      const Spread& spread = SpreadWith(shape);
      for (std::size_t i = 0; i < Spread::kPoints; ++i) {
        parts.push_back({.worth = kind.cpu_seconds * moments.mean / shape * spread.value[i],
                         .pages = pages * spread.part[i]});
      }
      const double mean = kind.cpu_seconds * pages * moments.mean;
      const double variance = seen.times * seen.pages * seen.pages * kind.cpu_seconds *
                              kind.cpu_seconds * moments.variance;
      all.mean += mean;
      all.variance += variance;
      for (std::size_t c = 0; c < capacities_.size(); ++c) {
        const auto capacity = static_cast<double>(capacities_[c].value());
        const double part = std::clamp((capacity - before) / pages, 0.0, 1.0);
        chosen[c].mean += part * mean;
        chosen[c].variance += part * variance;
      }
      before += pages;
    }
    std::vector<double> result = SharesOfTheBest(std::move(parts));
    for (const Sum& sum : chosen) {
      std::normal_distribution<double> normal;
      const double others = std::max(0.0, all.variance - sum.variance);
      const double hit = std::max(0.0, sum.mean + std::sqrt(sum.variance) * normal(random));
      const double missed = std::max(0.0, all.mean - sum.mean + std::sqrt(others) * normal(random));
      result.push_back(hit + missed > 0 ? hit / (hit + missed) : 0);
    }
    return result;
  }

  std::vector<double> SharesOfTheBest(std::vector<Part> parts) const {
    std::ranges::sort(parts, std::greater(), &Part::worth);
    double all = 0;
    for (const Part& part : parts) all += part.worth * part.pages;
    std::vector<double> shares;
    for (const PageCount capacity : capacities_) {
      auto left = static_cast<double>(capacity.value());
      double hit = 0;
      for (const Part& part : parts) {
        const double taken = std::min(left, part.pages);
        hit += taken * part.worth;
        left -= taken;
        if (left <= 0) break;
      }
      shares.push_back(all > 0 ? hit / all : 0);
    }
    return shares;
  }

  std::span<const PageCount> capacities_;
  std::vector<MemoryKind> kinds_;  // those of the highest score first
  std::optional<MemoryWeights> weights_;
  std::map<double, Spread> spreads_;  // by shape
};

}  // namespace

std::vector<HitRates> MemoryHitRatesOf(const RatedRows& rated, std::span<const MemoryRow> rows,
                                       std::span<const PageCount> capacities) {
  const PageCount pages = rated.pages();
  std::vector<HitRates> result;
  for (const PageCount capacity : capacities)
    result.push_back({.capacity = capacity, .pages = pages});
  MemoryCurve curve(MemoryKindsOf(rated, rows), capacities);
  if (!curve.is_told()) return result;
  const std::vector<HitRate> rates = curve.Estimate();
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    result[i].oracle = rates[i];
    result[i].attainable = rates[capacities.size() + i];
  }
  return result;
}

}  // namespace tmprof
