// SPDX-License-Identifier: Apache-2.0
// Learns how many accesses to memory a page of a given access rate makes, from samples of such
// accesses. docs/design/memory-model.md describes it, bench/results/memory.md gives figures.

#pragma once

#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "rank/cache_model.h"

namespace tmprof {

// Pages that are alike in their access rate, and the samples taken of them.
struct SampledPages {
  double rate = 0;     // accesses of a page in a second; 0: it was never found accessed
  double pages = 0;    // > 0
  double seconds = 0;  // in which each could be sampled
  double samples = 0;
  double times = 1;  // number of rows with as many pages and samples
};

// The caches decide what an access rate is worth: the fastest pages of a program may never leave
// them. The worth of a rate is samples of a page in a second. It is learned from the samples of all
// pages of about that rate, and it may fall when rates rise.
class MemoryWorth {
 public:
  // With fewer samples it is unknown which rates are worth more than others.
  static constexpr double kFewestSamples = 30;

  // Deterministic. Precondition: there are samples, and time to take them.
  explicit MemoryWorth(std::span<const SampledPages> seen);

  // Gives each access a worth of so many samples.
  static MemoryWorth InProportion(double samples_per_access);

  // A model of the cache, and the worth in samples of an access that reaches memory by it.
  struct ModelledCache {
    CacheModel model;
    double samples_per_access;
    double chance;  // chance that it is right
  };
  // Assumes that one of these models is right; their chances sum to 1. `speed`: seconds of the
  // models' clock in a second in which pages are accessed at their rates.
  static MemoryWorth ByCache(std::vector<ModelledCache> caches, double speed);

  // Returns the expected samples of a page in a second, whatever its own samples are.
  double OfRate(double rate) const;

  struct Moments {
    double mean = 0;
    double variance = 0;
  };
  // Returns the expected samples of each of these pages in a second, given their own. They follow a
  // Gamma distribution of the shape ShapeOf().
  Moments OfPages(const SampledPages& seen) const;
  double ShapeOf(const SampledPages& seen) const { return shape_ + seen.samples; }

  // Draws worths from their posterior, given the samples (Laplace's approximation). The result
  // cannot be drawn from again.
  MemoryWorth Draw(std::mt19937_64& random) const;
  // Assumes that this one of the caches, and this shape, are right. Precondition: made by
  // ByCache().
  MemoryWorth WithCache(std::size_t cache, double shape) const;
  // Draws one of the shapes that ShapeOf() may return for pages without samples, all with equal
  // probability.
  static double DrawShape(std::mt19937_64& random);

 private:
  struct Class {
    double log_rate;   // mean of its pages
    double log_worth;  // at that rate
    double shift = 0;  // to it from the mean worth of the class
  };
  // One choice of hyperparameters makes these worths likely.
  struct Choice {
    double weight;  // its chance, up to a factor of all
    double slope;
    double precision;
    std::vector<double> log_worth;
    std::vector<double> pivot;  // pivots of the posterior's precision matrix, by elimination
  };

  // The models of the cache that stand in for samples.
  struct Cached {
    std::vector<ModelledCache> caches;
    double speed;
  };

  MemoryWorth() = default;
  Moments OfRateBy(const Cached& cached, double rate) const;
  double LogWorth(double rate) const;
  void FitClasses(std::span<const SampledPages> by_rate);
  void KeepSamplesOfClasses(std::span<const SampledPages> by_rate,
                            std::span<const std::size_t> ends);
  void FitSpread(std::span<const SampledPages> seen);

  std::optional<Cached> cached_;  // instead of all that follows, but for the shape
  std::vector<Class> classes_;    // ascending by rate
  double slope_ = 0;              // slope of the logarithms beyond the outermost classes
  double slowest_ = 0;            // stands for all slower rates, those of 0 included
  // Worths of pages of one rate are spread about their mean by a Gamma distribution of this shape.
  double shape_ = 0;
  std::vector<Choice> choices_;
  std::vector<double> weight_of_shape_;
};

}  // namespace tmprof
