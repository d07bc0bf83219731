// SPDX-License-Identifier: Apache-2.0

#include "rank/rank_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"
#include "rank/rate_model.h"

namespace tmprof {
namespace {

constexpr std::array kModels = {RankModel::kSum, RankModel::kRate};
constexpr std::array kSources = {RankSource::kReferences, RankSource::kSamples,
                                 RankSource::kCombined, RankSource::kTruth};

// Evidence that has decayed below this many looks and observations per page is dropped, so that
// what was unmapped long ago does not stay for ever: ten half-lives after a single look.
constexpr double kForgotten = 1.0 / 1024;

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

// LogDuration has 1025 codes; an exp2 per record would be most of the work of absorbing one.
double SecondsOf(LogDuration duration) {
  static const std::vector<double> seconds = [] {
    std::vector<double> table;
    for (std::uint16_t code = 0;; ++code) {
      const LogDuration of_code = LogDuration::FromCode(code);
      if (of_code.code() != code) return table;
      table.push_back(of_code.seconds());
    }
  }();
  return seconds[duration.code()];
}

Evidence EvidenceAt(const PageColumns& pages, std::size_t i, bool is_truth) {
  const double span = pages.span_pages[i];
  Evidence evidence{.looks = pages.looks[i] * span,
                    .references = static_cast<double>(pages.references[i]),
                    .first_accesses = static_cast<double>(pages.first_accesses[i]),
                    .page_seconds_at_risk = SecondsOf(pages.time_at_risk[i]) * span};
  const double loads = pages.load_samples[i];
  const double stores = pages.store_samples[i];
  if (is_truth) {
    evidence.accesses = loads + stores;
  } else {
    evidence.load_samples = loads;
    evidence.store_samples = stores;
  }
  return evidence;
}

// `part` of the evidence; the accesses by their own factor.
void Add(Evidence& to, const Evidence& from, double part, double accesses_part) {
  to.looks += part * from.looks;
  to.references += part * from.references;
  to.first_accesses += part * from.first_accesses;
  to.page_seconds_at_risk += part * from.page_seconds_at_risk;
  to.load_samples += part * from.load_samples;
  to.store_samples += part * from.store_samples;
  to.accesses += accesses_part * from.accesses;
}

void Push(EvidenceTable& table, PageKey key, std::uint32_t span, const Evidence& evidence) {
  table.key.push_back(key);
  table.span_pages.push_back(span);
  table.evidence.push_back(evidence);
}

// Walks an older table in step with ascending ranges of pages, handing out shares of its evidence.
class OldEvidence {
 public:
  OldEvidence(const EvidenceTable& table, double keep, double keep_accesses)
      : table_(table), keep_(keep), keep_accesses_(keep_accesses) {}

  // What lies before `until` goes to `out` as rows of its own, if there is enough of it left.
  void EmitBefore(PageKey until, EvidenceTable& out) {
    while (row_ < table_.size() && Start() < until) {
      const std::uint64_t pages = until.target == Start().target
                                      ? std::min(PagesLeft(), (until.vpn - Start().vpn).value())
                                      : PagesLeft();
      Evidence rest;
      const PageKey key = Start();
      Take(pages, rest);
      const double left = rest.looks + rest.references + rest.samples() + rest.accesses;
      if (keep_ == 1 || left >= kForgotten * static_cast<double>(pages)) {
        Push(out, key, static_cast<std::uint32_t>(pages), rest);
      }
    }
  }

  // What lies within [key, key + span) is added to `evidence`. Precondition: nothing lies before.
  void AddWithin(PageKey key, std::uint64_t span, Evidence& evidence) {
    const Vpn end = key.vpn + PageCount(span);
    while (row_ < table_.size() && Start().target == key.target && Start().vpn < end) {
      Take(std::min(PagesLeft(), (end - Start().vpn).value()), evidence);
    }
  }

 private:
  PageKey Start() const {
    return {table_.key[row_].target, table_.key[row_].vpn + PageCount(taken_)};
  }
  std::uint64_t PagesLeft() const { return table_.span_pages[row_] - taken_; }

  void Take(std::uint64_t pages, Evidence& to) {
    const double share = static_cast<double>(pages) / table_.span_pages[row_];
    Add(to, table_.evidence[row_], share * keep_, share * keep_accesses_);
    taken_ += pages;
    if (taken_ == table_.span_pages[row_]) {
      ++row_;
      taken_ = 0;
    }
  }

  const EvidenceTable& table_;
  const double keep_;
  const double keep_accesses_;
  std::size_t row_ = 0;
  std::uint64_t taken_ = 0;  // pages of that row already handed out
};

// The share of the epoch during which samples were taken. A profile with pages that names no
// sampler at all (made by hand, or by an importer) is believed to have been watched throughout.
double SamplerDuty(const EpochProfile& profile) {
  bool named = false;
  double duty = 0;
  for (const SourceStatus& source : profile.sources) {
    if (source.role != SourceRole::kSamples) continue;
    named = true;
    if (source.state == SourceState::kActive) {
      duty = std::max(duty, source.duty_cycle.value_or(1.0));
    }
  }
  return named ? duty : profile.pages.empty() ? 0.0 : 1.0;
}

bool HasTruth(const EpochProfile& profile) {
  return std::ranges::any_of(profile.sources, [](const SourceStatus& source) {
    return source.role == SourceRole::kTruth && source.state == SourceState::kActive;
  });
}

double Count(const Evidence& evidence, RankSource source) {
  switch (source) {
    case RankSource::kReferences:
      return evidence.references;
    case RankSource::kSamples:
      return evidence.samples();
    case RankSource::kCombined:
      return evidence.references + evidence.samples();
    case RankSource::kTruth:
      return evidence.accesses;
  }
  return 0;
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

void Ranker::Forget() { *this = Ranker(options_); }

void Ranker::Absorb(const EpochProfile& profile) {
  double keep = options_.memory == Memory::kEverything ? 1 : 0;
  if (options_.memory == Memory::kHalfLife && last_end_) {
    const double age = std::max(0.0, Seconds(profile.end - *last_end_));
    keep = std::exp2(-age / Seconds(options_.half_life));
  }
  const double keep_accesses = options_.memory == Memory::kEverything ? 1 : 0;
  last_end_ = profile.end;
  AbsorbTimes(profile, keep);

  const bool is_truth = HasTruth(profile);
  const PageColumns& pages = profile.pages;
  if (keep == 0) {
    spare_.key.resize(pages.size());
    spare_.span_pages.resize(pages.size());
    spare_.evidence.resize(pages.size());
    for (std::size_t i = 0; i < pages.size(); ++i) {
      spare_.key[i] = pages.key(i);
      spare_.span_pages[i] = pages.span_pages[i];
      spare_.evidence[i] = EvidenceAt(pages, i, is_truth);
    }
  } else {
    const std::size_t rows = pages.size() + table_.size();
    spare_.key.clear();
    spare_.key.reserve(rows);
    spare_.span_pages.clear();
    spare_.span_pages.reserve(rows);
    spare_.evidence.clear();
    spare_.evidence.reserve(rows);
    OldEvidence old(table_, keep, keep_accesses);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      Evidence evidence = EvidenceAt(pages, i, is_truth);
      old.EmitBefore(pages.key(i), spare_);
      old.AddWithin(pages.key(i), pages.span_pages[i], evidence);
      Push(spare_, pages.key(i), pages.span_pages[i], evidence);
    }
    constexpr PageKey kPastAll{TargetId(std::numeric_limits<TargetId::rep>::max()),
                               Vpn(std::numeric_limits<Vpn::rep>::max())};
    old.EmitBefore(kPastAll, spare_);
  }
  std::swap(table_, spare_);
}

void Ranker::AbsorbTimes(const EpochProfile& profile, double keep) {
  const double duty = SamplerDuty(profile);
  const auto age = [&](TargetTime& time) {
    time.watched_seconds *= keep;
    time.cpu_seconds = 0;
  };
  const auto add = [&](TargetTime& time, double cpu_seconds) {
    time.cpu_seconds += cpu_seconds;
    time.watched_seconds += duty * cpu_seconds;
  };
  for (TargetTime& time : times_) age(time);
  age(unlisted_);
  add(unlisted_, Seconds(profile.length()));
  for (const Target& target : profile.targets) {
    auto at = std::ranges::lower_bound(times_, target.id, {}, &TargetTime::target);
    if (at == times_.end() || at->target != target.id) {
      at = times_.insert(at, {.target = target.id});
    }
    add(*at, Seconds(target.cpu_time.value_or(profile.length())));
  }
}

Ranker::TargetTime Ranker::TimeOf(TargetId target) const {
  const auto at = std::ranges::lower_bound(times_, target, {}, &TargetTime::target);
  return at != times_.end() && at->target == target ? *at : unlisted_;
}

Scores Ranker::Score(RankSource source) const {
  Scores scores;
  Score(source, scores);
  return scores;
}

void Ranker::Score(RankSource source, Scores& scores) const {
  if (options_.model == RankModel::kRate && source != RankSource::kTruth) {
    scores = EstimateByRate(source).score;
    return;
  }
  scores.resize(table_.size());
  std::ranges::transform(table_.evidence, scores.begin(),
                         [source](const Evidence& evidence) { return Count(evidence, source); });
}

Estimates Ranker::Estimate(RankSource source) const {
  if (options_.model == RankModel::kRate && source != RankSource::kTruth) {
    return EstimateByRate(source);
  }
  Estimates estimates{.score = Score(source)};
  estimates.relative_sd.reserve(table_.size());
  for (const double count : estimates.score) {
    // A count's own noise is Poisson; exact accesses have none.
    estimates.relative_sd.push_back(count == 0 ? std::numeric_limits<double>::infinity()
                                    : source == RankSource::kTruth ? 0
                                                                   : 1 / std::sqrt(count));
  }
  return estimates;
}

Estimates Ranker::EstimateByRate(RankSource source) const {
  const bool use_bits = source != RankSource::kSamples;
  const bool use_samples = source != RankSource::kReferences;

  // Without a CPU clock no time was kept: then every look counts one second.
  const bool timed = std::ranges::any_of(
      table_.evidence, [](const Evidence& evidence) { return evidence.page_seconds_at_risk > 0; });
  std::vector<RateEvidence> rates;
  std::vector<std::uint32_t> row_of;
  std::vector<double> span_seconds;  // pages x CPU time of the epoch: rate per page -> score
  rates.reserve(table_.size());
  row_of.reserve(table_.size());
  span_seconds.reserve(table_.size());
  TargetTime time;
  for (std::size_t i = 0; i < table_.size(); ++i) {
    const Evidence& evidence = table_.evidence[i];
    // A row that this source alone would not have made is not estimated by it.
    if (!(use_bits && evidence.looks > 0) && !(use_samples && evidence.samples() > 0)) continue;
    if (row_of.empty() || time.target != table_.key[i].target) {
      time = TimeOf(table_.key[i].target);
      time.target = table_.key[i].target;
    }
    const double pages = table_.span_pages[i];
    RateEvidence rate{.pages = pages};
    if (use_bits) {
      rate.first_accesses = timed ? evidence.first_accesses : evidence.references;
      rate.seconds_at_risk = (timed ? evidence.page_seconds_at_risk : evidence.looks) / pages;
    }
    if (use_samples) {
      rate.samples = evidence.samples();
      rate.seconds_watched = time.watched_seconds;
    }
    rates.push_back(rate);
    row_of.push_back(static_cast<std::uint32_t>(i));
    span_seconds.push_back(pages * time.cpu_seconds);
  }

  const RateEstimates rate = EstimateRates(rates);
  Estimates estimates{
      .score = Scores(table_.size(), 0.0),
      .relative_sd = std::vector<double>(table_.size(), std::numeric_limits<double>::infinity())};
  for (std::size_t r = 0; r < row_of.size(); ++r) {
    estimates.score[row_of[r]] = rate.accesses_per_second[r] * span_seconds[r];
    if (estimates.score[row_of[r]] > 0) estimates.relative_sd[row_of[r]] = rate.relative_sd[r];
  }
  return estimates;
}

}  // namespace tmprof
