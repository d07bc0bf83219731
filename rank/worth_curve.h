// SPDX-License-Identifier: Apache-2.0
// Learns how many samples a page of a given access rate gets. Only rank/ uses it.
// docs/design/memory-model.md describes it.

#pragma once

#include <cstddef>
#include <random>
#include <span>
#include <vector>

namespace tmprof {

// Pages that are alike in their access rate, and the samples taken of them.
struct SampledPages {
  double rate = 0;     // accesses of a page in a second; 0: it was never found accessed
  double pages = 0;    // > 0
  double seconds = 0;  // in which each could be sampled
  double samples = 0;
  double times = 1;  // number of rows with as many pages and samples
  // Samples that a page is expected to have, relative to others of its rate.
  double factor = 1;
};

// The worth of a rate is samples of a page in a second. It is learned from the samples of all pages
// of about that rate, and it may fall when rates rise.
class WorthCurve {
 public:
  // Deterministic. Precondition: there are samples, and time to take them.
  explicit WorthCurve(std::span<const SampledPages> seen);

  // Gives each access a worth of so many samples.
  static WorthCurve InProportion(double samples_per_access);

  double OfRate(double rate) const;

  // Draws worths from their posterior, given the samples (Laplace's approximation). The result
  // cannot be drawn from again.
  WorthCurve Draw(std::mt19937_64& random) const;

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

  WorthCurve() = default;
  double LogOfRate(double rate) const;
  void FitClasses(std::span<const SampledPages> by_rate);
  void KeepSamplesOfClasses(std::span<const SampledPages> by_rate,
                            std::span<const std::size_t> ends);

  std::vector<Class> classes_;  // ascending by rate
  double slope_ = 0;            // slope of the logarithms beyond the outermost classes
  double slowest_ = 0;          // stands for all slower rates, those of 0 included
  std::vector<Choice> choices_;
};

}  // namespace tmprof
