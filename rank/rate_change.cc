// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_change.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "rank/rate_accounts.h"
#include "rank/rate_fit.h"
#include "rank/source_view.h"

namespace tmprof {
namespace {

// Assumed mean time for which a rate lasts, in the target's own time. docs/accuracy.md
// ("Rates that change, as they come in") has what other figures cost.
constexpr double kPersistenceSeconds = 60;
// Below, a change is not worth remembering.
constexpr double kUnlikely = 0.02;
// A change just now is suspected if the visit makes it so many times as likely as it was before
// anything was seen. docs/accuracy.md has what other figures cost.
constexpr double kSpeaksForAChange = 1.5;

// How likely one piece of evidence is at the rates that another leaves, or at rates drawn anew, up
// to a factor of the piece's own, and which rate both leave.
class Predictions {
 public:
  struct Prediction {
    double likelihood = 0;
    double log_rate = 0;
  };

  Predictions(const Mixture& mixture, std::size_t kinds)
      : mixture_(&mixture), seen_log_rates_(mixture.rates().size()) {
    drawn_anew_.reserve(kinds);
    for (std::uint32_t kind = 0; kind < kinds; ++kind) {
      drawn_anew_.push_back(
          {.likelihood = mixture.Mass(kind), .log_rate = mixture.Mean(kind, mixture.log_rates())});
    }
  }

  Prediction Given(std::uint32_t known, std::uint32_t piece) {
    const auto [found, is_new] = given_.try_emplace(std::uint64_t{known} << 32 | piece);
    Prediction& prediction = found->second;
    if (!is_new) return prediction;
    const std::span<const double> seen = mixture_->Likelihood(piece);
    prediction.likelihood = mixture_->Mean(known, seen);
    if (prediction.likelihood > 0) {
      std::ranges::transform(seen, mixture_->log_rates(), seen_log_rates_.begin(),
                             std::multiplies{});
      prediction.log_rate = mixture_->Mean(known, seen_log_rates_) / prediction.likelihood;
    }
    return prediction;
  }

  Prediction DrawnAnew(std::uint32_t piece) const { return drawn_anew_[piece]; }

 private:
  const Mixture* mixture_;
  std::vector<double> seen_log_rates_;  // of one piece; kept for its memory
  std::unordered_map<std::uint64_t, Prediction> given_;
  std::vector<Prediction> drawn_anew_;  // by kind
};

RateAccount Weigh(RateAccount::Since since, double chance, Predictions::Prediction prediction) {
  return {
      .since = since, .weight = chance * prediction.likelihood, .log_rate = prediction.log_rate};
}

// Walks a table in step with ascending keys.
class RowOf {
 public:
  explicit RowOf(const EvidenceTable& table) : table_(&table) {}

  // The row of just this span.
  std::optional<std::size_t> operator()(PageKey key, std::uint32_t span_pages) {
    while (at_ < table_->size() && table_->key[at_] < key) ++at_;
    const bool found =
        at_ < table_->size() && table_->key[at_] == key && table_->span_pages[at_] == span_pages;
    return found ? std::optional(at_) : std::nullopt;
  }

 private:
  const EvidenceTable* table_;
  std::size_t at_ = 0;
};

}  // namespace

void RateChanges::Absorb(const EvidenceTable& older, const Keeps& keeps, const EvidenceTable& newer,
                         const Ages& ages, EvidenceTable& joined) {
  struct Span {
    std::size_t row;  // of `joined`
    double keep;
    double drawn_anew;  // the chance, before anything is seen
    std::optional<std::size_t> suspect;
    std::optional<std::size_t> visit;  // row of `newer`
    std::uint32_t before = 0;          // kinds
    std::uint32_t since = 0;
    std::uint32_t now = 0;
  };
  const RateView view(joined, RankSource::kReferences);
  RateKinds sorter;
  const auto kind = [&](const Evidence& evidence, double weight, std::uint32_t pages) {
    return sorter.Add(view.Of(evidence.Bits(weight), pages, /*watched_seconds=*/0));
  };
  std::vector<Span> spans;
  RowOf row_before(older);
  RowOf row_now(newer);
  RowOf row_suspected(suspected_.since);
  unprobed_seconds_.resize(older.size());
  std::vector<float> unprobed_seconds(joined.size());
  std::optional<TargetId> target;
  double keep = 1;
  double age = 0;
  for (std::size_t row = 0; row < joined.size(); ++row) {
    const PageKey key = joined.key[row];
    const std::uint32_t pages = joined.span_pages[row];
    if (target != key.target) {
      target = key.target;
      keep = keeps.Of(key.target).evidence;
      age = ages.Of(key.target);
    }
    Span span{.row = row,
              .keep = keep,
              .drawn_anew = 0,
              .suspect = row_suspected(key, pages),
              .visit = row_now(key, pages)};
    const auto before = row_before(key, pages);
    const double unprobed = age + (before ? unprobed_seconds_[*before] : 0);
    const bool probed = span.visit && view.TellsOfBits(newer.evidence[*span.visit]);
    unprobed_seconds[row] = probed ? 0 : static_cast<float>(unprobed);
    span.drawn_anew = -std::expm1(-unprobed / kPersistenceSeconds);
    if (!before || (span.visit && !(probed && view.TellsOfBits(older.evidence[*before])))) {
      span.visit.reset();
    }
    if (span.visit) {
      span.before = kind(older.evidence[*before], keep, pages);
      span.now = kind(newer.evidence[*span.visit], 1, pages);
      if (span.suspect) span.since = kind(suspected_.since.evidence[*span.suspect], keep, pages);
    }
    if (span.visit || span.suspect) spans.push_back(span);
  }
  const std::vector<RateKind> kinds = std::move(sorter).Take();
  const RateFit fit = FitRates(kinds);
  Predictions predicted(fit.mixture, kinds.size());

  SuspectedChanges suspected;
  const auto suspect = [&](std::size_t row, const Evidence& since, double chance) {
    Push(suspected.since, joined.key[row], joined.span_pages[row], since);
    suspected.chance.push_back(static_cast<float>(chance));
  };
  using enum RateAccount::Since;
  for (const Span& span : spans) {
    Evidence since;
    double chance = 0;
    if (span.suspect) {
      since = suspected_.since.evidence[*span.suspect].Bits(span.keep);
      chance = suspected_.chance[*span.suspect];
    }
    if (!span.visit) {
      suspect(span.row, since, chance);
      continue;
    }
    const Evidence& now = newer.evidence[*span.visit];
    const double drawn_anew = span.drawn_anew;
    const double lasts = 1 - drawn_anew;
    const LeastChances least{.suspicion = std::max(kUnlikely, drawn_anew),
                             .now = std::max(kUnlikely, kSpeaksForAChange * drawn_anew)};
    RateAccount suspicion;
    if (span.suspect)
      suspicion = Weigh(kSuspicion, chance * lasts, predicted.Given(span.since, span.now));
    const RateAccounts accounts =
        ChooseAccounts(Weigh(kEver, (1 - chance) * lasts, predicted.Given(span.before, span.now)),
                       suspicion, Weigh(kNow, drawn_anew, predicted.DrawnAnew(span.now)), least);
    const auto bits = [&](const RateAccount& account) {
      Evidence of_account = now.Bits(1);
      if (account.since == kSuspicion) of_account.Add(since, 1, 0);
      return of_account;
    };
    if (accounts.newer) {
      const double newer_weight = accounts.newer->weight;
      suspect(span.row, bits(*accounts.newer),
              newer_weight / (accounts.older.weight + newer_weight));
    }
    if (accounts.older.since != kEver) joined.evidence[span.row].ReplaceBits(bits(accounts.older));
  }
  suspected_ = std::move(suspected);
  unprobed_seconds_ = std::move(unprobed_seconds);
}

void RateChanges::Follow(const EvidenceTable& before, const EvidenceTable& now) {
  unprobed_seconds_.resize(before.size());
  std::vector<float> unprobed_seconds(now.size());
  RowOf row_before(before);
  for (std::size_t row = 0; row < now.size(); ++row) {
    const auto same = row_before(now.key[row], now.span_pages[row]);
    if (same) unprobed_seconds[row] = unprobed_seconds_[*same];
  }
  unprobed_seconds_ = std::move(unprobed_seconds);
}

}  // namespace tmprof
