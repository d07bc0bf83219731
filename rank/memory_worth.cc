// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_worth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

#include "base/check.h"

namespace tmprof {
namespace {

constexpr std::size_t kMostClasses = 16;
// Hyperparameters are chosen from these by their marginal likelihood. From class to class the
// logarithm of the worth changes by `slope` times that of the rate, and by chance, with one of
// these standard deviations.
constexpr std::array kSlopes = {0.0, 0.5, 1.0};
constexpr std::array kSteps = {0.1, 0.3, 1.0, 2.0};
constexpr std::array kShapes = {0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0, 128.0};
constexpr int kNewtonSteps = 50;
constexpr double kSettled = 1e-9;

// Samples of a class, and its exposure to the sampler in page-seconds.
struct Counted {
  double log_rate;
  double samples;
  double exposure;
};

// The likeliest logarithms of the worths, and the log of the marginal likelihood (Laplace's
// approximation) up to a constant.
struct Fit {
  std::vector<double> log_worth;
  double log_evidence;
};

// Poisson counts whose log rates are a random walk with drift. The first of them is free: a flat
// prior. Newton's method on a concave function, each step by a tridiagonal system.
Fit FitWalk(std::span<const Counted> counted, double slope, double step) {
  const std::size_t count = counted.size();
  double samples = 0;
  double exposure = 0;
  for (const Counted& each : counted) {
    samples += each.samples;
    exposure += each.exposure;
  }
  const double precision = 1 / (step * step);
  const auto drift = [&](std::size_t i) {  // from i to i + 1
    return slope * (counted[i + 1].log_rate - counted[i].log_rate);
  };
  const auto objective = [&](const std::vector<double>& at) {
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
      sum += counted[i].samples * at[i] - counted[i].exposure * std::exp(at[i]);
      if (i + 1 < count) {
        const double off = at[i + 1] - at[i] - drift(i);
        sum -= precision * off * off / 2;
      }
    }
    return sum;
  };
  std::vector<double> at(count, std::log(samples / exposure));
  std::vector<double> diagonal(count);
  std::vector<double> gradient(count);
  double value = objective(at);
  const auto differentiate = [&] {
    for (std::size_t i = 0; i < count; ++i) {
      const double expected = counted[i].exposure * std::exp(at[i]);
      gradient[i] = counted[i].samples - expected;
      diagonal[i] = expected;
    }
    for (std::size_t i = 0; i + 1 < count; ++i) {
      const double off = at[i + 1] - at[i] - drift(i);
      gradient[i] += precision * off;
      gradient[i + 1] -= precision * off;
      diagonal[i] += precision;
      diagonal[i + 1] += precision;
    }
  };
  // Eliminates the tridiagonal matrix whose other entries are -precision. The pivots' product is
  // its determinant.
  std::vector<double> pivot(count);
  const auto eliminate = [&] {
    for (std::size_t i = 0; i < count; ++i)
      pivot[i] = diagonal[i] - (i > 0 ? precision * precision / pivot[i - 1] : 0);
  };
  for (int n = 0; n < kNewtonSteps; ++n) {
    differentiate();
    eliminate();
    std::vector<double> move(gradient);
    for (std::size_t i = 1; i < count; ++i) move[i] += precision / pivot[i - 1] * move[i - 1];
    for (std::size_t i = count; i-- > 0;)
      move[i] = (move[i] + (i + 1 < count ? precision * move[i + 1] : 0)) / pivot[i];
    double part = 1;
    double reached = -std::numeric_limits<double>::infinity();
    std::vector<double> next(count);
    for (; part > kSettled; part /= 2) {
      for (std::size_t i = 0; i < count; ++i) next[i] = at[i] + part * move[i];
      reached = objective(next);
      if (reached >= value) break;
    }
    if (!(reached >= value)) break;
    const double gained = reached - value;
    at = next;
    value = reached;
    if (gained < kSettled * (1 + std::abs(value))) break;
  }
  differentiate();
  eliminate();
  double log_determinant = 0;
  for (const double each : pivot) log_determinant += std::log(each);
  const double log_prior_scale = static_cast<double>(count - 1) * std::log(precision);
  return {.log_worth = std::move(at),
          .log_evidence = value + log_prior_scale / 2 - log_determinant / 2};
}

}  // namespace

MemoryWorth::MemoryWorth(std::span<const SampledPages> seen) {
  std::vector<SampledPages> by_rate(seen.begin(), seen.end());
  slowest_ = std::numeric_limits<double>::infinity();
  for (const SampledPages& each : by_rate)
    if (each.rate > 0) slowest_ = std::min(slowest_, each.rate);
  if (std::isinf(slowest_)) slowest_ = 1;
  for (SampledPages& each : by_rate) {
    TMPROF_CHECK(each.pages > 0);
    each.rate = std::max(each.rate, slowest_);
  }
  std::ranges::sort(by_rate, {}, &SampledPages::rate);
  FitClasses(by_rate);
  FitSpread(by_rate);
}

// Classes have equal numbers of pages, as far as pages of one rate stay together.
void MemoryWorth::FitClasses(std::span<const SampledPages> by_rate) {
  double pages_left = 0;
  for (const SampledPages& each : by_rate) pages_left += each.pages;
  std::vector<Counted> counted;
  std::size_t classes_left = kMostClasses;
  for (std::size_t i = 0; i < by_rate.size();) {
    const double wanted = pages_left / static_cast<double>(classes_left);
    double pages = 0;
    Counted sum{};
    while (i < by_rate.size() &&
           (pages < wanted || classes_left == 1 || by_rate[i].rate == by_rate[i - 1].rate)) {
      const SampledPages& each = by_rate[i++];
      pages += each.pages;
      sum.log_rate += each.pages * std::log(each.rate);
      sum.samples += each.samples;
      sum.exposure += each.pages * each.seconds;
    }
    sum.log_rate /= pages;
    pages_left -= pages;
    classes_left = std::max<std::size_t>(classes_left - 1, 1);
    counted.push_back(sum);
  }
  double samples = 0;
  double exposure = 0;
  for (const Counted& each : counted) {
    samples += each.samples;
    exposure += each.exposure;
  }
  TMPROF_CHECK(samples > 0 && exposure > 0);
  Fit best{.log_worth = {}, .log_evidence = -std::numeric_limits<double>::infinity()};
  for (const double slope : kSlopes) {
    for (const double step : kSteps) {
      Fit fit = FitWalk(counted, slope, step);
      if (fit.log_evidence > best.log_evidence) best = std::move(fit);
    }
  }
  for (std::size_t i = 0; i < counted.size(); ++i)
    classes_.push_back({.log_rate = counted[i].log_rate, .log_worth = best.log_worth[i]});
}

// The counts of pages are negative binomial.
void MemoryWorth::FitSpread(std::span<const SampledPages> seen) {
  std::vector<double> expected;
  for (const SampledPages& each : seen)
    expected.push_back(each.pages * each.seconds * OfRate(each.rate));
  double best = -std::numeric_limits<double>::infinity();
  for (const double shape : kShapes) {
    double log_likelihood = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const double samples = seen[i].samples;
      log_likelihood -= (shape + samples) * std::log1p(expected[i] / shape);
      if (samples > 0)
        log_likelihood +=
            std::lgamma(shape + samples) - std::lgamma(shape) - samples * std::log(shape);
    }
    if (!(log_likelihood > best)) continue;
    best = log_likelihood;
    shape_ = shape;
  }
}

double MemoryWorth::LogWorth(double rate) const {
  const double log_rate = std::log(std::max(rate, slowest_));
  const auto above = std::ranges::upper_bound(classes_, log_rate, {}, &Class::log_rate);
  if (above == classes_.begin()) return classes_.front().log_worth;
  if (above == classes_.end()) return classes_.back().log_worth;
  const Class& below = *std::prev(above);
  const double part = (log_rate - below.log_rate) / (above->log_rate - below.log_rate);
  return below.log_worth + part * (above->log_worth - below.log_worth);
}

double MemoryWorth::OfRate(double rate) const { return std::exp(LogWorth(rate)); }

MemoryWorth::Moments MemoryWorth::OfPages(const SampledPages& seen) const {
  const double worth = OfRate(seen.rate);
  const double scale = worth / (shape_ + worth * seen.pages * seen.seconds);
  const double mean = (shape_ + seen.samples) * scale;
  return {.mean = mean, .variance = mean * scale};
}

}  // namespace tmprof
