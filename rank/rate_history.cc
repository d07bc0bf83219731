// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "rank/exponentials.h"
#include "rank/mixing_weights.h"
#include "rank/rate_chain.h"

namespace tmprof {
namespace {

// The persistence is learned from this many spans, evenly spaced. They are enough to tell two
// candidates that differ by a factor of two, and few enough to try all of them in some 50 ms.
constexpr std::size_t kSpansToLearnFrom = 4096;

// A step of a span is at least so likely at each rate. Below e^-30 of the best a fit takes a rate
// for impossible (Mixture), and evidence that contradicts itself must stay possible.
constexpr double kLeastLogLikelihood = -40;

double Sum(const std::vector<double>& terms) {
  return std::accumulate(terms.begin(), terms.end(), 0.0);
}

}  // namespace

RateHistory::RateHistory(std::size_t steps) : steps_(steps) { TMPROF_CHECK(steps > 0); }

void RateHistory::BeginTarget(TargetSteps target) {
  TMPROF_CHECK(target.cpu_seconds.size() == steps_ && target.middles.size() == steps_);
  targets_.push_back(std::move(target));
}

void RateHistory::AddSpan(std::span<const RateEvidence> steps) {
  TMPROF_CHECK(steps.size() == steps_ && !targets_.empty());
  RateEvidence sum{.pages = steps.front().pages};
  for (const RateEvidence& step : steps) {
    kinds_.push_back(sorter_.Add(step));
    sum.Add(step);
  }
  spans_.push_back({.sum = sum, .target = static_cast<std::uint32_t>(targets_.size() - 1)});
}

AccessEstimates RateHistory::EstimateSteady() const {
  std::vector<RateEvidence> sums;
  sums.reserve(spans_.size());
  for (const Span& span : spans_) sums.push_back(span.sum);
  RateEstimates rates = EstimateRates(sums);
  std::vector<double> cpu_seconds;
  for (const TargetSteps& target : targets_) cpu_seconds.push_back(Sum(target.cpu_seconds));
  AccessEstimates estimates{.accesses = std::move(rates.accesses_per_second),
                            .relative_sd = std::move(rates.relative_sd)};
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    estimates.accesses[i] *= cpu_seconds[spans_[i].target];
  }
  return estimates;
}

std::size_t RateHistory::StrideToLearnFrom() const {
  return std::max<std::size_t>(1, spans_.size() / kSpansToLearnFrom);
}

// All steps if rates last throughout. These are distributed otherwise than single steps suggest,
// which cannot tell fast pages apart: a page that first reads found in six of eight steps has one
// rate between two that a single step would explain.
RateHistory::Steady RateHistory::FitSteady(const Mixture& mixture, std::size_t kinds) const {
  const std::size_t points = mixture.rates().size();
  std::vector<std::vector<double>> log_of_kind(kinds);
  const auto log_of = [&](std::uint32_t kind) {
    std::vector<double>& logs = log_of_kind[kind];
    if (!logs.empty()) return logs.data();
    for (const double value : mixture.Likelihood(kind))
      logs.push_back(std::max(kLeastLogLikelihood, std::log(value)));
    return logs.data();
  };
  double of_best_rates = 0;
  std::vector<double> likelihood;
  for (std::size_t i = 0; i < spans_.size(); i += StrideToLearnFrom()) {
    likelihood.resize(likelihood.size() + points, 0.0);
    const std::span row = std::span(likelihood).last(points);
    for (const std::uint32_t kind : KindsOf(i)) {
      const double* const more = log_of(kind);
      for (std::size_t j = 0; j < points; ++j) row[j] += more[j];
    }
    const double best = std::ranges::max(row);
    of_best_rates += best;
    for (double& value : row) value -= best;
  }
  Exponentiate(likelihood);
  std::vector<LikelihoodRow> rows;
  for (std::size_t begin = 0; begin < likelihood.size(); begin += points)
    rows.push_back({&likelihood[begin], 0, points, 1});
  std::vector<double> prior = FitMixingWeights(rows, points, mixture.prior());
  // Smoothed like the prior of changing rates, so that both compare.
  prior = Mixture::Smooth(WithoutChance(rows, std::move(prior)));
  double sum = of_best_rates;
  for (const LikelihoodRow& row : rows) sum += std::log(Mass(row, prior));
  return {.log_likelihood = sum, .prior = std::move(prior)};
}

// The persistence under which the evidence is the most likely; nullopt: rates last throughout.
// `chain` gets the prior that goes with it: that of single steps, or that of steady rates.
std::optional<double> RateHistory::LearnPersistence(const Mixture& mixture, std::size_t kinds,
                                                    RateChain& chain) const {
  double length = 0;
  for (const TargetSteps& target : targets_) {
    length = std::max(length, target.middles.back() - target.middles.front());
  }
  if (length <= 0) return std::nullopt;
  const std::size_t stride = StrideToLearnFrom();
  const auto log_likelihood = [&](double persistence) {
    double sum = 0;
    std::optional<std::uint32_t> target;
    for (std::size_t i = 0; i < spans_.size(); i += stride) {
      if (target != spans_[i].target) {
        target = spans_[i].target;
        chain.SetPersistence(persistence, targets_[*target].middles);
      }
      sum += chain.Filter(KindsOf(i));
    }
    return sum;
  };
  std::optional<double> best;
  const Steady steady = FitSteady(mixture, kinds);
  double most = steady.log_likelihood;
  const double shortest = length / static_cast<double>(steps_ - 1) / 2;
  const std::vector<double>* best_prior = nullptr;
  for (const std::vector<double>* prior : {&steady.prior, &mixture.prior()}) {
    chain.SetPrior(*prior);
    for (double persistence = 4 * length; persistence >= shortest; persistence /= 2) {
      const double likely = log_likelihood(persistence);
      if (likely > most) {
        most = likely;
        best = persistence;
        best_prior = prior;
      }
    }
  }
  if (best_prior != nullptr) chain.SetPrior(*best_prior);
  return best;
}

AccessEstimates RateHistory::Estimate(const std::function<void(const PartOfStep&)>& visit) && {
  if (steps_ == 1 || spans_.empty()) return EstimateSteady();
  const std::vector<RateKind> kinds = std::move(sorter_).Take();
  RateFit fit = FitRates(kinds);
  fit.mixture.SmoothPrior();
  RateChain chain(fit.mixture, kinds.size(), steps_);
  const std::optional<double> persistence = LearnPersistence(fit.mixture, kinds.size(), chain);
  if (!persistence) return EstimateSteady();

  AccessEstimates estimates;
  estimates.accesses.reserve(spans_.size());
  estimates.relative_sd.reserve(spans_.size());
  std::optional<std::uint32_t> target;
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    const TargetSteps& steps = targets_[spans_[i].target];
    if (target != spans_[i].target) {
      target = spans_[i].target;
      chain.SetPersistence(*persistence, steps.middles);
    }
    double accesses = 0;
    double sd = 0;
    chain.Smooth(KindsOf(i), [&](std::size_t step, const std::vector<float>& weights, float mass) {
      const RateChain::Moments rate = chain.MomentsOf(weights, mass);
      const double cpu_seconds = steps.cpu_seconds[step];
      accesses += cpu_seconds * rate.mean;
      sd += cpu_seconds * rate.sd;
      if (!visit) return;
      visit({.span = i,
             .step = step,
             .accesses = cpu_seconds * rate.mean,
             .relative_sd =
                 rate.mean > 0 ? rate.sd / rate.mean : std::numeric_limits<double>::infinity()});
    });
    estimates.accesses.push_back(accesses);
    estimates.relative_sd.push_back(accesses > 0 ? sd / accesses
                                                 : std::numeric_limits<double>::infinity());
  }
  return estimates;
}

ChanceBounds RateHistory::EstimateChances(ChanceQuestions questions, const VisitChances& visit) && {
  ChancesInput input{.steps = steps_};
  for (const Span& span : spans_) {
    input.spans.push_back({.target = span.target, .pages = span.sum.pages});
  }
  input.kinds = std::move(sorter_).Take();
  if (steps_ > 1 && !spans_.empty()) {
    RateFit fit = FitRates(input.kinds);
    fit.mixture.SmoothPrior();
    RateChain chain(fit.mixture, input.kinds.size(), steps_);
    input.persistence = LearnPersistence(fit.mixture, input.kinds.size(), chain);
  }
  input.targets = std::move(targets_);
  input.kind_of = std::move(kinds_);
  if (!input.persistence && steps_ > 1) {
    input.steps = 1;
    for (TargetSteps& target : input.targets) target = {{Sum(target.cpu_seconds)}, {0}};
    for (auto& ages : questions.idle_cpu_seconds) {
      for (std::vector<double>& steps : ages) steps = {Sum(steps)};
    }
    RateKinds sums;
    input.kind_of.clear();
    for (const Span& span : spans_) input.kind_of.push_back(sums.Add(span.sum));
    input.kinds = std::move(sums).Take();
  }
  return tmprof::EstimateChances(input, questions, visit);
}

}  // namespace tmprof
