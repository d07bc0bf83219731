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

// docs/accuracy.md, "Half-life".
constexpr std::chrono::seconds kDefaultHalfLife{3};

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
    TakeEvidence(profile, spare_);
  } else {
    TakeEvidence(profile, latest_);
    Join(table_, {.evidence = keep, .accesses = 0}, latest_, spare_);
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

  const RateEstimates rate = EstimateRates(rates);
  Estimates estimates = NoEstimates(table_.size());
  for (std::size_t r = 0; r < row_of.size(); ++r) {
    const double score = rate.accesses_per_second[r] * span_seconds[r];
    estimates.score[row_of[r]] = score;
    if (score > 0) estimates.relative_sd[row_of[r]] = rate.relative_sd[r];
  }
  return estimates;
}

}  // namespace tmprof
