// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <unordered_map>

namespace tmprof {
namespace {

// The prior over rates is a weight per point of a logarithmic grid. Half an octave is finer than
// any page is known: one first access leaves a factor of e (facts: variance of ln rate
// trigamma(n)).
constexpr double kGridPointsPerOctave = 2;
constexpr double kGridMargin = 4;  // beyond the slowest and fastest rate the evidence can suggest
constexpr double kLowestRate = 1e-9;
constexpr double kHighestRate = 1e12;
// Few iterations from a flat start keep the prior smooth: the fully converged one is a few spikes.
constexpr int kFitIterations = 40;
// Flat pseudo-observations: a rate that nobody showed stays possible.
constexpr double kFlatObservations = 0.5;

// Evidence closer than 2^(1/4) = 19 % is one observation. Far below its own uncertainty, and it
// bounds the work by the number of distinct outcomes, not by pages.
constexpr double kBinsPerOctave = 4;

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

struct Bin {
  double pages = 1;
  double rows = 0;
  RateEvidence mean;  // sums while binning

  bool looked_at() const { return mean.seconds_at_risk > 0; }
};

std::uint64_t LogCode(double value) {
  return value <= 0 ? 0
                    : static_cast<std::uint64_t>(
                          std::lround(std::log2(value * 1e9) * kBinsPerOctave + 1024));
}
// Exact up to 5, logarithmic for more.
std::uint64_t CountCode(double count) {
  return static_cast<std::uint64_t>(std::lround(std::log2(1 + 4 * count) * kBinsPerOctave));
}

struct Binned {
  std::vector<Bin> bins;  // in order of first appearance, so the hash has no say
  std::vector<std::uint32_t> bin_of_row;
};

Binned BinEvidence(std::span<const RateEvidence> evidence) {
  struct Code {
    std::uint64_t counts_and_times;
    std::uint64_t pages_and_watched;
    bool operator==(const Code&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Code& code) const {
      return (code.counts_and_times * 0x9E3779B97F4A7C15u) ^
             (code.pages_and_watched * 0xC2B2AE3D27D4EB4Fu);
    }
  };
  Binned result;
  result.bin_of_row.reserve(evidence.size());
  std::unordered_map<Code, std::uint32_t, Hash> index;
  for (const RateEvidence& row : evidence) {
    const Code code{CountCode(row.first_accesses) << 40 | CountCode(row.samples) << 20 |
                        LogCode(row.seconds_at_risk),
                    static_cast<std::uint64_t>(row.pages) << 16 | LogCode(row.seconds_watched)};
    const auto [at, is_new] =
        index.try_emplace(code, static_cast<std::uint32_t>(result.bins.size()));
    if (is_new) result.bins.push_back({.pages = row.pages});
    Bin& bin = result.bins[at->second];
    bin.rows += 1;
    bin.mean.first_accesses += row.first_accesses;
    bin.mean.seconds_at_risk += row.seconds_at_risk;
    bin.mean.samples += row.samples;
    bin.mean.seconds_watched += row.seconds_watched;
    result.bin_of_row.push_back(at->second);
  }
  for (Bin& bin : result.bins) {
    bin.mean.pages = bin.pages;
    bin.mean.first_accesses /= bin.rows;
    bin.mean.seconds_at_risk /= bin.rows;
    bin.mean.samples /= bin.rows;
    bin.mean.seconds_watched /= bin.rows;
  }
  return result;
}

// Per span size, the shortest time to first access that the bits can resolve, seconds; spans of
// each size are read on a ladder of their own.
std::map<double, double> ShortestTimes(const std::vector<Bin>& bins) {
  struct Time {
    double seconds;
    double rows;
  };
  std::map<double, std::vector<Time>> times;
  for (const Bin& bin : bins) {
    if (bin.looked_at() && bin.mean.first_accesses > 0) {
      times[bin.pages].push_back({bin.mean.seconds_at_risk / bin.mean.first_accesses, bin.rows});
    }
  }
  std::map<double, double> shortest;
  for (auto& [pages, list] : times) {
    std::ranges::sort(list, {}, &Time::seconds);
    double left = 0;
    for (const Time& time : list) left += time.rows;
    left *= kSaturationQuantile;
    for (const Time& time : list) {
      shortest[pages] = time.seconds;
      if ((left -= time.rows) <= 0) break;
    }
  }
  return shortest;
}

// Prior and posterior over a grid of rates. Row-major: one row of likelihoods per bin.
class Mixture {
 public:
  Mixture(double lowest, double highest) {
    const double first = std::floor(std::log2(std::max(lowest, kLowestRate)));
    const double last = std::ceil(std::log2(std::min(highest, kHighestRate)));
    const auto points =
        static_cast<std::size_t>(std::max(1.0, last - first) * kGridPointsPerOctave) + 1;
    for (std::size_t j = 0; j < points; ++j) {
      rate_.push_back(std::exp2(first + static_cast<double>(j) / kGridPointsPerOctave));
    }
    prior_.assign(points, 1 / static_cast<double>(points));
  }

  const std::vector<double>& rates() const { return rate_; }

  // log_likelihood(bin, grid point).
  template <typename LogLikelihood>
  void Observe(const std::vector<Bin>& bins, LogLikelihood log_likelihood) {
    likelihood_.resize(bins.size() * rate_.size());
    for (std::size_t b = 0; b < bins.size(); ++b) {
      double* row = &likelihood_[b * rate_.size()];
      double best = -std::numeric_limits<double>::infinity();
      for (std::size_t j = 0; j < rate_.size(); ++j) {
        row[j] = log_likelihood(bins[b], j);
        best = std::max(best, row[j]);
      }
      for (std::size_t j = 0; j < rate_.size(); ++j) row[j] = std::exp(row[j] - best);
    }
  }

  // Expectation-maximisation of the prior's weights over the bins that `use` admits.
  template <typename Use>
  void FitPrior(const std::vector<Bin>& bins, Use use) {
    std::vector<double> weight(rate_.size());
    for (int iteration = 0; iteration < kFitIterations; ++iteration) {
      std::ranges::fill(weight, kFlatObservations / static_cast<double>(rate_.size()));
      for (std::size_t b = 0; b < bins.size(); ++b) {
        if (!use(bins[b])) continue;
        const double* row = &likelihood_[b * rate_.size()];
        const double per_mass = bins[b].rows / Mass(row);
        for (std::size_t j = 0; j < rate_.size(); ++j) weight[j] += per_mass * prior_[j] * row[j];
      }
      double total = 0;
      for (const double w : weight) total += w;
      for (std::size_t j = 0; j < rate_.size(); ++j) prior_[j] = weight[j] / total;
    }
  }

  // Posterior mean of `value`, a column over the grid, for bin b.
  double Mean(std::size_t b, const std::vector<double>& value) const {
    const double* row = &likelihood_[b * rate_.size()];
    double sum = 0;
    for (std::size_t j = 0; j < rate_.size(); ++j) sum += prior_[j] * row[j] * value[j];
    return sum / Mass(row);
  }

 private:
  // Positive: the prior is positive everywhere and the best point of a row is 1.
  double Mass(const double* row) const {
    double mass = 0;
    for (std::size_t j = 0; j < rate_.size(); ++j) mass += prior_[j] * row[j];
    return mass;
  }

  std::vector<double> rate_;
  std::vector<double> prior_;
  std::vector<double> likelihood_;
};

// The bits' log-likelihood of a span whose pages are each accessed `rate` times a second.
double BitLogLikelihood(const Bin& bin, double rate, const std::map<double, double>& shortest) {
  if (!bin.looked_at()) return 0;
  double span_rate = rate * bin.pages;
  if (const auto it = shortest.find(bin.pages); it != shortest.end()) {
    span_rate = std::min(span_rate, kSaturatedRate / it->second);
  }
  return bin.mean.first_accesses * std::log(span_rate) - span_rate * bin.mean.seconds_at_risk;
}

std::vector<double> Powers(const std::vector<double>& rates, double exponent) {
  std::vector<double> result(rates.size());
  std::ranges::transform(rates, result.begin(),
                         [exponent](double rate) { return std::pow(rate, exponent); });
  return result;
}

// Quasi-likelihood of the samples given what the bits alone say: any choice of bins by their bits
// is unbiased, because bits and samples are independent given the rate.
SampleResponse LearnResponse(const std::vector<Bin>& bins, const Mixture& by_bits,
                             const std::map<double, double>& shortest) {
  const auto unsaturated = [&](const Bin& bin) {
    const auto it = shortest.find(bin.pages);
    return bin.looked_at() &&
           (it == shortest.end() ||
            bin.mean.seconds_at_risk > kSaturatedBand * it->second * bin.mean.first_accesses);
  };
  const auto looked_at = [](const Bin& bin) { return bin.looked_at(); };
  // Samples seen in all, and the log-likelihood and scale for one exponent, over chosen bins.
  struct Outcome {
    double samples = 0;
    double log_likelihood = 0;
    double scale = 0;
  };
  const auto evaluate = [&](double exponent, auto use) {
    const std::vector<double> response = Powers(by_bits.rates(), exponent);
    Outcome outcome;
    double expected = 0;
    for (std::size_t b = 0; b < bins.size(); ++b) {
      if (!use(bins[b]) || bins[b].mean.seconds_watched <= 0) continue;
      const double shape = by_bits.Mean(b, response) * bins[b].pages * bins[b].mean.seconds_watched;
      const double samples = bins[b].rows * bins[b].mean.samples;
      outcome.samples += samples;
      expected += bins[b].rows * shape;
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

RateEstimates EstimateRates(std::span<const RateEvidence> evidence) {
  RateEstimates result;
  if (evidence.empty()) return result;
  const Binned binned = BinEvidence(evidence);
  const std::vector<Bin>& bins = binned.bins;
  const std::map<double, double> shortest = ShortestTimes(bins);

  // The slowest and the fastest rate that bits can suggest.
  double slowest = kHighestRate;
  double fastest = kLowestRate;
  double samples = 0;
  bool any_bits = false;
  for (const Bin& bin : bins) {
    samples += bin.rows * bin.mean.samples;
    if (!bin.looked_at()) continue;
    any_bits = true;
    const double one_event = 1 / (bin.pages * bin.mean.seconds_at_risk);
    slowest = std::min(slowest, one_event);
    fastest = std::max(fastest, one_event);
  }
  for (const auto& [pages, seconds] : shortest) {
    fastest = std::max(fastest, kSaturatedRate / (seconds * pages) / kGridMargin);
  }

  if (any_bits && samples > 0) {
    Mixture by_bits(slowest / kGridMargin, fastest * kGridMargin);
    by_bits.Observe(bins, [&](const Bin& bin, std::size_t j) {
      return BitLogLikelihood(bin, by_bits.rates()[j], shortest);
    });
    by_bits.FitPrior(bins, [](const Bin& bin) { return bin.looked_at(); });
    result.response = LearnResponse(bins, by_bits, shortest);
  }

  // What the samples can suggest beyond it.
  const SampleResponse& response = result.response;
  const double believed = any_bits ? fastest * kBeyondBits : kHighestRate;
  if (samples > 0 && response.scale > 0) {
    for (const Bin& bin : bins) {
      if (bin.mean.seconds_watched <= 0) continue;
      const double watched = response.scale * bin.pages * bin.mean.seconds_watched;
      fastest = std::max(
          fastest, std::pow(std::max(1.0, bin.mean.samples) / watched, 1 / response.exponent));
      if (!any_bits) slowest = std::min(slowest, 1 / watched);
    }
    fastest = std::min(fastest, believed);
  }
  Mixture mixture(slowest / kGridMargin, fastest * kGridMargin);
  const std::vector<double> sample_rate = Powers(mixture.rates(), response.exponent);
  mixture.Observe(bins, [&](const Bin& bin, std::size_t j) {
    const double rate = mixture.rates()[j];
    const double watched = response.scale * bin.pages * bin.mean.seconds_watched;
    return BitLogLikelihood(bin, rate, shortest) +
           bin.mean.samples * response.exponent * std::log(rate) - watched * sample_rate[j];
  });
  // Spans that only samples show were chosen for having one: they would make the prior too hot.
  mixture.FitPrior(bins, [any_bits](const Bin& bin) { return bin.looked_at() || !any_bits; });

  const std::vector<double> squares = Powers(mixture.rates(), 2);
  std::vector<double> mean(bins.size());
  std::vector<double> relative_sd(bins.size());
  for (std::size_t b = 0; b < bins.size(); ++b) {
    mean[b] = mixture.Mean(b, mixture.rates());
    const double variance = mixture.Mean(b, squares) - mean[b] * mean[b];
    relative_sd[b] = std::sqrt(std::max(0.0, variance)) / mean[b];
  }
  result.accesses_per_second.reserve(evidence.size());
  result.relative_sd.reserve(evidence.size());
  for (const std::uint32_t b : binned.bin_of_row) {
    result.accesses_per_second.push_back(mean[b]);
    result.relative_sd.push_back(relative_sd[b]);
  }
  return result;
}

}  // namespace tmprof
