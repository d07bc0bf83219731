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
#include "rank/worth_curve.h"

namespace tmprof {

// The caches decide what an access rate is worth: the fastest pages of a program may never leave
// them. Worths of rates are learned from samples (worth_curve.h), and pages of one rate are spread
// about them.
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
  // The models of the cache that stand in for samples.
  struct Cached {
    std::vector<ModelledCache> caches;
    double speed;
  };

  MemoryWorth() = default;
  Moments OfRateBy(const Cached& cached, double rate) const;
  void FitSpread(std::span<const SampledPages> seen);

  // One of these two is set.
  std::optional<Cached> cached_;
  std::optional<WorthCurve> by_samples_;
  // Worths of pages of one rate are spread about their mean by a Gamma distribution of this shape.
  double shape_ = 0;
  std::vector<double> weight_of_shape_;
};

}  // namespace tmprof
