// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_change.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
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

// Half-life of the evidence of targets that are gone.
constexpr double kGoneHalfLifeSeconds = 6;
// Below, a change is not worth remembering.
constexpr double kUnlikely = 0.02;
// A change just now is suspected if the visit makes it so many times as likely as it was before
// anything was seen. docs/design/changing-rates.md has the cost of other figures.
constexpr double kSpeaksForAChange = 1.5;

// Blur of the likelihoods from which it is learned how long rates last: standard deviation of the
// logarithm of the rate, a factor of two. Pages of programs that never change are found a little
// sooner or later than their rates predict.
constexpr double kBlur = 0.7;

// Tells how likely one piece of evidence is at the rates that another leaves, and at rates drawn
// anew, up to a factor of the piece's own. Also returns the rate that both leave.
class Predictions {
 public:
  struct Prediction {
    double likelihood = 0;
    double log_rate = 0;
    std::optional<double> blurred;  // the likelihood, with rates blurred by kBlur
  };

  Predictions(const Mixture& mixture, std::size_t kinds)
      : mixture_(&mixture), seen_log_rates_(mixture.rates().size()), blurred_(kinds) {
    const std::vector<double>& log_rates = mixture.log_rates();  // evenly spaced
    for (std::size_t j = 0; j < log_rates.size(); ++j) {
      const double apart = (log_rates[j] - log_rates[0]) / kBlur;
      if (apart > 3) break;
      around_.push_back(std::exp(-apart * apart / 2));
    }
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
    prediction.blurred = mixture_->Mean(known, Blurred(piece));
    if (prediction.likelihood > 0) {
      std::ranges::transform(seen, mixture_->log_rates(), seen_log_rates_.begin(),
                             std::multiplies{});
      prediction.log_rate = mixture_->Mean(known, seen_log_rates_) / prediction.likelihood;
    }
    return prediction;
  }

  Prediction DrawnAnew(std::uint32_t piece) {
    Prediction& prediction = drawn_anew_[piece];
    if (!prediction.blurred) {
      const std::span<const double> blurred = Blurred(piece);
      prediction.blurred =
          std::inner_product(blurred.begin(), blurred.end(), mixture_->prior().begin(), 0.0);
    }
    return prediction;
  }

 private:
  // Returns the likelihood of a piece at each rate, averaged over the rates around it.
  std::span<const double> Blurred(std::uint32_t piece) {
    std::vector<double>& blurred = blurred_[piece];
    if (!blurred.empty()) return blurred;
    const std::span<const double> seen = mixture_->Likelihood(piece);
    for (std::size_t at = 0; at < seen.size(); ++at) {
      double sum = 0;
      double weights = 0;
      const std::size_t end = std::min(seen.size(), at + around_.size());
      for (std::size_t j = at - std::min(at, around_.size() - 1); j < end; ++j) {
        const double weight = around_[j < at ? at - j : j - at];
        weights += weight;
        sum += weight * seen[j];
      }
      blurred.push_back(sum / weights);
    }
    return blurred;
  }

  const Mixture* mixture_;
  std::vector<double> seen_log_rates_;  // for one piece; kept for its memory
  std::unordered_map<std::uint64_t, Prediction> given_;
  std::vector<Prediction> drawn_anew_;        // one per kind
  std::vector<std::vector<double>> blurred_;  // one per kind; empty: nobody asked
  std::vector<double> around_;                // weights, by points from a rate
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

// Returns the targets, ascending, whose accessed bits were read in the table.
std::vector<TargetId> ProbedTargets(const EvidenceTable& table, const RateView& view) {
  std::vector<TargetId> probed;
  for (std::size_t row = 0; row < table.size(); ++row) {
    const TargetId target = table.key[row].target;
    if (probed.empty() || probed.back() != target) {
      if (view.TellsOfBits(table.evidence[row])) probed.push_back(target);
    }
  }
  return probed;
}

}  // namespace

const Persistence& RateChanges::PersistenceOf(TargetId target) const {
  static const Persistence kUnknown;
  const auto found = persistence_.find(target);
  return found == persistence_.end() ? kUnknown : found->second;
}

Keeps RateChanges::KeepsAfter(const Ages& ages, bool lists_targets) const {
  const auto keep = [this](TargetId target, double age) {
    return Keep{.evidence = std::exp(-age / PersistenceOf(target).MeanSeconds()), .accesses = 0};
  };
  Keeps keeps({.evidence = std::exp2(-ages.of_others() / kGoneHalfLifeSeconds), .accesses = 0});
  if (lists_targets) {
    for (const auto& [target, age] : ages.listed()) keeps.Append(target, keep(target, age));
  } else {
    for (const auto& known : persistence_) {
      keeps.Append(known.first, keep(known.first, ages.Of(known.first)));
    }
  }
  return keeps;
}

void RateChanges::Absorb(const EvidenceTable& older, const Keeps& keeps, const EvidenceTable& newer,
                         const Ages& ages, EvidenceTable& joined, bool forgets_gone) {
  struct Span {
    std::size_t row;  // a row of `joined`
    double keep;
    double unprobed;    // seconds
    double drawn_anew;  // the chance, before anything is seen
    std::optional<std::size_t> suspect;
    std::optional<std::size_t> visit;  // row of `newer`
    std::uint32_t before = 0;          // kinds
    std::uint32_t since = 0;
    std::uint32_t now = 0;
    Persistence* persistence = nullptr;
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
  const std::vector<TargetId> probed_targets = ProbedTargets(newer, view);
  unprobed_seconds_.resize(older.size());
  unseen_seconds_.resize(older.size());
  std::vector<float> unprobed_seconds(joined.size());
  std::vector<float> unseen_seconds(joined.size());
  std::optional<TargetId> target;
  double keep = 1;
  double age = 0;
  Persistence* persistence = nullptr;
  bool is_probed = false;                           // the target, in this epoch
  std::map<TargetId, Persistence> persistence_now;  // key: targets with rows
  for (std::size_t row = 0; row < joined.size(); ++row) {
    const PageKey key = joined.key[row];
    const std::uint32_t pages = joined.span_pages[row];
    if (target != key.target) {
      target = key.target;
      keep = keeps.Of(key.target).evidence;
      age = ages.Of(key.target);
      persistence =
          &persistence_now.try_emplace(key.target, PersistenceOf(key.target)).first->second;
      persistence->Age(age);
      is_probed = std::ranges::binary_search(probed_targets, key.target);
      if (is_probed) persistence->SetProbed();
    }
    Span span{.row = row,
              .keep = keep,
              .unprobed = 0,
              .drawn_anew = 0,
              .suspect = row_suspected(key, pages),
              .visit = row_now(key, pages),
              .persistence = persistence};
    const auto before = row_before(key, pages);
    span.unprobed = age + (before ? unprobed_seconds_[*before] : 0);
    const bool probed = span.visit && view.TellsOfBits(newer.evidence[*span.visit]);
    unprobed_seconds[row] = probed ? 0 : static_cast<float>(span.unprobed);
    span.drawn_anew = -std::expm1(-span.unprobed / persistence->MeanSeconds());
    if (before && !span.visit) {
      unseen_seconds[row] = unseen_seconds_[*before] + (is_probed ? static_cast<float>(age) : 0.0F);
      if (forgets_gone && unseen_seconds[row] > persistence->LongestWait()) {
        joined.evidence[row] = {};
        continue;
      }
    }
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
    const Predictions::Prediction by_all = predicted.Given(span.before, span.now);
    const Predictions::Prediction by_since =
        span.suspect ? predicted.Given(span.since, span.now) : Predictions::Prediction{};
    const Predictions::Prediction anew = predicted.DrawnAnew(span.now);
    const double lasted =
        (1 - chance) * by_all.blurred.value() + chance * by_since.blurred.value_or(0);
    span.persistence->Add(span.unprobed, lasted, anew.blurred.value());
    const RateAccounts accounts = ChooseAccounts(Weigh(kEver, (1 - chance) * lasts, by_all),
                                                 Weigh(kSuspicion, chance * lasts, by_since),
                                                 Weigh(kNow, drawn_anew, anew), least);
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
  for (auto& each : persistence_now) each.second.Conclude();
  persistence_ = std::move(persistence_now);
  suspected_ = std::move(suspected);
  unprobed_seconds_ = std::move(unprobed_seconds);
  unseen_seconds_ = std::move(unseen_seconds);
}

void RateChanges::Follow(const EvidenceTable& before, const EvidenceTable& now) {
  for (std::vector<float>* seconds : {&unprobed_seconds_, &unseen_seconds_}) {
    seconds->resize(before.size());
    std::vector<float> followed(now.size());
    RowOf row_before(before);
    for (std::size_t row = 0; row < now.size(); ++row) {
      const auto same = row_before(now.key[row], now.span_pages[row]);
      if (same) followed[row] = (*seconds)[*same];
    }
    *seconds = std::move(followed);
  }
}

}  // namespace tmprof
