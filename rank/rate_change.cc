// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_change.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

#include "rank/rate_fit.h"
#include "rank/source_view.h"

namespace tmprof {
namespace {

// Below, a change is not worth remembering; above, what was before is not.
constexpr double kUnlikely = 0.02;
constexpr double kCertain = 0.95;

// What accessed bits tell, and nothing else.
Evidence Bits(const Evidence& evidence, double weight) {
  return {.looks = weight * evidence.looks,
          .references = weight * evidence.references,
          .first_accesses = weight * evidence.first_accesses,
          .page_seconds_at_risk = weight * evidence.page_seconds_at_risk};
}

void AddBits(Evidence& sum, const Evidence& evidence) {
  sum.looks += evidence.looks;
  sum.references += evidence.references;
  sum.first_accesses += evidence.first_accesses;
  sum.page_seconds_at_risk += evidence.page_seconds_at_risk;
}

void ReplaceBits(Evidence& evidence, const Evidence& bits) {
  evidence.looks = bits.looks;
  evidence.references = bits.references;
  evidence.first_accesses = bits.first_accesses;
  evidence.page_seconds_at_risk = bits.page_seconds_at_risk;
}

// The likelihood of one piece of evidence, at the rates that another leaves or at rates drawn anew,
// up to a factor of the piece's own.
class Predictions {
 public:
  explicit Predictions(const Mixture& mixture) : mixture_(&mixture) {}

  double Given(std::uint32_t known, std::uint32_t piece) {
    const auto [found, is_new] = given_.try_emplace(std::uint64_t{known} << 32 | piece, 0.0);
    if (is_new) found->second = mixture_->Mean(known, mixture_->Likelihood(piece));
    return found->second;
  }

  double DrawnAnew(std::uint32_t piece) const {
    return mixture_->Mass(mixture_->Likelihood(piece).data());
  }

 private:
  const Mixture* mixture_;
  std::unordered_map<std::uint64_t, double> given_;
};

void Push(EvidenceTable& table, PageKey key, std::uint32_t span_pages, const Evidence& evidence) {
  table.key.push_back(key);
  table.span_pages.push_back(span_pages);
  table.evidence.push_back(evidence);
}

// Walks a table in step with ascending keys.
class RowOf {
 public:
  explicit RowOf(const EvidenceTable& table) : table_(&table) {}

  // The first row that is not before `key`.
  std::size_t From(PageKey key) {
    while (at_ < table_->size() && table_->key[at_] < key) ++at_;
    return at_;
  }
  // The row of just this span.
  std::optional<std::size_t> operator()(PageKey key, std::uint32_t span_pages) {
    const std::size_t at = From(key);
    const bool found =
        at < table_->size() && table_->key[at] == key && table_->span_pages[at] == span_pages;
    return found ? std::optional(at) : std::nullopt;
  }

 private:
  const EvidenceTable* table_;
  std::size_t at_ = 0;
};

}  // namespace

void RateChanges::Absorb(const EvidenceTable& older, double keep, const EvidenceTable& newer,
                         double drawn_anew) {
  struct Visit {
    std::size_t row;  // of `newer`
    std::optional<std::size_t> suspect;
    std::uint32_t before = 0;  // kinds
    std::uint32_t since = 0;
    std::uint32_t now = 0;
  };
  const RateView view(newer, RankSource::kReferences);
  const auto bits = [&](const Evidence& evidence, std::uint32_t pages) {
    return view.Of(evidence, pages, /*watched_seconds=*/0);
  };
  RateKinds sorter;
  for (Evidence& since : suspected_.since.evidence) since = Bits(since, keep);
  std::vector<Visit> visits;
  RowOf row_before(older);
  RowOf row_suspected(suspected_.since);
  for (std::size_t row = 0; row < newer.size(); ++row) {
    const PageKey key = newer.key[row];
    const std::uint32_t pages = newer.span_pages[row];
    const auto before = row_before(key, pages);
    if (!before || !view.Sees(newer.evidence[row]) || !view.Sees(older.evidence[*before])) continue;
    Visit visit{.row = row, .suspect = row_suspected(key, pages)};
    visit.before = sorter.Add(bits(Bits(older.evidence[*before], keep), pages));
    visit.now = sorter.Add(bits(newer.evidence[row], pages));
    if (visit.suspect) {
      visit.since = sorter.Add(bits(suspected_.since.evidence[*visit.suspect], pages));
    }
    visits.push_back(visit);
  }
  const std::vector<RateKind> kinds = std::move(sorter).Take();
  const RateFit fit = FitRates(kinds);
  Predictions predicted(fit.mixture);

  certain_ = {};
  SuspectedChanges suspected;
  std::size_t kept = 0;  // those before are in `suspected`, or no longer suspected
  const auto keep_before = [&](std::size_t end) {
    for (; kept < end; ++kept) {
      Push(suspected.since, suspected_.since.key[kept], suspected_.since.span_pages[kept],
           suspected_.since.evidence[kept]);
      suspected.chance.push_back(suspected_.chance[kept]);
    }
  };
  RowOf next_suspected(suspected_.since);
  for (const Visit& visit : visits) {
    const PageKey key = newer.key[visit.row];
    const std::uint32_t pages = newer.span_pages[visit.row];
    const Evidence seen = Bits(newer.evidence[visit.row], 1);
    keep_before(next_suspected.From(key));
    if (visit.suspect) kept = *visit.suspect + 1;

    const double chance = visit.suspect ? suspected_.chance[*visit.suspect] : 0;
    const double lasted =
        (1 - chance) * (1 - drawn_anew) * predicted.Given(visit.before, visit.now);
    const double since_then =
        visit.suspect ? chance * (1 - drawn_anew) * predicted.Given(visit.since, visit.now) : 0;
    const double just_now = drawn_anew * predicted.DrawnAnew(visit.now);
    const double changed = (since_then + just_now) / (lasted + since_then + just_now);
    if (!(changed >= std::max(kUnlikely, drawn_anew))) continue;
    Evidence since = seen;
    if (since_then > just_now) AddBits(since, suspected_.since.evidence[*visit.suspect]);
    if (changed > kCertain) {
      Push(certain_, key, pages, since);
    } else {
      Push(suspected.since, key, pages, since);
      suspected.chance.push_back(static_cast<float>(changed));
    }
  }
  keep_before(suspected_.since.size());
  suspected_ = std::move(suspected);
}

void RateChanges::Settle(EvidenceTable& all) {
  RowOf changed_row(all);
  for (std::size_t i = 0; i < certain_.size(); ++i) {
    if (const auto row = changed_row(certain_.key[i], certain_.span_pages[i])) {
      ReplaceBits(all.evidence[*row], certain_.evidence[i]);
    }
  }
  SuspectedChanges there;
  RowOf suspected_row(all);
  for (std::size_t i = 0; i < suspected_.since.size(); ++i) {
    if (!suspected_row(suspected_.since.key[i], suspected_.since.span_pages[i])) continue;
    Push(there.since, suspected_.since.key[i], suspected_.since.span_pages[i],
         suspected_.since.evidence[i]);
    there.chance.push_back(suspected_.chance[i]);
  }
  suspected_ = std::move(there);
}

}  // namespace tmprof
