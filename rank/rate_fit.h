// SPDX-License-Identifier: Apache-2.0
// The fit behind rate_model.h and rate_history.h: which rates there are, how the evidence speaks
// for each, and how samples answer to them. Only rank/ uses it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rank/mixing_weights.h"
#include "rank/rate_evidence.h"

namespace tmprof {

// Pieces of evidence that are alike, as one.
struct RateKind {
  double pieces = 0;
  RateEvidence mean;

  bool looked_at() const { return mean.looked_at(); }
  double finds() const { return mean.first_accesses + mean.first_read_finds; }
};

// Sorts evidence into kinds, numbered in order of first appearance, so the hash has no say.
class RateKinds {
 public:
  // The kind's number. Exact counts of 5 and less are kept apart.
  std::uint32_t Add(const RateEvidence& evidence);
  std::vector<RateKind> Take() &&;

 private:
  struct Code {
    std::uint64_t counts_and_times;
    std::uint64_t pages_and_watched;
    std::uint64_t first_reads;
    std::uint64_t fast_tries;
    std::uint64_t earlier_tries;
    bool operator==(const Code&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Code& code) const {
      return (code.counts_and_times * 0x9E3779B97F4A7C15u) ^
             (code.pages_and_watched * 0xC2B2AE3D27D4EB4Fu) ^
             (code.first_reads * 0xD6E8FEB86659FD93u) ^ (code.fast_tries * 0xA0761D6478BD642Fu) ^
             (code.earlier_tries * 0x9FB21C651E98DF25u);
    }
  };

  std::vector<RateKind> kinds_;  // `mean` holds sums
  std::unordered_map<Code, std::uint32_t, Hash> number_;
};

// Rates of so few pages that they may explain an accident alone.
enum class Rare : std::uint8_t {
  kDropped,  // makes equal pages rank alike
  kKept,     // few pages may have many of all accesses
};

// A prior over a logarithmic grid of rates, and how each kind of evidence speaks for each of them.
class Mixture {
 public:
  // Adds to a column over the grid; up to a constant of the kind's own.
  using AddLogLikelihood = std::function<void(const RateKind&, double* log_likelihood)>;

  Mixture(double lowest, double highest);  // a flat prior

  void Observe(const std::vector<RateKind>& kinds, const AddLogLikelihood& add);
  // Sets the prior that makes the observed kinds the likeliest. `near`: a prior from the same
  // lowest rate on that is likely to be near it; empty: none is known.
  void FitPrior(const std::vector<RateKind>& kinds, bool looked_at_only,
                std::span<const double> near = {}, Rare rare = Rare::kDropped);
  // The fit is of few rates. Where a rate may be drawn anew in each of many steps, those between
  // them count; where it may be once (rate_change.h) they change nothing.
  void SmoothPrior() { prior_ = Smooth(std::move(prior_)); }
  static std::vector<double> Smooth(std::vector<double> prior);
  // Precondition: a weight for each point of the grid.
  void SwapPrior(std::vector<double>& prior) { prior_.swap(prior); }
  // Returns the prior that has the most of `column` (values from 0 to 1), among those that the
  // kinds leave possible beside prior(). An interval between two such priors holds the truth with a
  // probability of 90 %.
  std::vector<double> PriorTowards(const std::vector<RateKind>& kinds, bool looked_at_only,
                                   std::span<const double> column) const;

  // Columns over the grid.
  const std::vector<double>& rates() const { return rates_; }  // rates of one base page, ascending
  const std::vector<double>& log_rates() const { return log_rates_; }
  const std::vector<double>& prior() const { return prior_; }     // sums to 1
  std::span<const double> Likelihood(std::uint32_t kind) const {  // the best is 1
    return std::span(likelihood_).subspan(kind * rates_.size(), rates_.size());
  }
  // Posterior mean of `value`, a column over the grid.
  double Mean(std::uint32_t kind, std::span<const double> value) const;
  // Likelihood under the prior.
  double Mass(std::uint32_t kind) const;

 private:
  LikelihoodRow Row(std::uint32_t kind, double observations = 1) const;
  std::vector<LikelihoodRow> RowsOf(const std::vector<RateKind>& kinds, bool looked_at_only) const;
  std::vector<double> WithFlatObservations(std::vector<double> prior, double pieces) const;

  std::vector<double> rates_;
  std::vector<double> log_rates_;
  std::vector<double> prior_;
  std::vector<double> likelihood_;  // row-major, a row per kind
  struct Points {
    std::size_t begin;
    std::size_t end;
  };
  std::vector<Points> possible_;  // outside, a kind's likelihood is 0
};

// Rates so near the first read's limit, or above it, that the bits do not distinguish them.
struct UntoldRates {
  double entry_pages;  // base pages of the entries that they are rates of
  double from;         // accesses per second of a base page
  double limit;        // a first read finds six in seven entries of this rate

  // Each first read found such an entry, and no fast try was made.
  bool AreOf(const RateKind& kind) const;
};

struct RateFit {
  Mixture mixture;
  SampleResponse response;
  // Entry sizes whose pages are so fast in part, without fast tries that would resolve them.
  std::vector<UntoldRates> untold;
  // Some pages are faster than that, and all fast tries find them; 0: none are.
  double fast_limit;
  double fastest_believed;  // the highest rate that more than chance speaks for
};
// Rates as slow as `slowest_asked` are possible, too, although no evidence may suggest them.
RateFit FitRates(const std::vector<RateKind>& kinds,
                 double slowest_asked = std::numeric_limits<double>::infinity());

// Moments of the posterior of one base page's rate, accesses per second.
struct RateMoments {
  double mean;
  double variance;
};
// Parallel to the kinds.
std::vector<RateMoments> MomentsOf(const Mixture& mixture, std::size_t kinds);

}  // namespace tmprof
