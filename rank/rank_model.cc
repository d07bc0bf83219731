// SPDX-License-Identifier: Apache-2.0

#include "rank/rank_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "base/check.h"
#include "rank/rate_model.h"
#include "rank/source_view.h"

namespace tmprof {
namespace {

constexpr std::array kModels = {RankModel::kSum, RankModel::kRate};
constexpr std::array kSources = {RankSource::kReferences, RankSource::kSamples,
                                 RankSource::kCombined, RankSource::kTruth, RankSource::kMisses};

// docs/accuracy.md, "Rates that change, as they come in".
constexpr std::chrono::seconds kDefaultHalfLife{6};
// How long a rate is supposed to last; likewise.
constexpr std::chrono::seconds kPersistence{60};

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

double Seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

struct Moments {
  double mean;
  double variance;
};

Moments MomentsOf(const RateEstimates& rate, std::size_t row) {
  const double mean = rate.accesses_per_second[row];
  const double sd = mean * rate.relative_sd[row];
  return {.mean = mean, .variance = sd * sd};
}

// One of two, the other with the chance `of_other`.
Moments Mixed(Moments one, Moments other, double of_other) {
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

Ranker::Options Ranker::DefaultOptions(RankModel model) {
  if (model == RankModel::kSum) return {.model = model};
  return {.model = model, .memory = Memory::kHalfLife, .half_life = kDefaultHalfLife};
}

Ranker::Ranker(const Options& options) : options_(options) {
  TMPROF_CHECK(options.memory != Memory::kHalfLife || options.half_life.count() > 0);
}

void Ranker::Absorb(const EpochProfile& profile) {
  double keep = 0;
  if (options_.memory == Memory::kHalfLife && last_end_) {
    const double age = std::max(0.0, Seconds(profile.end - *last_end_));
    keep = std::exp2(-age / Seconds(options_.half_life));
  }
  last_end_ = profile.end;
  times_.Fade(0, keep);
  times_.Add(profile);
  if (keep == 0) {
    changes_ = {};
    TakeEvidence(profile, spare_);
  } else {
    TakeEvidence(profile, latest_);
    Join(table_, {.evidence = keep, .accesses = 0}, latest_, spare_);
    if (options_.model == RankModel::kRate && options_.follow_changes) {
      changes_.Absorb(table_, keep, latest_,
                      -std::expm1(-Seconds(profile.length()) / Seconds(kPersistence)), spare_);
    }
  }
  std::swap(table_, spare_);
}

Scores Ranker::Score(RankSource source) const {
  Scores scores;
  Score(source, scores);
  return scores;
}

void Ranker::Score(RankSource source, Scores& scores) const {
  if (options_.model == RankModel::kRate && !IsExact(source)) {
    scores = EstimateByRate(source).score;
  } else {
    ScoreByCounts(table_, source, scores);
  }
}

Estimates Ranker::Estimate(RankSource source) const {
  return options_.model == RankModel::kRate && !IsExact(source) ? EstimateByRate(source)
                                                                : EstimateByCounts(table_, source);
}

Estimates Ranker::EstimateByRate(RankSource source) const {
  const RateView view(table_, source);
  std::vector<RateEvidence> rates;
  std::vector<std::uint32_t> row_of;
  std::vector<double> span_seconds;  // pages x CPU time of the epoch: rate per page -> score
  rates.reserve(table_.size());
  row_of.reserve(table_.size());
  span_seconds.reserve(table_.size());
  TargetTime time;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    if (!view.Sees(table_.evidence[i])) continue;
    if (row_of.empty() || time.target != table_.key[i].target) {
      time = times_.Of(table_.key[i].target);
      time.target = table_.key[i].target;
    }
    const double pages = table_.span_pages[i];
    rates.push_back(view.Of(table_.evidence[i], pages, time.watched_seconds));
    row_of.push_back(static_cast<std::uint32_t>(i));
    span_seconds.push_back(pages * time.cpu_seconds);
  }

  const std::size_t lasting = rates.size();
  static const SuspectedChanges kNone;
  const SuspectedChanges& suspected = source == RankSource::kSamples ? kNone : changes_.suspected();
  const RateView bits(table_, RankSource::kReferences);
  for (std::size_t s = 0; s < suspected.since.size(); ++s) {
    rates.push_back(
        bits.Of(suspected.since.evidence[s], suspected.since.span_pages[s], /*watched_seconds=*/0));
  }

  const RateEstimates rate = EstimateRates(rates);
  Estimates estimates = NoEstimates(table_.size());
  std::size_t next = 0;  // suspects are rows of the table, too
  for (std::size_t r = 0; r < row_of.size(); ++r) {
    Moments moments = MomentsOf(rate, r);
    const PageKey key = table_.key[row_of[r]];
    while (next < suspected.since.size() && suspected.since.key[next] < key) ++next;
    if (next < suspected.since.size() && suspected.since.key[next] == key) {
      moments = Mixed(moments, MomentsOf(rate, lasting + next), suspected.chance[next]);
    }
    const double score = moments.mean * span_seconds[r];
    estimates.score[row_of[r]] = score;
    if (score > 0) estimates.relative_sd[row_of[r]] = std::sqrt(moments.variance) / moments.mean;
  }
  return estimates;
}

}  // namespace tmprof
