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
// So many tried pages near the limit tell how the rates of the others there are distributed: the
// scanner chooses the pages to try by their first reads alone. Of a zipf's interval by 30 to 100
// such pages, two of six left the truth out (HitRatesMonteCarlo).
constexpr double kTriedThatTell = 120;
// Pages that each try found set may be so many times as fast as the tries can tell.
constexpr double kBeyondFastTries = 2;

// The response is learned from unsaturated pages if these hold samples enough, and believed to be
// in proportion unless the evidence says otherwise.
constexpr double kSamplesForResponse = 30;
constexpr double kExponentPriorSd = 0.5;
constexpr double kExponentStep = 0.05;
constexpr double kUselessExponent = 0.2;
// If bits were read, samples are not believed to show rates faster than this times what the bits
// can resolve: an exponent below 1 that was learned from few samples would extrapolate them by
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
// The least value of that code.
double FromLogCode(std::uint64_t code) {
  return std::bit_cast<double>(code << kMantissaBitsDropped);
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

// The mean delay of the first reads of pages that fast tries found. An access is put in the middle
// of the time before the read that found it.
double FirstReadSeconds(const RateKind& kind) {
  return 2 * kind.mean.first_read_seconds * kind.mean.pages /
         (EntryPages(kind) * kind.mean.first_read_finds);
}

// The log-likelihood of so many accesses found, and so many not, each within a time that holds
// `expected` accesses.
double LogLikelihoodOfTries(double found, double not_found, double expected) {
  return (found > 0 ? found * std::log(-std::expm1(-expected)) : 0) - not_found * expected;
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
    const double finds = kind.mean.first_accesses + kind.mean.first_read_finds;
    if (kind.looked_at() && finds > 0) {
      const double entries = kind.mean.pages / EntryPages(kind);
      const double seconds = EntrySeconds(kind) + kind.mean.first_read_seconds * entries;
      times[EntryPages(kind)].push_back({seconds / finds, kind.pieces});
    }
  }
  std::map<double, double> shortest;
  for (auto& [pages, list] : times) shortest[pages] = ShortestOf(list);
  return shortest;
}

// Per entry size, the rate of a base page above which each first read finds its entry, by the
// shortest times that single first accesses took.
std::map<double, double> LimitsOfFirstReads(const std::vector<RateKind>& kinds) {
  std::map<double, std::vector<TimeOfPieces>> times;
  for (const RateKind& kind : kinds) {
    for (const auto& [seconds, pieces] : kind.shortest_finds) {
      times[EntryPages(kind)].push_back({seconds, pieces});
    }
  }
  std::map<double, double> limits;
  for (auto& [pages, list] : times) limits[pages] = 1 / (ShortestOf(list) * pages);
  return limits;
}

// The time to a first access that stands for all that were seen.
double MiddleOfFinds(const RateKind& kind) {
  if (kind.mean.first_accesses <= 0) return 0;
  return std::min(std::sqrt(kind.mean.square_seconds / kind.mean.first_accesses),
                  kind.mean.seconds_at_risk / kind.mean.first_accesses);
}

// An access that a read found may have been as far from the middle between that read and the one
// before. Times are of a base page of the entry.
struct FindSpread {
  double first_finds = 0;  // by first reads after a clear, which has no read before
  double first_reach = 0;
  double later_finds = 0;
  double later_reach = 0;
};

// Finds are alike if mean square / square of the mean is below this, as that of late first reads
// is. One find of 64 by a second read makes it 1.22.
constexpr double kMostUnevenFirstReads = 1.2;
bool FindsAreAlike(const RateKind& kind) {
  const double middle = MiddleOfFinds(kind);
  return kind.mean.square_seconds <
         kMostUnevenFirstReads * middle * middle * kind.mean.first_accesses;
}
// If first reads come later than this on average, in units of the earliest, what they say of rates
// near their limit outweighs the few tries, and is too low: a zipf on an idle host was told .67
// [.63, .71] where .79 is true.
constexpr double kLateReads = 1.25;

// Reads are in ratio 4: the second middle is five times as late as the first, and the reach is 0.6
// of each later middle. How many finds were the first read's is told by their mean square.
// `limits`: LimitsOfFirstReads().
FindSpread SpreadOf(const RateKind& kind, const std::map<double, double>& shortest,
                    const std::map<double, double>& limits) {
  constexpr double kSecondMiddle = 5;
  constexpr double kLaterReach = 0.6;
  const double finds = kind.mean.first_accesses;
  const double middle = MiddleOfFinds(kind) * kind.mean.pages;
  if (middle <= 0) return {};
  const auto it = shortest.find(EntryPages(kind));
  if (it == shortest.end()) return {.later_finds = finds, .later_reach = kLaterReach * middle};
  const double first = std::min(it->second * EntryPages(kind), middle);
  const double square = kind.mean.square_seconds / finds * kind.mean.pages * kind.mean.pages;
  // First reads come late on a busy machine, but seldom so late that second ones would be nearer.
  const auto limit = limits.find(EntryPages(kind));
  if (limit != limits.end() && middle * limit->second < std::sqrt(kSecondMiddle) &&
      FindsAreAlike(kind))
    return {.first_finds = finds, .first_reach = middle};
  const double later =
      std::clamp((square / (first * first) - 1) / (kSecondMiddle * kSecondMiddle - 1), 0.0, 1.0);
  return {.first_finds = finds * (1 - later),
          .first_reach = first,
          .later_finds = finds * later,
          .later_reach = kLaterReach * (later < 1 ? kSecondMiddle * first : middle)};
}

// An access between two reads is put in the middle between them, but it may have been at any time
// from the one to the other: at a rate r, e^(-r middle) r becomes the integral of e^(-r t) r, which
// is sinh(r reach) / (r reach) times as much, up to a constant.
double LogOfSpread(double x) {
  if (x < 1e-3) return 0;
  return x < 20 ? std::log(std::sinh(x) / x) : x - std::log(2 * x);
}

// Rates below this part of the first read's limit are told apart by later reads.
constexpr double kNearLimit = 0.25;

// The entry sizes of which pages without a fast try may be faster than the first read can tell.
// `mixture`: without rates that few pages may show by chance.
std::vector<UntoldRates> FindUntold(const std::vector<RateKind>& kinds, const Mixture& mixture) {
  std::vector<UntoldRates> untold;
  std::vector<double> is_near(mixture.rates().size());
  for (const auto& [pages, limit] : LimitsOfFirstReads(kinds)) {
    std::ranges::transform(mixture.rates(), is_near.begin(),
                           [limit](double rate) { return rate >= kNearLimit * limit ? 1.0 : 0.0; });
    const UntoldRates rates{.entry_pages = pages, .from = kNearLimit * limit, .limit = limit};
    double near = 0;
    double tried_near = 0;
    double alike = 0;
    double lateness = 0;  // times to their finds, in units of the shortest
    for (std::uint32_t k = 0; k < kinds.size(); ++k) {
      if (rates.AreOf(kinds[k])) {
        const double pieces = kinds[k].pieces * mixture.Mean(k, is_near);
        near += pieces;
        if (FindsAreAlike(kinds[k])) {
          alike += pieces;
          lateness += pieces * MiddleOfFinds(kinds[k]) * kinds[k].mean.pages * limit * pages;
        }
      }
      if (kinds[k].mean.fast_looks > 0 && EntryPages(kinds[k]) == pages)
        tried_near += kinds[k].pieces * mixture.Mean(k, is_near);
    }
    const bool late = lateness > kLateReads * alike;
    if (near >= kLeastUntold && (tried_near < kTriedThatTell || late)) untold.push_back(rates);
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

// Adds, up to a constant, the bits' log-likelihood of a span each of whose pages is accessed at one
// rate, for each rate of the grid.
void AddBitLogLikelihood(const RateKind& kind, const Mixture& mixture,
                         const std::map<double, double>& shortest,
                         const std::map<double, double>& limits, FoundAt found_at,
                         double* log_likelihood) {
  if (!kind.looked_at()) return;
  double most = std::numeric_limits<double>::infinity();
  const double entry_pages = EntryPages(kind);
  if (const auto it = shortest.find(entry_pages); it != shortest.end()) {
    most = kSaturatedRate / it->second / entry_pages;
  }
  const double page_seconds_at_risk = kind.mean.seconds_at_risk * kind.mean.pages;
  const double log_most = std::log(most);
  const double finds = kind.mean.first_accesses;
  const FindSpread spread =
      found_at == FoundAt::kBetweenReads ? SpreadOf(kind, shortest, limits) : FindSpread{};
  for (std::size_t j = 0; j < mixture.rates().size(); ++j) {
    const double rate = std::min(mixture.rates()[j], most);
    log_likelihood[j] += finds * std::min(mixture.log_rates()[j], log_most) -
                         rate * page_seconds_at_risk +
                         spread.first_finds * LogOfSpread(rate * spread.first_reach) +
                         spread.later_finds * LogOfSpread(rate * spread.later_reach);
  }
  if (kind.mean.first_read_finds > 0) {
    const double seconds = FirstReadSeconds(kind) * entry_pages;
    for (std::size_t j = 0; j < mixture.rates().size(); ++j) {
      log_likelihood[j] +=
          LogLikelihoodOfTries(kind.mean.first_read_finds, 0, mixture.rates()[j] * seconds);
    }
  }
  if (kind.mean.fast_looks > 0) {
    const double seconds = kind.mean.fast_seconds / kind.mean.fast_looks * entry_pages;
    const double not_found = kind.mean.fast_looks - kind.mean.fast_found;
    const double earlier = kind.mean.fast_earlier;
    const double earlier_seconds =
        earlier > 0 ? kind.mean.fast_earlier_seconds / earlier * entry_pages : 0;
    for (std::size_t j = 0; j < mixture.rates().size(); ++j) {
      const double rate = mixture.rates()[j];
      log_likelihood[j] += LogLikelihoodOfTries(kind.mean.fast_found, not_found, rate * seconds) +
                           LogLikelihoodOfTries(earlier, 0, rate * earlier_seconds);
    }
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
      static_cast<std::uint64_t>(evidence.pages) << 16 | LogCode(evidence.seconds_watched),
      CountCode(evidence.first_read_finds) << 20 | LogCode(evidence.first_read_seconds),
      CountCode(evidence.fast_looks) << 40 | CountCode(evidence.fast_found) << 20 |
          LogCode(evidence.fast_seconds),
      CountCode(evidence.fast_earlier) << 20 | LogCode(evidence.fast_earlier_seconds),
      found_at_ == FoundAt::kBetweenReads ? LogCode(evidence.square_seconds) : 0};
  const auto [at, is_new] = number_.try_emplace(code, static_cast<std::uint32_t>(kinds_.size()));
  if (is_new) kinds_.push_back({.pieces = 0, .mean = {.pages = evidence.pages}});
  RateKind& kind = kinds_[at->second];
  kind.pieces += 1;
  kind.mean.Add(evidence);
  if (found_at_ == FoundAt::kBetweenReads && std::isfinite(evidence.shortest_find_seconds)) {
    kind.shortest_finds[FromLogCode(LogCode(evidence.shortest_find_seconds))] += 1;
  }
  return at->second;
}

std::vector<RateKind> RateKinds::Take() && {
  for (RateKind& kind : kinds_) {
    RateEvidence& mean = kind.mean;
    for (double* sum :
         {&mean.first_accesses, &mean.seconds_at_risk, &mean.square_seconds, &mean.first_read_finds,
          &mean.first_read_seconds, &mean.fast_looks, &mean.fast_found, &mean.fast_seconds,
          &mean.fast_earlier, &mean.fast_earlier_seconds, &mean.samples, &mean.seconds_watched}) {
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

RateFit FitRates(const std::vector<RateKind>& kinds, FoundAt found_at, double slowest_asked) {
  const std::map<double, double> shortest = ShortestTimes(kinds);
  const std::map<double, double> limits = LimitsOfFirstReads(kinds);

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
      AddBitLogLikelihood(kind, by_bits, shortest, limits, found_at, log_likelihood);
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
    AddBitLogLikelihood(kind, mixture, shortest, limits, found_at, log_likelihood);
    const double watched = response.scale * kind.mean.pages * kind.mean.seconds_watched;
    const double exponent = kind.mean.samples * response.exponent;
    for (std::size_t j = 0; j < mixture.rates().size(); ++j) {
      log_likelihood[j] += exponent * mixture.log_rates()[j] - watched * sample_rate[j];
    }
  });
  // Spans that only samples show were chosen for having one: they would make the prior too hot.
  mixture.FitPrior(kinds, /*looked_at_only=*/any_bits, by_bits_alone);
  std::vector<UntoldRates> untold = FindUntold(kinds, mixture);
  const double fast_limit = FastLimit(kinds, mixture);
  const double fastest_believed = FastestBelieved(kinds, mixture);
  return {.mixture = std::move(mixture),
          .response = response,
          .untold = std::move(untold),
          .fast_limit = fast_limit,
          .fastest_believed = fastest_believed};
}

bool UntoldRates::AreOf(const RateKind& kind) const {
  const double finds = kind.mean.first_accesses;
  return finds > 0 && kind.mean.fast_looks <= 0 && EntryPages(kind) == entry_pages &&
         EntrySeconds(kind) * limit * entry_pages <= kSaturatedBand * finds;
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
