// SPDX-License-Identifier: Apache-2.0

#include "rank/memory_worth.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/check.h"

namespace tmprof {
namespace {

constexpr std::array kShapes = {0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 32.0, 128.0};
constexpr double kShapeUntold = 2;  // the median of those above, as good as any without samples
// The spread is no Gamma distribution, so that likelihoods of its shapes count half.
constexpr double kTrustInShapes = 0.5;

}  // namespace

MemoryWorth::MemoryWorth(std::span<const SampledPages> seen) : by_samples_(WorthCurve(seen)) {
  FitSpread(seen);
}

MemoryWorth MemoryWorth::InProportion(double samples_per_access) {
  MemoryWorth worth;
  worth.by_samples_ = WorthCurve::InProportion(samples_per_access);
  worth.shape_ = kShapes.back();
  return worth;
}

MemoryWorth MemoryWorth::ByCache(std::vector<ModelledCache> caches, double speed) {
  TMPROF_CHECK(!caches.empty());
  MemoryWorth worth;
  worth.cached_ = {.caches = std::move(caches), .speed = speed};
  worth.shape_ = kShapeUntold;
  return worth;
}

MemoryWorth MemoryWorth::WithCache(std::size_t cache, double shape) const {
  TMPROF_CHECK(cached_ && cache < cached_->caches.size());
  MemoryWorth drawn = *this;
  drawn.cached_->caches = {cached_->caches[cache]};
  drawn.cached_->caches.front().chance = 1;
  drawn.shape_ = shape;
  return drawn;
}

double MemoryWorth::DrawShape(std::mt19937_64& random) {
  return kShapes[std::uniform_int_distribution<std::size_t>(0, kShapes.size() - 1)(random)];
}

MemoryWorth::Moments MemoryWorth::OfRateBy(const Cached& cached, double rate) const {
  double sum = 0;
  double squares = 0;
  for (const auto& [model, samples_per_access, chance] : cached.caches) {
    const double worth = samples_per_access * rate * model.PartToMemory(rate * cached.speed);
    sum += chance * worth;
    squares += chance * worth * worth;
  }
  return {.mean = sum, .variance = std::max(0.0, squares - sum * sum)};
}

// The counts of pages are negative binomial.
void MemoryWorth::FitSpread(std::span<const SampledPages> seen) {
  std::vector<double> expected;
  for (const SampledPages& each : seen)
    expected.push_back(each.pages * each.seconds * each.factor * OfRate(each.rate));
  std::vector<double> log_likelihoods;
  for (const double shape : kShapes) {
    double log_likelihood = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      const double samples = seen[i].samples;
      double of_pages = -(shape + samples) * std::log1p(expected[i] / shape);
      if (samples > 0)
        of_pages += std::lgamma(shape + samples) - std::lgamma(shape) - samples * std::log(shape);
      log_likelihood += seen[i].times * of_pages;
    }
    log_likelihoods.push_back(log_likelihood);
  }
  const auto best = std::ranges::max_element(log_likelihoods);
  shape_ = kShapes[static_cast<std::size_t>(best - log_likelihoods.begin())];
  for (const double each : log_likelihoods)
    weight_of_shape_.push_back(std::exp(kTrustInShapes * (each - *best)));
}

MemoryWorth MemoryWorth::Draw(std::mt19937_64& random) const {
  MemoryWorth drawn;
  drawn.by_samples_ = by_samples_->Draw(random);
  drawn.shape_ = kShapes[std::discrete_distribution<std::size_t>(weight_of_shape_.begin(),
                                                                 weight_of_shape_.end())(random)];
  return drawn;
}

double MemoryWorth::OfRate(double rate) const {
  return cached_ ? OfRateBy(*cached_, rate).mean : by_samples_->OfRate(rate);
}

MemoryWorth::Moments MemoryWorth::OfPages(const SampledPages& seen) const {
  const Moments of_rate = cached_ ? OfRateBy(*cached_, seen.rate)
                                  : Moments{.mean = seen.factor * by_samples_->OfRate(seen.rate)};
  const double worth = of_rate.mean;
  const double scale = worth / (shape_ + worth * seen.pages * seen.seconds);
  const double mean = ShapeOf(seen) * scale;
  // A page's own samples do not bring models together: there are too few of them.
  const double apart = worth > 0 ? of_rate.variance / (worth * worth) : 0;
  return {.mean = mean, .variance = mean * scale + apart * mean * mean};
}

}  // namespace tmprof
