// SPDX-License-Identifier: Apache-2.0

#include "rank/worth_curve.h"

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

// All classes have equal numbers of pages, except that the fastest is cut in half repeatedly,
// because a small tier 1 holds a part of it. No cut leaves a class fewer pages than this.
constexpr std::size_t kMostClasses = 16;
constexpr int kMostCuts = 4;
constexpr double kFewestCut = 4;
// Hyperparameters are chosen from these by their marginal likelihood. From class to class the
// logarithm of the worth changes by `slope` times that of the rate, and by chance, with one of
// these standard deviations.
constexpr std::array kSlopes = {0.0, 0.5, 1.0};
constexpr std::array kSteps = {0.1, 0.3, 1.0, 2.0};
constexpr int kRounds = 3;
constexpr int kNewtonSteps = 50;
constexpr double kSettledWorth = 1e-9;

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
  std::vector<double> pivot;
  double log_evidence;
};

// Poisson counts whose log rates are a random walk with drift. The first of them is free: a flat
// prior. Newton's method on a concave function, each step by a tridiagonal system; it starts from
// the same worth for all.
Fit FitWalk(std::span<const Counted> counted, double mean_worth, double slope, double step) {
  const std::size_t count = counted.size();
  const double precision = 1 / (step * step);
  const auto drift = [&](std::size_t i) {  // the step from i to i + 1
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
  std::vector<double> at(count, std::log(mean_worth));
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
    for (; part > kSettledWorth; part /= 2) {
      for (std::size_t i = 0; i < count; ++i) next[i] = at[i] + part * move[i];
      reached = objective(next);
      if (reached >= value) break;
    }
    if (!(reached >= value)) break;
    const double gained = reached - value;
    at = next;
    value = reached;
    if (gained < kSettledWorth * (1 + std::abs(value))) break;
  }
  differentiate();
  eliminate();
  double log_determinant = 0;
  for (const double each : pivot) log_determinant += std::log(each);
  const double log_prior_scale = static_cast<double>(count - 1) * std::log(precision);
  return {.log_worth = std::move(at),
          .pivot = std::move(pivot),
          .log_evidence = value + log_prior_scale / 2 - log_determinant / 2};
}

}  // namespace

WorthCurve::WorthCurve(std::span<const SampledPages> seen) {
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
}

WorthCurve WorthCurve::InProportion(double samples_per_access) {
  WorthCurve curve;
  curve.classes_ = {{.log_rate = 0, .log_worth = std::log(samples_per_access)}};
  curve.slope_ = 1;
  curve.slowest_ = std::numeric_limits<double>::min();
  return curve;
}

// Pages of one rate stay together.
void WorthCurve::FitClasses(std::span<const SampledPages> by_rate) {
  double pages_left = 0;
  for (const SampledPages& each : by_rate) pages_left += each.times * each.pages;
  std::vector<double> parts(kMostClasses, pages_left / kMostClasses);
  for (int cut = 0; cut < kMostCuts && parts.back() >= 2 * kFewestCut; ++cut) {
    parts.back() /= 2;
    parts.push_back(parts.back());
  }
  std::vector<Counted> counted;
  std::vector<std::size_t> class_ends;
  double samples = 0;
  double exposure = 0;
  double ends = 0;  // pages of this class and those before
  double pages_before = 0;
  std::size_t part = 0;
  for (std::size_t i = 0; i < by_rate.size();) {
    while (part < parts.size() && ends <= pages_before) ends += parts[part++];
    double pages = 0;
    Counted sum{};
    while (i < by_rate.size() && (pages_before + pages < ends || part == parts.size() ||
                                  by_rate[i].rate == by_rate[i - 1].rate)) {
      const SampledPages& each = by_rate[i++];
      pages += each.times * each.pages;
      sum.log_rate += each.times * each.pages * std::log(each.rate);
      sum.samples += each.times * each.samples;
      sum.exposure += each.times * each.pages * each.seconds * each.factor;
    }
    sum.log_rate /= pages;
    pages_before += pages;
    samples += sum.samples;
    exposure += sum.exposure;
    counted.push_back(sum);
    class_ends.push_back(i);
  }
  TMPROF_CHECK(samples > 0 && exposure > 0);
  std::vector<double> log_evidence;
  for (const double slope : kSlopes) {
    for (const double step : kSteps) {
      Fit fit = FitWalk(counted, samples / exposure, slope, step);
      log_evidence.push_back(fit.log_evidence);
      choices_.push_back({.weight = 0,
                          .slope = slope,
                          .precision = 1 / (step * step),
                          .log_worth = std::move(fit.log_worth),
                          .pivot = std::move(fit.pivot)});
    }
  }
  const auto best = std::ranges::max_element(log_evidence);
  for (std::size_t i = 0; i < choices_.size(); ++i)
    choices_[i].weight = std::exp(log_evidence[i] - *best);
  const Choice& chosen = choices_[static_cast<std::size_t>(best - log_evidence.begin())];
  slope_ = chosen.slope;
  for (std::size_t i = 0; i < counted.size(); ++i)
    classes_.push_back({.log_rate = counted[i].log_rate, .log_worth = chosen.log_worth[i]});
  KeepSamplesOfClasses(by_rate, class_ends);
}

// The mean worth of a class of many rates is not the worth of its mean rate: worths are shifted
// until the curve expects of each class what the fit does.
void WorthCurve::KeepSamplesOfClasses(std::span<const SampledPages> by_rate,
                                      std::span<const std::size_t> ends) {
  for (int round = 0; round < kRounds; ++round) {
    std::vector<double> shifts;
    std::size_t i = 0;
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      double fitted = 0;
      double expected = 0;
      for (; i < ends[c]; ++i) {
        const double exposure =
            by_rate[i].times * by_rate[i].pages * by_rate[i].seconds * by_rate[i].factor;
        fitted += exposure * std::exp(classes_[c].log_worth - classes_[c].shift);
        expected += exposure * OfRate(by_rate[i].rate);
      }
      shifts.push_back(fitted > 0 && expected > 0 ? std::log(fitted / expected) : 0);
    }
    for (std::size_t c = 0; c < classes_.size(); ++c) {
      classes_[c].log_worth += shifts[c];
      classes_[c].shift += shifts[c];
    }
  }
}

WorthCurve WorthCurve::Draw(std::mt19937_64& random) const {
  TMPROF_CHECK(!choices_.empty());
  std::vector<double> weights;
  for (const Choice& each : choices_) weights.push_back(each.weight);
  const Choice& choice =
      choices_[std::discrete_distribution<std::size_t>(weights.begin(), weights.end())(random)];
  WorthCurve drawn;
  drawn.slope_ = choice.slope;
  drawn.slowest_ = slowest_;
  drawn.classes_ = classes_;
  std::normal_distribution<double> normal;
  double off = 0;
  for (std::size_t i = classes_.size(); i-- > 0;) {
    off = normal(random) / std::sqrt(choice.pivot[i]) +
          (i + 1 < classes_.size() ? choice.precision / choice.pivot[i] * off : 0);
    drawn.classes_[i].log_worth = choice.log_worth[i] + off + classes_[i].shift;
  }
  return drawn;
}

double WorthCurve::LogOfRate(double rate) const {
  const double log_rate = std::log(std::max(rate, slowest_));
  const auto above = std::ranges::upper_bound(classes_, log_rate, {}, &Class::log_rate);
  const auto beyond = [&](const Class& outermost) {
    return outermost.log_worth + slope_ * (log_rate - outermost.log_rate);
  };
  if (above == classes_.begin()) return beyond(classes_.front());
  if (above == classes_.end()) return beyond(classes_.back());
  const Class& below = *std::prev(above);
  const double part = (log_rate - below.log_rate) / (above->log_rate - below.log_rate);
  return below.log_worth + part * (above->log_worth - below.log_worth);
}

double WorthCurve::OfRate(double rate) const { return std::exp(LogOfRate(rate)); }

}  // namespace tmprof
