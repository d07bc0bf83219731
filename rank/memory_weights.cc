// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/shared_pages.h"

namespace tmprof {
namespace {

double SamplesOf(std::span<const SampledPages> seen) {
  double samples = 0;
  for (const SampledPages& each : seen) samples += each.times * each.samples;
  return samples;
}

// Returns how many accesses that are not hidden could be sampled.
double AccessesWatched(std::span<const MemoryRow> rows) {
  double accesses = 0;
  for (const MemoryRow& row : rows) {
    if (!CouldBeSampled(row)) continue;
    accesses +=
        (1 - row.hidden) * row.seen.times * row.seen.pages * row.seen.seconds * row.seen.rate;
  }
  return accesses;
}

// Returns the CPU time of each process that has rows. Files have none of their own.
std::map<TargetId, double> CpuSecondsOfProcesses(std::span<const MemoryRow> rows) {
  std::map<TargetId, double> seconds;
  for (const MemoryRow& row : rows)
    if (row.target < SharedPages::kFirstFile) seconds[row.target] = row.speed;
  return seconds;
}

double SumOf(const std::map<TargetId, double>& seconds) {
  double sum = 0;
  for (const auto& [target, of_target] : seconds) sum += of_target;
  return sum;
}

// A target may have a million rows. Rates, and times in which pages could be sampled, are taken as
// equal if they differ by less than this part of an octave.
constexpr int kStepsPerOctaveApart = 32;

double Rounded(double value) {
  if (value <= 0) return 0;
  return std::exp2(std::round(kStepsPerOctaveApart * std::log2(value)) / kStepsPerOctaveApart);
}

// Line rates of real pages only roughly follow a Gamma distribution: the probability that a model
// predicts is off by this part of it, as a standard deviation. And some pages of a process, such as
// those of the stack, are used mostly in one line.
constexpr double kErrorOfChance = 0.4;
constexpr std::array kOneLinePages = {0.0, 2.0, 4.0, 8.0};

// A model's total of misses is off by this factor, as a standard deviation of its logarithm. An
// access that an accessed bit shows may be a burst that brings many lines: on real programs a visit
// brings 1 to 60 (docs/design/memory-model.md).
constexpr double kErrorOfTotal = 4;

constexpr double kBytesOfLine = 64;

// One page, because looked-at pages have some room in the cache.
constexpr double kSmallestCache = kBasePageBytes;

// Half a sample or counted miss is added, which keeps the order of pages if there is none.
constexpr double kSamplesMore = 0.5;

// Shapes of the rates of a page's lines, from 1/32, where a few lines have nearly all accesses, to
// 128, where all lines are used alike. Real programs lie anywhere between
// (bench/results/memory.md, "Pairs of clock samples"), and accessed bits do not show where.
constexpr std::array kEvenness = {1.0 / 32, 1.0 / 8, 1.0 / 2, 2.0, 128.0};

// Joins similar rows without samples. Rows with samples have rounded rates, too: a rate of their
// own would put them into another class than rows without.
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
    const auto key = std::tuple(seen.rate, seen.seconds, seen.pages, seen.factor);
    unsampled_.try_emplace(key, alike).first->second.times += seen.times;
  }
  bool empty() const { return sampled_.empty() && unsampled_.empty(); }
  std::vector<SampledPages> Take() && {
    for (const auto& [key, alike] : unsampled_) sampled_.push_back(alike);
    return std::move(sampled_);
  }

 private:
  std::vector<SampledPages> sampled_;
  std::map<std::tuple<double, double, double, double>, SampledPages> unsampled_;
};

// Returns the likelihood of the counted pairs if each is of one line with the probability `chance`,
// or so: a beta-binomial distribution.
double Likelihood(const SamplePairs& pairs, double chance, std::size_t processes) {
  const double precision = (1 - chance) / (kErrorOfChance * kErrorOfChance * chance) - 1;
  const double one_line = std::max(precision, 1.0) * chance;
  const double other = std::max(precision, 1.0) * (1 - chance);
  const auto log_beta = [](double a, double b) {
    return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b);
  };
  const double others = pairs.pairs - pairs.of_one_line;
  double sum = 0;
  for (const double pages : kOneLinePages) {
    const double of_one_line = pairs.of_one_line - pages * static_cast<double>(processes);
    if (of_one_line < 0) break;
    const double log_ways = std::lgamma(of_one_line + others + 1) - std::lgamma(of_one_line + 1) -
                            std::lgamma(others + 1);
    sum += std::exp(log_ways + log_beta(one_line + of_one_line, other + others) -
                    log_beta(one_line, other));
  }
  return std::max(sum, std::numeric_limits<double>::min());  // if none expects it, any may be right
}

// Returns the likelihood of the counted misses if a model expects so many in a second of CPU time:
// a log-normal distribution.
double Likelihood(const CountedMisses& counted, double expected_per_second) {
  const double misses = counted.misses + kSamplesMore;
  const double error = std::log(kErrorOfTotal);
  const double variance = error * error + 1 / misses;
  const double off = std::log(misses / (expected_per_second * counted.cpu_seconds));
  return std::exp(-off * off / (2 * variance));
}

// Returns the share of counted pairs that a model expects to be of one line, after so many samples
// of time.
double ChanceOfOneLine(const CacheModel& model, std::span<const CachedPages> pages,
                       double samples) {
  double time = 0;  // relative
  for (const CachedPages& each : pages)
    time += each.pages * each.rate * model.RelativeTime(each.rate);
  double pairs = 0;
  double of_one_line = 0;
  for (const CachedPages& each : pages) {
    const double of_page =
        time > 0 ? samples * each.rate * model.RelativeTime(each.rate) / time : 0;
    const double counted = -std::expm1(-of_page) - of_page * std::exp(-of_page);  // has two samples
    pairs += each.pages * counted;
    of_one_line += each.pages * counted * model.ChanceOfOneLine(each.rate);
  }
  return pairs > 0 ? of_one_line / pairs : model.ChanceOfOneLine(0);
}

// Returns the misses for each access, if there are so many accesses in a second of CPU time.
double PerAccess(const CountedMisses& counted, double accesses_per_second) {
  return (counted.misses + kSamplesMore) / (counted.cpu_seconds * accesses_per_second);
}

// Returns the accesses that are not hidden. 0: no target runs.
double AccessesPerCpuSecond(std::span<const MemoryRow> rows) {
  double accesses = 0;
  for (const MemoryRow& row : rows) {
    if (!row.looked_at) continue;
    accesses += (1 - row.hidden) * row.seen.times * row.seen.pages * row.seen.rate * row.speed;
  }
  const double cpu_seconds = SumOf(CpuSecondsOfProcesses(rows));
  return cpu_seconds > 0 ? accesses / cpu_seconds : 0;
}

// Returns how many accesses to memory that are not hidden could be sampled.
double WatchedBy(const CacheModel& model, std::span<const MemoryRow> rows) {
  double watched = 0;
  for (const MemoryRow& row : rows) {
    if (!CouldBeSampled(row) || row.speed <= 0) continue;
    watched += (1 - row.hidden) * row.seen.times * row.seen.pages * row.seen.seconds *
               row.seen.rate * model.PartToMemory(row.seen.rate * row.speed);
  }
  return watched;
}

}  // namespace

MemoryScale ScaleOf(const SampleScale& samples, std::optional<std::uint64_t> llc_bytes,
                    PageCount looked_at, std::optional<PageCount> resident) {
  MemoryScale scale{.units_per_sample = samples.accesses_per_sample().value_or(1),
                    .pairs = samples.pairs()};
  if (!llc_bytes) return scale;
  const double part = resident && *resident > looked_at ? static_cast<double>(looked_at.value()) /
                                                              static_cast<double>(resident->value())
                                                        : 1;
  scale.llc_bytes = std::max(kSmallestCache, part * static_cast<double>(*llc_bytes));
  scale.pairs.samples *= part;
  scale.counted = samples.counted();
  if (scale.counted) scale.counted->misses *= part;
  return scale;
}

MemoryWeights::MemoryWeights(std::span<const MemoryRow> rows, const MemoryScale& scale)
    : units_per_sample_(scale.units_per_sample) {
  std::map<TargetId, SeenOfTarget> rows_by_target;
  SeenOfTarget* of_target = nullptr;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const MemoryRow& row = rows[i];
    if (i == 0 || row.target != rows[i - 1].target) of_target = &rows_by_target[row.target];
    if (CouldBeSampled(row)) of_target->Add(row.seen);
  }
  std::map<TargetId, std::vector<SampledPages>> by_target;
  for (auto& [target, seen] : rows_by_target)
    if (!seen.empty()) by_target.emplace(target, std::move(seen).Take());
  double samples = 0;
  for (const auto& [target, seen] : by_target) {
    const double of_target_alone = SamplesOf(seen);
    samples += of_target_alone;
    if (of_target_alone >= MemoryWorth::kFewestSamples) of_target_.try_emplace(target, seen);
  }
  if (samples >= MemoryWorth::kFewestSamples) {
    basis_ = MemoryBasis::kSamples;
    if (by_target.size() == 1) {
      all_ = of_target_.begin()->second;
      return;
    }
    std::vector<SampledPages> of_all;
    for (const auto& [target, seen] : by_target)
      of_all.insert(of_all.end(), seen.begin(), seen.end());
    all_.emplace(of_all);
    return;
  }
  if (scale.llc_bytes && ModelCache(rows, scale, samples)) return;
  const double watched = AccessesWatched(rows);
  double per_access = watched > 0 ? (samples + kSamplesMore) / watched : 1 / units_per_sample_;
  if (scale.counted) {
    if (const double accesses = AccessesPerCpuSecond(rows); accesses > 0)
      per_access = PerAccess(*scale.counted, accesses) / units_per_sample_;
  }
  all_ = MemoryWorth::InProportion(per_access);
}

bool MemoryWeights::ModelCache(std::span<const MemoryRow> rows, const MemoryScale& scale,
                               double samples) {
  const SamplePairs& pairs = scale.pairs;
  struct OfRate {
    double pages = 0;
    double seen = 0;  // these pages, weighed by the part of their accesses that is not hidden
  };
  std::map<double, OfRate> by_rate;
  std::map<TargetId, double> speed;
  for (const MemoryRow& row : rows) {
    speed[row.target] = row.speed;
    // For the other rows it is only known that they were sampled.
    if (!row.looked_at) continue;
    OfRate& of_rate = by_rate[Rounded(row.seen.rate * row.speed)];
    of_rate.pages += row.seen.times * row.seen.pages;
    of_rate.seen += (1 - row.hidden) * row.seen.times * row.seen.pages;
  }
  std::vector<CachedPages> pages;
  double all_pages = 0;
  for (const auto& [rate, of_rate] : by_rate) {
    pages.push_back({.rate = rate, .pages = of_rate.pages});
    all_pages += of_rate.pages;
  }
  const std::map<TargetId, double> processes = CpuSecondsOfProcesses(rows);
  const double cpu_seconds = SumOf(processes);  // that `to_memory` below is of
  const CountedMisses* counted = scale.counted && cpu_seconds > 0 ? &*scale.counted : nullptr;
  struct Tried {
    CacheModel model;
    double to_memory;  // accesses that are not hidden
    double chance;
  };
  std::vector<Tried> tried;
  double all_chances = 0;
  for (const double evenness : kEvenness) {
    const auto model = CacheModel::Make(pages, *scale.llc_bytes, evenness);
    if (!model) continue;
    double to_memory = 0;
    for (const auto& [rate, of_rate] : by_rate)
      to_memory += of_rate.seen * rate * model->PartToMemory(rate);
    if (!std::isnormal(to_memory)) continue;
    tried.push_back(
        {*model, to_memory,
         Likelihood(pairs, ChanceOfOneLine(*model, pages, pairs.samples), processes.size())});
    if (counted != nullptr) {
      tried.back().chance =
          std::max(tried.back().chance * Likelihood(*counted, to_memory / cpu_seconds),
                   std::numeric_limits<double>::min());
    }
    all_chances += tried.back().chance;
  }
  if (tried.empty()) {
    const double lines = all_pages * kBasePageBytes / kBytesOfLine;  // each comes once at least
    if (samples > 0 || (counted != nullptr && counted->misses > lines)) return false;
    basis_ = MemoryBasis::kAllCached;
    all_ = MemoryWorth::InProportion(0);
    return true;
  }
  double mean_to_memory = 0;
  for (Tried& each : tried) {
    each.chance /= all_chances;
    chances_.push_back(each.chance);
    mean_to_memory += each.chance * each.to_memory;
  }
  // The models differ in how many accesses to memory they expect in all. Each is scaled to their
  // mean, so that a draw changes which pages these are of, and not how many there are.
  std::vector<MemoryWorth::ModelledCache> caches;
  double watched = 0;  // accesses to memory that could be sampled
  for (const Tried& each : tried) {
    const double to_mean = mean_to_memory / each.to_memory;
    watched += each.chance * to_mean * WatchedBy(each.model, rows);
    caches.push_back({.model = each.model, .samples_per_access = to_mean, .chance = each.chance});
  }
  double per_access = watched > 0 ? (samples + kSamplesMore) / watched : 1 / units_per_sample_;
  if (counted != nullptr)
    per_access = PerAccess(*counted, mean_to_memory / cpu_seconds) / units_per_sample_;
  for (MemoryWorth::ModelledCache& cache : caches) cache.samples_per_access *= per_access;
  for (const auto& [target, of_target] : speed)
    of_target_.insert_or_assign(target, MemoryWorth::ByCache(caches, of_target));
  basis_ = MemoryBasis::kCacheModel;
  return true;
}

const MemoryWorth& MemoryWeights::WorthOf(TargetId target) const {
  const auto found = of_target_.find(target);
  return found == of_target_.end() ? *all_ : found->second;
}

MemoryWeights::Weight MemoryWeights::Of(const MemoryRow& row) const {
  const MemoryWorth::Moments moments = WorthOf(row.target).OfPages(row.seen);
  // Samples already exclude accesses that a prefetcher hides.
  const double seen = basis_ == MemoryBasis::kSamples ? 1 : 1 - row.hidden;
  return {.mean = units_per_sample_ * seen * moments.mean,
          .relative_sd = moments.mean > 0 ? std::sqrt(moments.variance) / moments.mean
                                          : std::numeric_limits<double>::infinity()};
}

MemoryWeights MemoryWeights::Draw(std::mt19937_64& random) const {
  MemoryWeights drawn;
  drawn.units_per_sample_ = units_per_sample_;
  drawn.basis_ = basis_;
  if (basis_ == MemoryBasis::kCacheModel) {
    // It is one cache, and one sort of programs.
    const std::size_t cache =
        std::discrete_distribution<std::size_t>(chances_.begin(), chances_.end())(random);
    const double shape = MemoryWorth::DrawShape(random);
    for (const auto& [target, worth] : of_target_)
      drawn.of_target_.emplace(target, worth.WithCache(cache, shape));
    return drawn;
  }
  for (const auto& [target, worth] : of_target_)
    drawn.of_target_.emplace(target, worth.Draw(random));
  drawn.all_ = all_->Draw(random);
  return drawn;
}

}  // namespace tmprof
