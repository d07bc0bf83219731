// SPDX-License-Identifier: Apache-2.0

#include "rank/rank_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "rank/hit_rate_curve.h"
#include "rank/rate_fit.h"
#include "rank/source_view.h"

namespace tmprof {
namespace {

constexpr std::array kModels = {RankModel::kSum, RankModel::kRate};
constexpr std::array kSources = {RankSource::kReferences, RankSource::kSamples,
                                 RankSource::kCombined, RankSource::kTruth, RankSource::kMisses};

// docs/accuracy.md, "Rates that change, as they come in".
constexpr std::chrono::seconds kDefaultHalfLife{6};

template <typename Choice, std::size_t n>
Result<Choice> ParseName(std::string_view text, const char* attempt,
                         const std::array<Choice, n>& choices) {
  std::string names;
  for (const Choice choice : choices) {
    if (Name(choice) == text) return choice;
    names.append(names.empty() ? "" : ", ").append(Name(choice));
  }
  return Fail(BadInput(attempt, std::string(text), "unknown name", "use one of " + names));
}

// One of two, the other with the chance `of_other`.
RateMoments Mixed(RateMoments one, RateMoments other, double of_other) {
  const double apart = other.mean - one.mean;
  return {.mean = one.mean + of_other * apart,
          .variance = (1 - of_other) * one.variance + of_other * other.variance +
                      of_other * (1 - of_other) * apart * apart};
}

}  // namespace

std::string_view Name(RankModel model) {
  switch (model) {
    case RankModel::kSum:
      return "sum";
    case RankModel::kRate:
      return "rate";
  }
  return "invalid";
}

std::string_view Name(RankSource source) {
  switch (source) {
    case RankSource::kReferences:
      return "references";
    case RankSource::kSamples:
      return "samples";
    case RankSource::kCombined:
      return "combined";
    case RankSource::kTruth:
      return "truth";
    case RankSource::kMisses:
      return "misses";
  }
  return "invalid";
}

Result<RankModel> ParseRankModel(std::string_view text) {
  return ParseName(text, "choose rank model", kModels);
}

Result<RankSource> ParseRankSource(std::string_view text) {
  return ParseName(text, "choose rank source", kSources);
}

Result<std::optional<RankSource>> ParseRankSourceIfAny(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return ParseRankSource(text);
}

Ranker::Options Ranker::DefaultOptions(RankModel model) {
  if (model == RankModel::kSum) return {.model = model};
  return {.model = model, .memory = Memory::kHalfLife, .half_life = kDefaultHalfLife};
}

Ranker::Ranker(const Options& options) { Configure(options); }

void Ranker::Configure(const Options& options) {
  TMPROF_CHECK(options.memory != Memory::kHalfLife || options.half_life.count() > 0);
  options_ = options;
  const bool suspects = options.model == RankModel::kRate && options.memory == Memory::kHalfLife &&
                        options.follow_changes;
  if (!suspects) changes_ = {};
}

void Ranker::Absorb(const EpochProfile& profile) {
  const bool remembers = options_.memory == Memory::kHalfLife && last_end_;
  const Ages ages = AgesAfter(profile, last_end_);
  const Keeps keeps = remembers ? KeepsAfter(ages, Seconds(options_.half_life))
                                : Keeps({.evidence = 0, .accesses = 0});
  last_end_ = profile.end;
  times_.Fade(keeps);
  times_.Add(profile);
  if (!remembers) {
    changes_ = {};
    spare_.Take(profile);
  } else {
    latest_.Take(profile);
    spare_.Join(evidence_, keeps, latest_);
    if (options_.model == RankModel::kRate && options_.follow_changes) {
      changes_.Absorb(evidence_.spans(), keeps, latest_.spans(), ages, spare_.spans());
    }
  }
  spare_.Part();
  std::swap(evidence_, spare_);
}

Scores Ranker::Score(RankSource source) const {
  Scores scores;
  Score(source, scores);
  return scores;
}

void Ranker::Score(RankSource source, Scores& scores) const {
  if (IsEstimated(options_.model, source)) {
    EstimateByRate(source, scores, nullptr);
  } else {
    ScoreByCounts(table(), source, scores);
  }
}

Estimates Ranker::Estimate(RankSource source) const {
  if (!IsEstimated(options_.model, source)) {
    return EstimateByCounts(table(), source);
  }
  Estimates estimates;
  EstimateByRate(source, estimates.score, &estimates.relative_sd);
  return estimates;
}

void Ranker::EstimateByRate(RankSource source, Scores& scores,
                            std::vector<double>* relative_sd) const {
  // Samples alone know no regions.
  if (!evidence_.is_parted() || source == RankSource::kSamples) {
    EstimateByRate(table(), source, scores, relative_sd);
    return;
  }
  EstimateByRate(evidence_.WholeSpans(), source, scores, relative_sd);
  evidence_.ShareOut(SharedBy(source), scores, relative_sd);
}

RatedRows Ranker::Rate(const EvidenceTable& table, RankSource source, FoundAt found_at) const {
  const RateView view(table, source);
  RateKinds sorter(found_at);
  RatedRows rated;
  TargetTime time;
  bool any_time = false;
  for (std::size_t row = 0; row < table.size(); ++row) {
    if (!view.Sees(table.evidence[row])) continue;
    const PageKey key = table.key[row];
    if (!any_time || time.target != key.target) {
      time = times_.Of(key.target);
      time.target = key.target;
      any_time = true;
    }
    const std::uint32_t pages = table.span_pages[row];
    rated.rows.push_back(
        {.key = key,
         .row = static_cast<std::uint32_t>(row),
         .pages = pages,
         .kind = sorter.Add(view.Of(table.evidence[row], pages, time.watched_seconds)),
         .found_untimed = source != RankSource::kSamples && table.evidence[row].references > 0 &&
                          !view.TellsOfBits(table.evidence[row]),
         .cpu_seconds = time.cpu_seconds,
         .remembered_cpu_seconds = time.remembered_cpu_seconds});
  }

  static const SuspectedChanges kNone;
  const SuspectedChanges& suspected = source == RankSource::kSamples ? kNone : changes_.suspected();
  const RateView bits(table, RankSource::kReferences);
  auto row = rated.rows.begin();
  for (std::size_t s = 0; s < suspected.since.size(); ++s) {
    const std::uint32_t kind = sorter.Add(
        bits.Of(suspected.since.evidence[s], suspected.since.span_pages[s], /*watched_seconds=*/0));
    while (row != rated.rows.end() && row->key < suspected.since.key[s]) ++row;
    if (row == rated.rows.end() || row->key != suspected.since.key[s]) continue;
    row->kind_since = kind;
    row->chance = suspected.chance[s];
  }
  rated.kinds = std::move(sorter).Take();
  return rated;
}

void Ranker::EstimateByRate(const EvidenceTable& table, RankSource source, Scores& scores,
                            std::vector<double>* relative_sd) const {
  scores.assign(table.size(), 0.0);
  if (relative_sd) relative_sd->assign(table.size(), std::numeric_limits<double>::infinity());
  const RatedRows rated = Rate(table, source, FoundAt::kMiddle);
  if (rated.kinds.empty()) return;
  const std::vector<RateMoments> moments =
      MomentsOf(FitRates(rated.kinds).mixture, rated.kinds.size());
  for (const RatedRow& row : rated.rows) {
    RateMoments rate = moments[row.kind];
    if (row.kind_since != RatedRow::kNone) rate = Mixed(rate, moments[row.kind_since], row.chance);
    scores[row.row] = row.pages * row.cpu_seconds * rate.mean;
    if (relative_sd && scores[row.row] > 0) {
      (*relative_sd)[row.row] = std::sqrt(rate.variance) / rate.mean;
    }
  }
}

std::vector<HitRates> Ranker::HitRatesAt(RankSource source,
                                         std::span<const PageCount> capacities) const {
  if (!IsEstimated(options_.model, source)) return {};
  return HitRatesOf(Rate(evidence_.WholeSpans(), source, FoundAt::kBetweenReads), capacities);
}

}  // namespace tmprof
