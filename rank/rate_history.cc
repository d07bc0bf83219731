// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace tmprof {
namespace {

// The persistence is learned from so many spans, evenly spaced: enough to tell two candidates that
// differ by a factor of two, few enough to try all of them in some 50 ms.
constexpr std::size_t kSpansToLearnFrom = 4096;

// A rate that lasts for so many times the time watched lasts throughout. Not for ever: evidence
// that contradicts itself must stay possible, if only just.
constexpr double kThroughout = 1e6;

// A hidden Markov chain over the grid of rates: in a gap of d seconds a rate stays as it is with
// the chance exp(-d / persistence), and else is drawn anew from the prior. That it forgets where it
// came from makes a step linear in the grid's points.
//
// Columns are padded with zeros to whole vectors of the processor.
class Chain {
 public:
  Chain(const Mixture& mixture, std::size_t kinds, const std::vector<double>& middles)
      : points_(mixture.rates().size()),
        width_((points_ + kLanes - 1) / kLanes * kLanes),
        rates_(Padded(mixture.rates())),
        prior_(Padded(mixture.prior())),
        likelihood_(kinds * width_),
        middles_(middles),
        stay_(middles.size(), 1.0F),
        renew_(middles.size(), 0.0F),
        filtered_(middles.size() * width_),
        ahead_(width_) {
    for (std::uint32_t kind = 0; kind < kinds; ++kind) {
      std::ranges::copy(mixture.Likelihood(kind), likelihood_.begin() + kind * width_);
    }
  }

  void SetPersistence(double seconds) {
    for (std::size_t s = 1; s < stay_.size(); ++s) {
      const double gaps = (middles_[s] - middles_[s - 1]) / seconds;
      stay_[s] = static_cast<float>(std::exp(-gaps));
      renew_[s] = static_cast<float>(-std::expm1(-gaps));
    }
  }

  // Log-likelihood of a span's evidence, up to a constant that does not depend on the persistence.
  double Filter(std::span<const std::uint32_t> kinds) {
    double log_likelihood = 0;
    const float* before = prior_.data();
    for (std::size_t s = 0; s < kinds.size(); ++s) {
      const float stay = stay_[s];
      const float renew = renew_[s];
      const float* seen = &likelihood_[kinds[s] * width_];
      float* now = &filtered_[s * width_];
      float mass = 0;
#pragma omp simd reduction(+ : mass)
      for (std::size_t j = 0; j < width_; ++j) {
        now[j] = (stay * before[j] + renew * prior_[j]) * seen[j];
        mass += now[j];
      }
      const float scale = 1 / mass;
#pragma omp simd
      for (std::size_t j = 0; j < width_; ++j) now[j] *= scale;
      log_likelihood += std::log(mass);
      before = now;
    }
    return log_likelihood;
  }

  // Moments of a span's rate in each step, given the evidence of all steps.
  struct Moments {
    double mean;
    double sd;
  };
  template <typename Visit>  // Visit(step, Moments), last step first
  void Smooth(std::span<const std::uint32_t> kinds, Visit visit) {
    Filter(kinds);
    std::ranges::fill(ahead_, 1.0F);
    for (std::size_t s = kinds.size(); s-- > 0;) {
      const float* now = &filtered_[s * width_];
      float mass = 0;
      float first = 0;
      float second = 0;
#pragma omp simd reduction(+ : mass, first, second)
      for (std::size_t j = 0; j < width_; ++j) {
        const float weight = now[j] * ahead_[j];
        mass += weight;
        first += weight * rates_[j];
        second += weight * rates_[j] * rates_[j];
      }
      const double mean = first / mass;
      visit(s, Moments{mean, std::sqrt(std::max(0.0, second / mass - mean * mean))});
      if (s == 0) break;

      const float* seen = &likelihood_[kinds[s] * width_];
      float redrawn = 0;
#pragma omp simd reduction(+ : redrawn)
      for (std::size_t j = 0; j < width_; ++j) {
        ahead_[j] *= seen[j];
        redrawn += prior_[j] * ahead_[j];
      }
      // Any common factor will do: this one keeps the redrawn part at 1.
      const float stay = stay_[s] / redrawn;
      const float renew = renew_[s];
#pragma omp simd
      for (std::size_t j = 0; j < width_; ++j) ahead_[j] = stay * ahead_[j] + renew;
    }
  }

 private:
  static constexpr std::size_t kLanes = 8;  // floats of an AVX register

  std::vector<float> Padded(const std::vector<double>& column) const {
    std::vector<float> padded(width_);
    std::ranges::transform(column, padded.begin(),
                           [](double value) { return static_cast<float>(value); });
    return padded;
  }

  std::size_t points_;
  std::size_t width_;
  std::vector<float> rates_;
  std::vector<float> prior_;
  std::vector<float> likelihood_;  // row-major, a row per kind
  std::vector<double> middles_;
  std::vector<float> stay_;   // per step: the chance that a rate is still that of the step before
  std::vector<float> renew_;  // 1 - stay_, which a float next to 1 would not tell
  std::vector<float> filtered_;  // row-major, a row per step: given the evidence up to it
  std::vector<float> ahead_;     // likelihood of the evidence of later steps
};

// The persistence under which the evidence is the most likely.
double LearnPersistence(Chain& chain, const std::vector<std::uint32_t>& kinds,
                        const std::vector<double>& middles) {
  const std::size_t steps = middles.size();
  const std::size_t spans = kinds.size() / steps;
  const std::size_t stride = std::max<std::size_t>(1, spans / kSpansToLearnFrom);
  const auto log_likelihood = [&](double persistence) {
    chain.SetPersistence(persistence);
    double sum = 0;
    for (std::size_t i = 0; i < spans; i += stride) {
      sum += chain.Filter(std::span(kinds).subspan(i * steps, steps));
    }
    return sum;
  };
  const double length = middles.back() - middles.front();
  double best = kThroughout * length;
  double most = log_likelihood(best);
  const double shortest = length / static_cast<double>(steps - 1) / 2;
  for (double persistence = 4 * length; persistence >= shortest; persistence /= 2) {
    const double likely = log_likelihood(persistence);
    if (likely > most) {
      most = likely;
      best = persistence;
    }
  }
  return best;
}

}  // namespace

RateHistory::RateHistory(std::vector<double> middles) : middles_(std::move(middles)) {
  TMPROF_CHECK(!middles_.empty());
}

void RateHistory::BeginTarget(std::vector<double> cpu_seconds) {
  TMPROF_CHECK(cpu_seconds.size() == middles_.size());
  cpu_seconds_.push_back(std::move(cpu_seconds));
}

void RateHistory::AddSpan(std::span<const RateEvidence> steps) {
  TMPROF_CHECK(steps.size() == middles_.size() && !cpu_seconds_.empty());
  RateEvidence sum{.pages = steps.front().pages};
  for (const RateEvidence& step : steps) {
    kinds_.push_back(sorter_.Add(step));
    sum.Add(step);
  }
  spans_.push_back({.sum = sum, .target = static_cast<std::uint32_t>(cpu_seconds_.size() - 1)});
}

AccessEstimates RateHistory::EstimateSteady() const {
  std::vector<RateEvidence> sums;
  sums.reserve(spans_.size());
  for (const Span& span : spans_) sums.push_back(span.sum);
  RateEstimates rates = EstimateRates(sums);
  std::vector<double> cpu_seconds;
  for (const std::vector<double>& steps : cpu_seconds_) {
    cpu_seconds.push_back(std::accumulate(steps.begin(), steps.end(), 0.0));
  }
  AccessEstimates estimates{.accesses = std::move(rates.accesses_per_second),
                            .relative_sd = std::move(rates.relative_sd)};
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    estimates.accesses[i] *= cpu_seconds[spans_[i].target];
  }
  return estimates;
}

AccessEstimates RateHistory::Estimate(const std::function<void(const PartOfStep&)>& visit) && {
  const std::size_t steps = middles_.size();
  if (steps == 1 || spans_.empty()) return EstimateSteady();
  const std::vector<RateKind> kinds = std::move(sorter_).Take();
  RateFit fit = FitRates(kinds);
  fit.mixture.SmoothPrior();
  Chain chain(fit.mixture, kinds.size(), middles_);
  const double persistence = LearnPersistence(chain, kinds_, middles_);
  if (persistence > 4 * (middles_.back() - middles_.front())) return EstimateSteady();

  chain.SetPersistence(persistence);
  AccessEstimates estimates;
  estimates.accesses.reserve(spans_.size());
  estimates.relative_sd.reserve(spans_.size());
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const std::vector<double>& cpu_seconds = cpu_seconds_[spans_[i].target];
    double accesses = 0;
    double sd = 0;
    chain.Smooth(std::span(kinds_).subspan(i * steps, steps),
                 [&](std::size_t step, const Chain::Moments& rate) {
                   accesses += cpu_seconds[step] * rate.mean;
                   sd += cpu_seconds[step] * rate.sd;
                   if (!visit) return;
                   visit({.span = i,
                          .step = step,
                          .accesses = cpu_seconds[step] * rate.mean,
                          .relative_sd = rate.mean > 0 ? rate.sd / rate.mean
                                                       : std::numeric_limits<double>::infinity()});
                 });
    estimates.accesses.push_back(accesses);
    estimates.relative_sd.push_back(accesses > 0 ? sd / accesses
                                                 : std::numeric_limits<double>::infinity());
  }
  return estimates;
}

}  // namespace tmprof
