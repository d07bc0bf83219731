// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_fit.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <utility>

#include "base/epoch_profile.h"
#include "rank/exponentials.h"

namespace tmprof {
namespace {

// The prior over rates is a weight per point of a logarithmic grid. A rate between two points is
// shared out to both, and equal pages then seem to differ by as much as the points do: a daemon
// that swaps pages takes smaller differences for none (mover/move_planner.h, MoveRules).
constexpr int kGridPointsPerOctave = 4;
constexpr double kGridMargin = 4;  // beyond the slowest and fastest rate the evidence can suggest
constexpr double kLowestRate = 1e-9;
constexpr double kHighestRate = 1e12;
// Flat pseudo-observations: a rate that nobody showed stays possible.
constexpr double kFlatObservations = 0.5;
// Rates under which a piece of evidence is e^-30 times as likely as under the best are impossible.
constexpr double kImpossible = -30;

// Evidence within a quarter of an octave is one observation. Far below its own uncertainty, and it
// bounds the work by the number of distinct outcomes, not by pages.
constexpr int kMantissaBitsKept = 2;

// A ladder cannot tell rates above 1 / its first interval apart. The 0.5 % quantile of the time to
// first access stands for it: the minimum would follow one mistimed read.
constexpr double kSaturationQuantile = 0.005;
constexpr double kSaturatedRate = 2;  // in units of 1 / that time
constexpr double kSaturatedBand = 2;  // times that time and below: the bits are at their limit

// The response is learned from unsaturated pages if these hold samples enough, and believed to be
// in proportion unless the evidence says otherwise.
constexpr double kSamplesForResponse = 30;
constexpr double kExponentPriorSd = 0.5;
constexpr double kExponentStep = 0.05;
constexpr double kUselessExponent = 0.2;
// Where bits were read, samples are not believed to show rates faster than this times what the bits
// can resolve: an exponent below 1 that was learned from few samples would extrapolate them by
// orders of magnitude.
constexpr double kBeyondBits = 16;

// A double's exponent and the first bits of its mantissa.
std::uint64_t LogCode(double value) {
  constexpr int kMantissaBits = std::numeric_limits<double>::digits - 1;
  return value <= 0 ? 0
                    : std::bit_cast<std::uint64_t>(value) >> (kMantissaBits - kMantissaBitsKept);
}
// Exact up to 5, logarithmic for more.
std::uint64_t CountCode(double count) { return LogCode(1 + 4 * count); }

// Base pages behind the bit that was read: those of a huge page, or one, of a region as of a page.
double EntryPages(const RateKind& kind) {
  const double pages = kind.mean.pages;
  const auto whole = static_cast<std::uint64_t>(pages);
  return static_cast<double>(whole) == pages && IsOneEntry(whole) ? pages : 1;
}

// The time at risk of the entries that were read, one at a time.
double EntrySeconds(const RateKind& kind) {
  return kind.mean.seconds_at_risk * kind.mean.pages / EntryPages(kind);
}

// Per entry size, the shortest time to first access that the bits can resolve, seconds; entries of
// each size are read on a ladder of their own.
std::map<double, double> ShortestTimes(const std::vector<RateKind>& kinds) {
  struct Time {
    double seconds;
    double pieces;
  };
  std::map<double, std::vector<Time>> times;
  for (const RateKind& kind : kinds) {
    if (kind.looked_at() && kind.mean.first_accesses > 0) {
      times[EntryPages(kind)].push_back(
          {EntrySeconds(kind) / kind.mean.first_accesses, kind.pieces});
    }
  }
  std::map<double, double> shortest;
  for (auto& [pages, list] : times) {
    std::ranges::sort(list, {}, &Time::seconds);
    double left = 0;
    for (const Time& time : list) left += time.pieces;
    left *= kSaturationQuantile;
    for (const Time& time : list) {
      shortest[pages] = time.seconds;
      if ((left -= time.pieces) <= 0) break;
    }
  }
  return shortest;
}

// Adds, up to a constant, the bits' log-likelihood of a span each of whose pages is accessed at one
// rate, for each rate of the grid.
void AddBitLogLikelihood(const RateKind& kind, const Mixture& mixture,
                         const std::map<double, double>& shortest, double* log_likelihood) {
  if (!kind.looked_at()) return;
  double most = std::numeric_limits<double>::infinity();
  const double entry_pages = EntryPages(kind);
  if (const auto it = shortest.find(entry_pages); it != shortest.end()) {
    most = kSaturatedRate / it->second / entry_pages;
  }
  const double page_seconds_at_risk = kind.mean.seconds_at_risk * kind.mean.pages;
  const double log_most = std::log(most);
  for (std::size_t j = 0; j < mixture.rates().size(); ++j) {
    log_likelihood[j] += kind.mean.first_accesses * std::min(mixture.log_rates()[j], log_most) -
                         std::min(mixture.rates()[j], most) * page_seconds_at_risk;
  }
}

std::vector<double> Powers(const std::vector<double>& rates, double exponent) {
  std::vector<double> result(rates.size());
  std::ranges::transform(rates, result.begin(),
                         [exponent](double rate) { return std::pow(rate, exponent); });
  return result;
}

// Quasi-likelihood of the samples given what the bits alone say: any choice of kinds by their bits
// is unbiased, because bits and samples are independent given the rate.
SampleResponse LearnResponse(const std::vector<RateKind>& kinds, const Mixture& by_bits,
                             const std::map<double, double>& shortest) {
  const auto unsaturated = [&](const RateKind& kind) {
    const auto it = shortest.find(EntryPages(kind));
    return kind.looked_at() &&
           (it == shortest.end() ||
            EntrySeconds(kind) > kSaturatedBand * it->second * kind.mean.first_accesses);
  };
  const auto looked_at = [](const RateKind& kind) { return kind.looked_at(); };
  // Samples seen in all, and the log-likelihood and scale for one exponent, over chosen kinds.
  struct Outcome {
    double samples = 0;
    double log_likelihood = 0;
    double scale = 0;
  };
  const auto evaluate = [&](double exponent, auto use) {
    const std::vector<double> response = Powers(by_bits.rates(), exponent);
    Outcome outcome;
    double expected = 0;
    for (std::uint32_t k = 0; k < kinds.size(); ++k) {
      const RateEvidence& mean = kinds[k].mean;
      if (!use(kinds[k]) || mean.seconds_watched <= 0) continue;
      const double shape = by_bits.Mean(k, response) * mean.pages * mean.seconds_watched;
      const double samples = kinds[k].pieces * mean.samples;
      outcome.samples += samples;
      expected += kinds[k].pieces * shape;
      outcome.log_likelihood += samples * std::log(shape);
    }
    if (expected <= 0 || outcome.samples <= 0) return outcome;
    outcome.scale = outcome.samples / expected;
    outcome.log_likelihood += outcome.samples * std::log(outcome.scale) - outcome.samples;
    const double surprise = (1 - exponent) / kExponentPriorSd;
    outcome.log_likelihood -= surprise * surprise / 2;
    return outcome;
  };

  const Outcome proportional = evaluate(1, unsaturated);
  if (proportional.samples < kSamplesForResponse) {
    return {.scale = evaluate(1, looked_at).scale, .exponent = 1};
  }
  SampleResponse best{.scale = proportional.scale, .exponent = 1};
  double best_log_likelihood = proportional.log_likelihood;
  for (double exponent = 1 - kExponentStep; exponent > -kExponentStep / 2;
       exponent -= kExponentStep) {
    const Outcome outcome = evaluate(exponent, unsaturated);
    if (outcome.log_likelihood > best_log_likelihood) {
      best_log_likelihood = outcome.log_likelihood;
      best = {.scale = outcome.scale, .exponent = exponent};
    }
  }
  if (best.exponent < kUselessExponent) best = {.scale = 0, .exponent = 0};
  return best;
}

}  // namespace

std::uint32_t RateKinds::Add(const RateEvidence& evidence) {
  const Code code{
      CountCode(evidence.first_accesses) << 40 | CountCode(evidence.samples) << 20 |
          LogCode(evidence.seconds_at_risk),
      static_cast<std::uint64_t>(evidence.pages) << 16 | LogCode(evidence.seconds_watched)};
  const auto [at, is_new] = number_.try_emplace(code, static_cast<std::uint32_t>(kinds_.size()));
  if (is_new) kinds_.push_back({.pieces = 0, .mean = {.pages = evidence.pages}});
  RateKind& kind = kinds_[at->second];
  kind.pieces += 1;
  kind.mean.first_accesses += evidence.first_accesses;
  kind.mean.seconds_at_risk += evidence.seconds_at_risk;
  kind.mean.samples += evidence.samples;
  kind.mean.seconds_watched += evidence.seconds_watched;
  return at->second;
}

std::vector<RateKind> RateKinds::Take() && {
  for (RateKind& kind : kinds_) {
    kind.mean.first_accesses /= kind.pieces;
    kind.mean.seconds_at_risk /= kind.pieces;
    kind.mean.samples /= kind.pieces;
    kind.mean.seconds_watched /= kind.pieces;
  }
  return std::move(kinds_);
}

Mixture::Mixture(double lowest, double highest) {
  const double first = std::floor(std::log2(std::max(lowest, kLowestRate)));
  const double last = std::ceil(std::log2(std::min(highest, kHighestRate)));
  const auto points =
      static_cast<std::size_t>(std::max(1.0, last - first) * kGridPointsPerOctave) + 1;
  for (std::size_t j = 0; j < points; ++j) {
    const double octave = first + static_cast<double>(j) / kGridPointsPerOctave;
    rates_.push_back(std::exp2(octave));
    log_rates_.push_back(octave * std::numbers::ln2);
  }
  prior_.assign(points, 1 / static_cast<double>(points));
}

void Mixture::Observe(const std::vector<RateKind>& kinds, const AddLogLikelihood& add) {
  const std::size_t points = rates_.size();
  likelihood_.assign(kinds.size() * points, 0.0);
  possible_.resize(kinds.size());
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    double* row = &likelihood_[k * points];
    add(kinds[k], row);
    const double best = *std::max_element(row, row + points);
    const auto possible = [best](double value) { return value - best > kImpossible; };
    const auto begin = static_cast<std::size_t>(std::find_if(row, row + points, possible) - row);
    std::size_t end = points;
    while (!possible(row[end - 1])) --end;
    std::fill(row, row + begin, 0.0);
    for (std::size_t j = begin; j < end; ++j) row[j] -= best;
    Exponentiate({row + begin, row + end});
    std::fill(row + end, row + points, 0.0);
    possible_[k] = {begin, end};
  }
}

void Mixture::FitPrior(const std::vector<RateKind>& kinds, bool looked_at_only,
                       std::span<const double> near) {
  std::vector<LikelihoodRow> rows;
  rows.reserve(kinds.size());
  double pieces = 0;
  for (std::uint32_t k = 0; k < kinds.size(); ++k) {
    if (looked_at_only && !kinds[k].looked_at()) continue;
    rows.push_back(Row(k, kinds[k].pieces));
    pieces += kinds[k].pieces;
  }
  prior_ = WithoutChance(rows, FitMixingWeights(rows, rates_.size(), near));
  for (double& share : prior_) {
    share = (share * pieces + kFlatObservations / static_cast<double>(rates_.size())) /
            (pieces + kFlatObservations);
  }
}

void Mixture::SmoothPrior() {
  // Each pass widens a spike by half the square of a grid step: to a third of an octave in all.
  constexpr int kPasses = kGridPointsPerOctave * kGridPointsPerOctave / 4;
  for (int pass = 0; pass < kPasses; ++pass) {
    double before = prior_.front();
    for (std::size_t j = 0; j < prior_.size(); ++j) {
      const double here = prior_[j];
      const double after = j + 1 < prior_.size() ? prior_[j + 1] : here;
      prior_[j] = before / 4 + here / 2 + after / 4;
      before = here;
    }
  }
}

double Mixture::Mean(std::uint32_t kind, std::span<const double> value) const {
  const double* prior = prior_.data();
  const double* likelihood = Likelihood(kind).data();
  const double* of = value.data();
  double sum = 0;
  double mass = 0;
#pragma omp simd reduction(+ : sum, mass)
  for (std::size_t j = possible_[kind].begin; j < possible_[kind].end; ++j) {
    const double weight = prior[j] * likelihood[j];
    mass += weight;
    sum += weight * of[j];
  }
  return sum / mass;
}

// Positive: the prior is positive everywhere and the best point of a row is 1.
double Mixture::Mass(std::uint32_t kind) const { return tmprof::Mass(Row(kind), prior_); }

LikelihoodRow Mixture::Row(std::uint32_t kind, double observations) const {
  return {Likelihood(kind).data(), possible_[kind].begin, possible_[kind].end, observations};
}

RateFit FitRates(const std::vector<RateKind>& kinds) {
  const std::map<double, double> shortest = ShortestTimes(kinds);

  // The slowest and the fastest rate that bits can suggest.
  double slowest = kHighestRate;
  double fastest = kLowestRate;
  double samples = 0;
  bool any_bits = false;
  for (const RateKind& kind : kinds) {
    samples += kind.pieces * kind.mean.samples;
    if (!kind.looked_at()) continue;
    any_bits = true;
    const double one_event = 1 / (kind.mean.pages * kind.mean.seconds_at_risk);
    slowest = std::min(slowest, one_event);
    fastest = std::max(fastest, one_event);
  }
  for (const auto& [pages, seconds] : shortest) {
    fastest = std::max(fastest, kSaturatedRate / (seconds * pages) / kGridMargin);
  }

  SampleResponse response;
  std::vector<double> by_bits_alone;
  if (any_bits && samples <= 0) {
    response = {.scale = 0, .exponent = 0};  // how many would have been due is not known
  } else if (any_bits) {
    Mixture by_bits(slowest / kGridMargin, fastest * kGridMargin);
    by_bits.Observe(kinds, [&](const RateKind& kind, double* log_likelihood) {
      AddBitLogLikelihood(kind, by_bits, shortest, log_likelihood);
    });
    by_bits.FitPrior(kinds, /*looked_at_only=*/true);
    response = LearnResponse(kinds, by_bits, shortest);
    by_bits_alone = by_bits.prior();
  }

  // What the samples can suggest beyond it.
  const double believed = any_bits ? fastest * kBeyondBits : kHighestRate;
  if (samples > 0 && response.scale > 0) {
    for (const RateKind& kind : kinds) {
      if (kind.mean.seconds_watched <= 0) continue;
      const double watched = response.scale * kind.mean.pages * kind.mean.seconds_watched;
      fastest = std::max(
          fastest, std::pow(std::max(1.0, kind.mean.samples) / watched, 1 / response.exponent));
      if (!any_bits) slowest = std::min(slowest, 1 / watched);
    }
    fastest = std::min(fastest, believed);
  }
  Mixture mixture(slowest / kGridMargin, fastest * kGridMargin);
  const std::vector<double> sample_rate = Powers(mixture.rates(), response.exponent);
  mixture.Observe(kinds, [&](const RateKind& kind, double* log_likelihood) {
    AddBitLogLikelihood(kind, mixture, shortest, log_likelihood);
    const double watched = response.scale * kind.mean.pages * kind.mean.seconds_watched;
    const double exponent = kind.mean.samples * response.exponent;
    for (std::size_t j = 0; j < mixture.rates().size(); ++j) {
      log_likelihood[j] += exponent * mixture.log_rates()[j] - watched * sample_rate[j];
    }
  });
  // Spans that only samples show were chosen for having one: they would make the prior too hot.
  mixture.FitPrior(kinds, /*looked_at_only=*/any_bits, by_bits_alone);
  return {.mixture = std::move(mixture), .response = response};
}

std::vector<RateMoments> MomentsOf(const Mixture& mixture, std::size_t kinds) {
  std::vector<double> squares = mixture.rates();
  for (double& rate : squares) rate *= rate;
  std::vector<RateMoments> moments;
  moments.reserve(kinds);
  for (std::uint32_t kind = 0; kind < kinds; ++kind) {
    const double mean = mixture.Mean(kind, mixture.rates());
    moments.push_back({mean, std::max(0.0, mixture.Mean(kind, squares) - mean * mean)});
  }
  return moments;
}

}  // namespace tmprof
