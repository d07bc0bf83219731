// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_fit.h"

#include <algorithm>
#include <array>
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

// Entries that must be expected above the limit: chance, and the flat pseudo-observations, put a
// part of one there in any program.
constexpr double kLeastUntold = 1;
// This many tried pages near the limit show how the rates of the other pages there are distributed,
// because the scanner chooses the pages to try by their first reads alone. With 30 to 100 such
// pages, two of six intervals of a zipf missed the truth (HitRatesMonteCarlo).
constexpr double kTriedThatTell = 120;
// Pages that each try found set may be so many times as fast as the tries can resolve.
constexpr double kBeyondFastTries = 2;

// The response is learned from unsaturated pages if these hold samples enough, and believed to be
// in proportion unless the evidence says otherwise.
constexpr double kSamplesForResponse = 30;
constexpr double kExponentPriorSd = 0.5;
constexpr double kExponentStep = 0.05;
constexpr double kUselessExponent = 0.2;
// If bits were read, samples are not believed to show rates faster than this times what the bits
// can resolve. An exponent below 1 that was learned from few samples would extrapolate them by
// orders of magnitude.
constexpr double kBeyondBits = 16;

// The log-likelihood falls by so much from the likeliest prior to the end of an interval that holds
// the truth with 90 %: half of 1.6449 squared, and the half that FitMixingWeights() may leave.
constexpr double kLossOfInterval = 1.853;
// Pages that are taken to be of a column are at most so many of all pieces, and grow from try to
// try.
constexpr double kMostPull = 16;
constexpr double kPullGrows = 4;
constexpr int kHalvings = 8;

// A double's exponent and the first bits of its mantissa.
constexpr int kMantissaBitsDropped = std::numeric_limits<double>::digits - 1 - kMantissaBitsKept;
std::uint64_t LogCode(double value) {
  return value <= 0 ? 0 : std::bit_cast<std::uint64_t>(value) >> kMantissaBitsDropped;
}
// Exact up to 5, logarithmic for more.
std::uint64_t CountCode(double count) { return LogCode(1 + 4 * count); }

// Returns the base pages behind the bit that was read: those of a huge page, else one, also for a
// region.
double EntryPages(const RateKind& kind) {
  const double pages = kind.mean.pages;
  const auto whole = static_cast<std::uint64_t>(pages);
  return static_cast<double>(whole) == pages && IsOneEntry(whole) ? pages : 1;
}

// The time at risk of the entries that were read, one at a time.
double EntrySeconds(const RateKind& kind) {
  return kind.mean.seconds_at_risk * kind.mean.pages / EntryPages(kind);
}

// The mean delay of the first reads that found a page of such an entry. Half of it counts as time
// at risk.
double FirstReadSeconds(const RateKind& kind) {
  return 2 * kind.mean.first_read_seconds * kind.mean.pages /
         (EntryPages(kind) * kind.mean.first_read_finds);
}

// The mean time to a first access, one entry at a time. Precondition: there are finds.
double MeanSecondsToFind(const RateKind& kind) {
  const double first_read_seconds =
      kind.mean.first_read_seconds * kind.mean.pages / EntryPages(kind);
  return (EntrySeconds(kind) + first_read_seconds) / kind.finds();
}

double Observations(const std::vector<LikelihoodRow>& rows) {
  double sum = 0;
  for (const LikelihoodRow& row : rows) sum += row.observations;
  return sum;
}

double LogLikelihood(const std::vector<LikelihoodRow>& rows, std::span<const double> prior) {
  double sum = 0;
  for (const LikelihoodRow& row : rows) sum += row.observations * std::log(Mass(row, prior));
  return sum;
}

struct TimeOfPieces {
  double seconds;
  double pieces;
};

// The kSaturationQuantile of the times. Precondition: there are some.
double ShortestOf(std::vector<TimeOfPieces>& times) {
  std::ranges::sort(times, {}, &TimeOfPieces::seconds);
  double left = 0;
  for (const TimeOfPieces& time : times) left += time.pieces;
  left *= kSaturationQuantile;
  auto shortest = times.begin();
  while ((left -= shortest->pieces) > 0 && shortest + 1 != times.end()) ++shortest;
  return shortest->seconds;
}

// Per entry size, the shortest mean time to first access that the bits can resolve, seconds;
// entries of each size are read on a ladder of their own.
std::map<double, double> ShortestTimes(const std::vector<RateKind>& kinds) {
  std::map<double, std::vector<TimeOfPieces>> times;
  for (const RateKind& kind : kinds) {
    if (kind.looked_at() && kind.finds() > 0)
      times[EntryPages(kind)].push_back({MeanSecondsToFind(kind), kind.pieces});
  }
  std::map<double, double> shortest;
  for (auto& [pages, list] : times) shortest[pages] = ShortestOf(list);
  return shortest;
}

// Per entry size, the rate of a base page above which each first read finds its entry: two accesses
// in the time to that read, the mean over all that found one. If the trace does not say which reads
// found, the shortest times decide.
std::map<double, double> LimitsOfFirstReads(const std::vector<RateKind>& kinds,
                                            const std::map<double, double>& shortest) {
  struct Sum {
    double finds = 0;
    double limits = 0;
  };
  std::map<double, Sum> sums;
  for (const RateKind& kind : kinds) {
    const double finds = kind.pieces * kind.mean.first_read_finds;
    if (finds <= 0) continue;
    Sum& sum = sums[EntryPages(kind)];
    sum.finds += finds;
    sum.limits += finds * 2 / (FirstReadSeconds(kind) * EntryPages(kind));
  }
  std::map<double, double> limits;
  for (const auto& [pages, seconds] : shortest) limits[pages] = 1 / (seconds * pages);
  for (const auto& [pages, sum] : sums) limits[pages] = sum.limits / sum.finds;
  return limits;
}

// Finds of later reads, as if some were equally far from the read before and the others next to it:
// the times to the reads, and their squares, add up to what was seen.
struct EqualFinds {
  double finds = 0;
  // The time from the middle between the two reads, times the entry's pages.
  double page_seconds_to_read = 0;
};
EqualFinds EqualFindsOf(const RateKind& kind) {
  const double sum = kind.mean.seconds_to_read;
  const double squares = kind.mean.square_seconds_to_read;
  if (sum <= 0 || squares <= 0) return {};
  return {.finds = sum * sum / squares, .page_seconds_to_read = squares / sum * kind.mean.pages};
}

// Finds of later reads count as none if they are below this part of those of first reads, because
// they are too old.
constexpr double kHardlyAny = 0.05;

// Rates below this part of the first read's limit are told apart by later reads.
constexpr double kNearLimit = 0.25;

// Returns the entry sizes whose pages without a fast try may be faster than the first read can
// resolve. `mixture` lacks rates that few pages may show by chance.
std::vector<UntoldRates> FindUntold(const std::vector<RateKind>& kinds, const Mixture& mixture,
                                    const std::map<double, double>& limits) {
  std::vector<UntoldRates> untold;
  std::vector<double> is_near(mixture.rates().size());
  for (const auto& [pages, limit] : limits) {
    std::ranges::transform(mixture.rates(), is_near.begin(),
                           [limit](double rate) { return rate >= kNearLimit * limit ? 1.0 : 0.0; });
    const UntoldRates rates{.entry_pages = pages, .from = kNearLimit * limit, .limit = limit};
    double near = 0;
    double tried_near = 0;
    for (std::uint32_t k = 0; k < kinds.size(); ++k) {
      const double pieces = kinds[k].pieces;
      if (rates.AreOf(kinds[k])) near += pieces * mixture.Mean(k, is_near);
      if (kinds[k].mean.fast_looks > 0 && EntryPages(kinds[k]) == pages)
        tried_near += pieces * mixture.Mean(k, is_near);
    }
    if (near >= kLeastUntold && tried_near < kTriedThatTell) untold.push_back(rates);
  }
  return untold;
}

// The rate of a base page above which each fast try finds its page, if at least one page is
// expected there; else 0.
double FastLimit(const std::vector<RateKind>& kinds, const Mixture& mixture) {
  // Pages that all tries found were tried at the shortest delay.
  double seconds = 0;
  double looks = 0;
  for (const RateKind& kind : kinds) {
    if (kind.mean.fast_looks <= 0 || kind.mean.fast_found < kind.mean.fast_looks) continue;
    seconds += kind.pieces * kind.mean.fast_seconds;
    looks += kind.pieces * kind.mean.fast_looks;
  }
  if (seconds <= 0) return 0;
  const double limit = looks / seconds;
  std::vector<double> is_above(mixture.rates().size());
  std::ranges::transform(mixture.rates(), is_above.begin(),
                         [limit](double rate) { return rate >= limit ? 1.0 : 0.0; });
  double above = 0;
  for (std::uint32_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k].mean.fast_looks > 0) above += kinds[k].pieces * mixture.Mean(k, is_above);
  }
  return above >= kLeastUntold ? limit : 0;
}

// The highest rate that is believed of at least one piece of evidence.
double FastestBelieved(const std::vector<RateKind>& kinds, const Mixture& mixture) {
  double pieces = 0;
  for (const RateKind& kind : kinds) pieces += kind.looked_at() ? kind.pieces : 0;
  std::size_t j = mixture.rates().size() - 1;
  while (j > 0 && mixture.prior()[j] * pieces < 1) --j;
  return mixture.rates()[j];
}

// Adds the log-likelihood of waits for an access to an entry, each so long: that so many saw one,
// and so many did not. `page_seconds`: of each wait, times the entry's pages.
void AddWaits(const Mixture& mixture, double page_seconds, double saw_one, double saw_none,
              double* log_likelihood) {
  if (!(page_seconds > 0)) return;
  if (saw_one > 0)
    AddLogChances(mixture.log_rates(), std::log(page_seconds), saw_one, log_likelihood);
  if (saw_none <= 0) return;
  for (std::size_t j = 0; j < mixture.rates().size(); ++j)
    log_likelihood[j] -= saw_none * page_seconds * mixture.rates()[j];
}

// Adds, up to a constant, the log-likelihood of the reads that followed clears.
void AddReads(const RateKind& kind, const Mixture& mixture,
              const std::map<double, double>& shortest, const std::map<double, double>& limits,
              double* log_likelihood) {
  const RateEvidence& mean = kind.mean;
  const double entry_pages = EntryPages(kind);
  const double page_seconds = mean.seconds_at_risk * mean.pages;
  const EqualFinds later = EqualFindsOf(kind);
  if (mean.first_accesses > 0 && mean.first_read_finds <= 0 && later.finds <= 0) {
    // The trace does not say which reads found: all faster rates look like the fastest.
    const double most = kSaturatedRate / shortest.at(entry_pages) / entry_pages;
    const double log_most = std::log(most);
    for (std::size_t j = 0; j < mixture.rates().size(); ++j) {
      log_likelihood[j] += mean.first_accesses * std::min(mixture.log_rates()[j], log_most) -
                           std::min(mixture.rates()[j], most) * page_seconds;
    }
    return;
  }
  // Each access lies between two reads. Nothing was accessed before the earlier one of them.
  AddWaits(mixture, 2 * later.page_seconds_to_read, later.finds, 0, log_likelihood);
  // The remaining finds get the mean width of a first read.
  const double near = std::max(0.0, mean.first_accesses - later.finds);
  if (near > 0) AddWaits(mixture, 2 / limits.at(entry_pages), near, 0, log_likelihood);
  AddWaits(mixture, std::max(0.0, page_seconds - later.finds * later.page_seconds_to_read), 0, 1,
           log_likelihood);
  if (mean.first_read_finds > 0)
    AddWaits(mixture, FirstReadSeconds(kind) * entry_pages, mean.first_read_finds, 0,
             log_likelihood);
}

// Adds the log-likelihood of a span's bits for each rate of the grid, up to a constant. Each page
// of the span is accessed at one rate.
void AddBitLogLikelihood(const RateKind& kind, const Mixture& mixture,
                         const std::map<double, double>& shortest,
                         const std::map<double, double>& limits, double* log_likelihood) {
  if (!kind.looked_at()) return;
  AddReads(kind, mixture, shortest, limits, log_likelihood);
  const RateEvidence& mean = kind.mean;
  if (mean.fast_looks <= 0) return;
  const double entry_pages = EntryPages(kind);
  AddWaits(mixture, mean.fast_seconds / mean.fast_looks * entry_pages, mean.fast_found,
           mean.fast_looks - mean.fast_found, log_likelihood);
  if (mean.fast_earlier > 0)
    AddWaits(mixture, mean.fast_earlier_seconds / mean.fast_earlier * entry_pages,
             mean.fast_earlier, 0, log_likelihood);
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
  // Fast tries distinguish rates that all look alike at the first read. Such pages are often in the
  // cache, and get fewer samples than their accesses are worth.
  const auto unsaturated = [&](const RateKind& kind) {
    const auto it = shortest.find(EntryPages(kind));
    return kind.looked_at() && (it == shortest.end() || kind.finds() <= 0 ||
                                kind.mean.fast_found < kind.mean.fast_looks ||
                                MeanSecondsToFind(kind) > kSaturatedBand * it->second);
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
      static_cast<std::uint64_t>(evidence.pages) << 16 | LogCode(evidence.seconds_watched),
      CountCode(evidence.first_read_finds) << 20 |
          (evidence.first_read_finds > 0
               ? LogCode(evidence.first_read_seconds / evidence.first_read_finds) >> 1
               : 0),
      CountCode(evidence.fast_looks) << 40 | CountCode(evidence.fast_found) << 20 |
          LogCode(evidence.fast_seconds),
      CountCode(evidence.fast_earlier) << 20 | LogCode(evidence.fast_earlier_seconds)};
  const auto [at, is_new] = number_.try_emplace(code, static_cast<std::uint32_t>(kinds_.size()));
  if (is_new) kinds_.push_back({.pieces = 0, .mean = {.pages = evidence.pages}});
  RateKind& kind = kinds_[at->second];
  kind.pieces += 1;
  kind.mean.Add(evidence);
  return at->second;
}

std::vector<RateKind> RateKinds::Take() && {
  for (RateKind& kind : kinds_) {
    RateEvidence& mean = kind.mean;
    for (double* sum :
         {&mean.first_accesses, &mean.seconds_at_risk, &mean.seconds_to_read,
          &mean.square_seconds_to_read, &mean.first_read_finds, &mean.first_read_seconds,
          &mean.fast_looks, &mean.fast_found, &mean.fast_seconds, &mean.fast_earlier,
          &mean.fast_earlier_seconds, &mean.samples, &mean.seconds_watched}) {
      *sum /= kind.pieces;
    }
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

std::vector<LikelihoodRow> Mixture::RowsOf(const std::vector<RateKind>& kinds,
                                           bool looked_at_only) const {
  std::vector<LikelihoodRow> rows;
  rows.reserve(kinds.size());
  for (std::uint32_t k = 0; k < kinds.size(); ++k) {
    if (!looked_at_only || kinds[k].looked_at()) rows.push_back(Row(k, kinds[k].pieces));
  }
  return rows;
}

std::vector<double> Mixture::WithFlatObservations(std::vector<double> prior, double pieces) const {
  for (double& share : prior) {
    share = (share * pieces + kFlatObservations / static_cast<double>(rates_.size())) /
            (pieces + kFlatObservations);
  }
  return prior;
}

void Mixture::FitPrior(const std::vector<RateKind>& kinds, bool looked_at_only,
                       std::span<const double> near, Rare rare) {
  const std::vector<LikelihoodRow> rows = RowsOf(kinds, looked_at_only);
  prior_ = FitMixingWeights(rows, rates_.size(), near);
  if (rare == Rare::kDropped) prior_ = WithoutChance(rows, std::move(prior_));
  prior_ = WithFlatObservations(std::move(prior_), Observations(rows));
}

std::vector<double> Mixture::PriorTowards(const std::vector<RateKind>& kinds, bool looked_at_only,
                                          std::span<const double> column) const {
  if (std::ranges::none_of(column, [](double value) { return value > 0; })) return prior_;
  const std::vector<LikelihoodRow> rows = RowsOf(kinds, looked_at_only);
  const double pieces = Observations(rows);
  const double most = LogLikelihood(rows, prior_);
  const auto is_possible = [&](const std::vector<double>& prior) {
    return most - LogLikelihood(rows, prior) <= kLossOfInterval;
  };
  // Pages that are known to be of the column pull the fit to it, the more the more they are.
  std::vector<LikelihoodRow> pulled = rows;
  pulled.push_back({column.data(), 0, rates_.size(), 0});
  std::vector<double> possible = prior_;
  for (double pull = 1; pull <= kMostPull * pieces; pull *= kPullGrows) {
    pulled.back().observations = pull;
    const std::vector<double> next =
        WithFlatObservations(FitMixingWeights(pulled, rates_.size(), possible), pieces);
    if (is_possible(next)) {
      possible = next;
      continue;
    }
    // The likelihood is concave between the two.
    double reached = 0;
    double too_far = 1;
    std::vector<double> between;
    for (int halving = 0; halving < kHalvings; ++halving) {
      const double share = (reached + too_far) / 2;
      between = possible;
      for (std::size_t j = 0; j < between.size(); ++j)
        between[j] += share * (next[j] - possible[j]);
      (is_possible(between) ? reached : too_far) = share;
    }
    for (std::size_t j = 0; j < possible.size(); ++j) {
      possible[j] += reached * (next[j] - possible[j]);
    }
    break;
  }
  return possible;
}

std::vector<double> Mixture::Smooth(std::vector<double> prior) {
  // Each pass widens a spike by half the square of a grid step: to a third of an octave in all.
  constexpr int kPasses = kGridPointsPerOctave * kGridPointsPerOctave / 4;
  for (int pass = 0; pass < kPasses; ++pass) {
    double before = prior.front();
    for (std::size_t j = 0; j < prior.size(); ++j) {
      const double here = prior[j];
      const double after = j + 1 < prior.size() ? prior[j + 1] : here;
      prior[j] = before / 4 + here / 2 + after / 4;
      before = here;
    }
  }
  return prior;
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

RateFit FitRates(const std::vector<RateKind>& kinds, double slowest_asked) {
  const std::map<double, double> shortest = ShortestTimes(kinds);
  const std::map<double, double> limits = LimitsOfFirstReads(kinds, shortest);

  // The slowest and the fastest rate that bits can suggest.
  double slowest = std::min(kHighestRate, slowest_asked * kGridMargin);
  double fastest = kLowestRate;
  double samples = 0;
  bool any_bits = false;
  for (const RateKind& kind : kinds) {
    samples += kind.pieces * kind.mean.samples;
    if (!kind.looked_at()) continue;
    any_bits = true;
    const double one_event =
        1 / (kind.mean.pages * (kind.mean.seconds_at_risk + kind.mean.first_read_seconds));
    slowest = std::min(slowest, one_event);
    fastest = std::max(fastest, one_event);
    if (kind.mean.fast_found > 0) {
      const double limit = kSaturatedRate * kind.mean.fast_looks / kind.mean.fast_seconds;
      fastest = std::max(fastest, kBeyondFastTries * limit / EntryPages(kind) / kGridMargin);
    }
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
      AddBitLogLikelihood(kind, by_bits, shortest, limits, log_likelihood);
    });
    by_bits.FitPrior(kinds, /*looked_at_only=*/true);
    response = LearnResponse(kinds, by_bits, shortest);
    by_bits_alone = by_bits.prior();
  }

  // Samples can suggest rates beyond it.
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
    AddBitLogLikelihood(kind, mixture, shortest, limits, log_likelihood);
    const double watched = response.scale * kind.mean.pages * kind.mean.seconds_watched;
    const double exponent = kind.mean.samples * response.exponent;
    for (std::size_t j = 0; j < mixture.rates().size(); ++j) {
      log_likelihood[j] += exponent * mixture.log_rates()[j] - watched * sample_rate[j];
    }
  });
  // Spans that only samples show were chosen for having one: they would make the prior too hot.
  mixture.FitPrior(kinds, /*looked_at_only=*/any_bits, by_bits_alone);
  std::vector<UntoldRates> untold = FindUntold(kinds, mixture, limits);
  const double fast_limit = FastLimit(kinds, mixture);
  const double fastest_believed = FastestBelieved(kinds, mixture);
  return {.mixture = std::move(mixture),
          .response = response,
          .untold = std::move(untold),
          .fast_limit = fast_limit,
          .fastest_believed = fastest_believed};
}

bool UntoldRates::AreOf(const RateKind& kind) const {
  if (kind.finds() <= 0 || kind.mean.fast_looks > 0 || EntryPages(kind) != entry_pages)
    return false;
  if (kind.mean.first_read_finds > 0) {
    return kind.mean.first_accesses <= kHardlyAny * kind.mean.first_read_finds &&
           EntrySeconds(kind) <= FirstReadSeconds(kind) / 2;
  }
  return MeanSecondsToFind(kind) * limit * entry_pages <= kSaturatedBand;
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
