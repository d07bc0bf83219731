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
#include <random>
#include <tuple>
#include <utility>

#include "rank/best_shares.h"
#include "rank/resampling.h"

namespace tmprof {
namespace {

// This many draws give a standard deviation to a tenth.
constexpr int kMemoryDraws = 64;
constexpr std::uint64_t kSeed = 1;
// The model has errors of its own: worths of pages of one rate do not follow a Gamma distribution,
// and the worth is no curve of few pieces. docs/design/hit-rates.md has the size of the errors.
constexpr double kMemoryModelError = 0.02;
// Pages whose rates differ by less than this part of an octave count as alike.
constexpr int kStepsPerOctave = 8;

// A Gamma distribution of scale 1 as points, evenly spaced in their logarithms.
struct Spread {
  static constexpr std::size_t kPoints = 32;
  std::array<double, kPoints> value;
  std::array<double, kPoints> part;  // sums to 1
};

Spread SpreadOf(double shape) {
  // The worths below have next to nothing of all samples.
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

// Faded samples differ by little: a part of one that is finer than this says nothing.
constexpr double kSampleSteps = 8;

// Rows that are alike.
struct MemoryKind {
  MemoryRow row;  // `times`: the number of rows
  double score_seconds;
  double cpu_seconds;
  double score = 0;  // per page: the order of choice; pages of score 0 are never chosen
};

std::vector<MemoryKind> MemoryKindsOf(const RatedRows& rated, std::span<const MemoryRow> rows) {
  // The ranking of an earlier epoch stays if no row has a score.
  const bool any_ran_last =
      std::ranges::any_of(rated.rows, [](const RatedRow& row) { return row.cpu_seconds > 0; });
  const bool any_is_there = rated.any_is_there();
  std::map<std::tuple<TargetId, long, double, double, long, double, bool>, MemoryKind> kinds;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MemoryRow& row = rows[i];
    // A process that has exited cannot be placed.
    if (any_is_there && !rated.rows[i].is_there) continue;
    const SampledPages& seen = row.seen;
    // A kind's rate does not depend on its samples, because these would otherwise choose their
    // class themselves.
    const long rate = std::lround(kStepsPerOctave * std::log2(std::max(seen.rate, 1e-9)));
    const long samples = std::lround(kSampleSteps * seen.samples);
    const auto [kind, is_new] = kinds.try_emplace(
        {row.target, rate, seen.pages, seen.seconds, samples, seen.factor, row.looked_at});
    if (is_new) {
      const RatedRow& of = rated.rows[i];
      kind->second = {
          .row = {.target = row.target,
                  .seen = {.rate = std::exp2(static_cast<double>(rate) / kStepsPerOctave),
                           .pages = seen.pages,
                           .seconds = seen.seconds,
                           .samples = static_cast<double>(samples) / kSampleSteps,
                           .times = 0,
                           .factor = seen.factor},
                  .looked_at = row.looked_at,
                  .speed = row.speed},
          .score_seconds = any_ran_last ? of.cpu_seconds : of.remembered_cpu_seconds,
          .cpu_seconds = of.remembered_cpu_seconds};
    }
    ++kind->second.row.seen.times;
  }
  std::vector<MemoryKind> list;
  for (const auto& [key, kind] : kinds) list.push_back(kind);
  return list;
}

class MemoryCurve {
 public:
  MemoryCurve(std::vector<MemoryKind> kinds, const std::vector<UnknownPages>& unknown,
              const MemoryScale& scale, std::span<const PageCount> capacities)
      : capacities_(capacities), kinds_(std::move(kinds)), weights_(RowsOf(kinds_), scale) {
    FindUnknownParts(unknown);
    for (MemoryKind& kind : kinds_) kind.score = kind.score_seconds * weights_.Of(kind.row).mean;
    std::ranges::stable_sort(kinds_, std::greater(), &MemoryKind::score);
  }

  PageCount unknown_pages() const {
    return PageCount(static_cast<std::uint64_t>(std::llround(unknown_pages_)));
  }

  bool is_told() const {
    return weights_.basis() == MemoryBasis::kSamples ||
           weights_.basis() == MemoryBasis::kCacheModel;
  }

  // Returns the oracle's hit rate at each capacity, then the attainable one at each, with
  // intervals.
  std::vector<HitRate> Estimate() {
    const std::size_t count = 2 * capacities_.size();
    std::vector<double> sums(count);
    std::vector<double> squares(count);
    std::mt19937_64 random(kSeed);
    for (int draw = 0; draw < kMemoryDraws; ++draw) {
      const std::vector<Share> drawn = Read(weights_.Draw(random));
      for (std::size_t i = 0; i < count; ++i) {
        sums[i] += drawn[i].mean;
        squares[i] += drawn[i].mean * drawn[i].mean + drawn[i].variance;
      }
    }
    std::vector<HitRate> rates;
    for (std::size_t i = 0; i < count; ++i) {
      const double mean = sums[i] / kMemoryDraws;
      const double variance = std::max(0.0, squares[i] / kMemoryDraws - mean * mean);
      const double off = kDeviationsOf90 * std::sqrt(variance) + kMemoryModelError;
      rates.push_back(
          {.value = mean, .low = std::max(0.0, mean - off), .high = std::min(1.0, mean + off)});
      const bool is_oracle = i < capacities_.size();
      if (!is_oracle || blocks_ < 2) WidenByUnknown(unknown_, is_oracle, rates.back());
    }
    return rates;
  }

 private:
  struct Share {
    double mean = 0;
    double variance = 0;  // due to the worths of single pages
  };

  static std::vector<MemoryRow> RowsOf(const std::vector<MemoryKind>& kinds) {
    std::vector<MemoryRow> rows;
    for (const MemoryKind& kind : kinds) rows.push_back(kind.row);
    return rows;
  }

  // Samples cover pages of which nothing else is known. A model of the cache does not. Pages of a
  // target of which none was looked at are assumed to be like those of all.
  void FindUnknownParts(const std::vector<UnknownPages>& unknown) {
    if (weights_.basis() != MemoryBasis::kCacheModel) return;
    std::map<TargetId, double> looked_at;
    double all = 0;
    double seconds = 0;
    for (const MemoryKind& kind : kinds_) {
      if (!kind.row.looked_at) continue;
      const double pages = kind.row.seen.times * kind.row.seen.pages;
      looked_at[kind.row.target] += pages;
      all += pages;
      seconds += pages * kind.cpu_seconds;
    }
    if (seconds <= 0) return;
    double as_all = 0;
    for (const UnknownPages& each : unknown) {
      const auto own = looked_at.find(each.target);
      unknown_pages_ += each.pages;
      if (each.are_as_all) {
        as_all += each.pages;
      } else if (own == looked_at.end()) {
        // A target that hardly ran has hardly accessed its pages.
        as_all += each.pages * each.remembered_cpu_seconds * all / seconds;
      } else {
        unknown_parts_[each.target] = each.pages / own->second;
      }
    }
    for (const auto& [target, pages] : looked_at) unknown_parts_[target] += as_all / all;
    blocks_ = all / kBlockPages;
  }

  double UnknownBeside(const MemoryKind& kind) const {
    const auto found = unknown_parts_.find(kind.row.target);
    return kind.row.looked_at && found != unknown_parts_.end() ? found->second : 0;
  }

  const Spread& SpreadWith(double shape) {
    const auto found = spreads_.find(shape);
    return found != spreads_.end() ? found->second
                                   : spreads_.emplace(shape, SpreadOf(shape)).first->second;
  }

  // Returns the oracle's share at each capacity, then that of the pages of the highest score.
  std::vector<Share> Read(const MemoryWeights& weights) {
    std::vector<Heat> parts;
    std::vector<Share> chosen(capacities_.size());
    Share all;
    double of_unknown = 0;
    double before = 0;
    for (const MemoryKind& kind : kinds_) {
      const SampledPages& seen = kind.row.seen;
      const MemoryWorth& worth = weights.WorthOf(kind.row.target);
      const MemoryWorth::Moments moments = worth.OfPages(seen);
      const double shape = worth.ShapeOf(seen);
      const double pages = seen.times * seen.pages;
      const double unknown = UnknownBeside(kind);
      const Spread& spread = SpreadWith(shape);
      for (std::size_t i = 0; i < Spread::kPoints; ++i) {
        const double accesses = kind.cpu_seconds * moments.mean / shape * spread.value[i];
        parts.push_back({.score = accesses,
                         .accesses = accesses,
                         .pages = (1 + unknown) * pages * spread.part[i]});
      }
      const double mean = kind.cpu_seconds * pages * moments.mean;
      const double sd_of_row = kind.cpu_seconds * seen.pages * std::sqrt(moments.variance);
      const double variance = seen.times * sd_of_row * sd_of_row;
      all.mean += (1 + unknown) * mean;
      all.variance += variance;
      of_unknown += unknown * mean;
      if (kind.score <= 0) continue;
      for (std::size_t c = 0; c < capacities_.size(); ++c) {
        const auto capacity = static_cast<double>(capacities_[c].value());
        const double part = std::clamp((capacity - before) / pages, 0.0, 1.0);
        chosen[c].mean += part * mean;
        chosen[c].variance += part * variance;
      }
      before += pages;
    }
    if (all.mean > 0) {
      // An assumption: the accesses of a block have a standard deviation as large as their mean.
      const double relative =
          std::sqrt(1 / std::max(blocks_, 1.0) + 1 / std::max(unknown_pages_ / kBlockPages, 1.0));
      unknown_.expected += of_unknown / all.mean / kMemoryDraws;
      unknown_.deviation += of_unknown / all.mean * relative / kMemoryDraws;
    }
    std::vector<Share> shares;
    for (const double best : SharesOfTheBest(std::move(parts), capacities_))
      shares.push_back({.mean = best});
    for (const Share& hit : chosen) {
      Share& share = shares.emplace_back();
      if (all.mean <= 0) continue;
      share.mean = hit.mean / all.mean;
      const double missed = 1 - share.mean;
      share.variance = (missed * missed * hit.variance +
                        share.mean * share.mean * (all.variance - hit.variance)) /
                       (all.mean * all.mean);
    }
    return shares;
  }

  std::span<const PageCount> capacities_;
  std::vector<MemoryKind> kinds_;  // those of the highest score first
  MemoryWeights weights_;
  std::map<double, Spread> spreads_;  // key: shape
  double unknown_pages_ = 0;
  std::map<TargetId, double> unknown_parts_;  // per target: unknown pages for each looked-at page
  UnknownAccesses unknown_;                   // means over the draws so far
  double blocks_ = 0;                         // that were looked at
};

}  // namespace

std::vector<HitRates> MemoryHitRatesOf(const RatedRows& rated, std::span<const MemoryRow> rows,
                                       const MemoryScale& scale,
                                       std::span<const PageCount> capacities) {
  MemoryCurve curve(MemoryKindsOf(rated, rows), rated.unknown, scale, capacities);
  const PageCount unknown = curve.unknown_pages();
  std::vector<HitRates> result;
  for (const PageCount capacity : capacities) {
    result.push_back({.capacity = capacity, .pages = rated.pages() + unknown, .unknown = unknown});
  }
  if (!curve.is_told()) return result;
  const std::vector<HitRate> rates = curve.Estimate();
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    result[i].oracle = rates[i];
    result[i].attainable = rates[capacities.size() + i];
  }
  return result;
}

}  // namespace tmprof
