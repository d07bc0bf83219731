// SPDX-License-Identifier: Apache-2.0

#include "rank/total_ranker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "rank/block_factors.h"
#include "rank/memory_weights.h"
#include "rank/rate_history.h"
#include "rank/shared_spans.h"
#include "rank/source_view.h"

namespace tmprof {
namespace {

// Steps tell phases apart that last a few of them, and cost time: 32 steps of 131 072 spans take
// some 0.6 s of CPU time to estimate (`report --view hot` of `zipf --footprint 512MiB`).
constexpr std::size_t kMostSteps = 32;
// Most rows of all steps, per span of the trace. If a scanner needs n epochs to visit everything,
// each fills one n-th of a step. This budget therefore leaves it the steps that its evidence can
// tell apart.
constexpr std::size_t kMostRowsPerSpan = 12;

// Accesses to memory per access of each span. Empty: accesses stay accesses.
class SpanWeights {
 public:
  // `relative_sd`: of a model of the cache, beside the error of the rate; of samples, all of it.
  SpanWeights() = default;
  explicit SpanWeights(MemoryBasis basis)
      : adds_errors_(basis == MemoryBasis::kCacheModel),
        in_proportion_(basis == MemoryBasis::kProportion) {}

  bool in_proportion() const { return in_proportion_; }  // each access counts the same

  void Add(double to_memory, double relative_sd) {
    to_memory_.push_back(to_memory);
    relative_sd_.push_back(relative_sd);
  }
  void Weigh(std::size_t span, double& accesses, double& relative_sd) const {
    if (to_memory_.empty()) return;
    accesses *= to_memory_[span];
    relative_sd = adds_errors_ ? std::hypot(relative_sd, relative_sd_[span]) : relative_sd_[span];
  }

 private:
  bool adds_errors_ = false;
  bool in_proportion_ = false;
  std::vector<double> to_memory_;
  std::vector<double> relative_sd_;
};

// `row_of`: the rows of the first spans; those of `shared` follow.
SpanWeights WeightsOf(const EvidenceTable& table, std::span<const std::uint32_t> row_of,
                      const SharedSpans& shared, const TargetTimes& times,
                      const AccessEstimates& per_page, const MemoryScale& scale,
                      const Streams& streams, bool with_samples) {
  std::vector<MemoryRow> rows;
  const auto add = [&](MemoryRow row, double seconds) {
    const double accesses = per_page.accesses[rows.size()];
    row.seen.rate = seconds > 0 ? accesses / seconds : 0;
    row.speed = seconds;
    if (!with_samples) row.seen.samples = row.seen.seconds = 0;
    rows.push_back(row);
  };
  const RateView view(table, RankSource::kReferences);
  const StreamShares shares = streams.Shares();
  TargetTime time;
  for (std::size_t span = 0; span < row_of.size(); ++span) {
    const std::uint32_t row = row_of[span];
    const PageKey key = table.key[row];
    if (span == 0 || time.target != key.target) {
      time = times.Of(key.target);
      time.target = key.target;
    }
    add({.target = key.target,
         .seen = {.pages = static_cast<double>(table.span_pages[row]),
                  .seconds = time.watched_seconds,
                  .samples = table.evidence[row].samples()},
         .looked_at = view.TellsOfBits(table.evidence[row]),
         .block = BlockOf(key, table.span_pages[row]),
         .hidden = kHiddenOfStream * shares.Of(key, PageCount(table.span_pages[row]))},
        time.cpu_seconds);
  }
  for (std::size_t span = 0; span < shared.spans(); ++span) {
    const SharedSpans::Sampled& sampled = shared.SampledOf(span);
    add(sampled.row, sampled.cpu_seconds);
  }
  LearnBlockFactors(rows);
  const MemoryWeights weights(rows, scale);
  SpanWeights of_spans(weights.basis());
  for (std::size_t span = 0; span < rows.size(); ++span) {
    const MemoryWeights::Weight weight = weights.Of(rows[span]);
    const double rate = rows[span].seen.rate;
    of_spans.Add(rate > 0 ? weight.mean / rate : 0, weight.relative_sd);
  }
  return of_spans;
}

std::size_t RowsOf(const PartedEvidence& evidence) {
  return evidence.spans().size() + evidence.pages().size();
}

}  // namespace

void TotalRanker::Absorb(const EpochProfile& profile) {
  shared_pages_.AddEpoch(profile);
  scale_.Look(profile);
  if (model_ == RankModel::kRate && llc_bytes_) streams_.Look(profile);
  most_resident_ = std::max(most_resident_, ResidentPages(profile));
  Step step{.start = profile.start, .end = profile.end, .epochs = 1};
  step.evidence.Take(profile);
  if (evidence_.AddAlike(step.evidence)) {
    spare_ = PartedEvidence();
  } else {
    spare_.Join(evidence_, Keeps(), step.evidence);
    spare_.Part();
    std::swap(evidence_, spare_);
  }
  if (model_ != RankModel::kRate) return;
  step.times.Add(profile);
  step.ages = AgesAfter(profile, last_end_);
  last_end_ = profile.end;
  if (!steps_.empty() && steps_.back().epochs < epochs_per_step_) {
    Append(steps_.back(), std::move(step));
  } else {
    steps_.push_back(std::move(step));
  }
  const auto rows = [this] {
    std::size_t sum = 0;
    for (const Step& each : steps_) sum += RowsOf(each.evidence);
    return sum;
  };
  while (steps_.size() > kMostSteps ||
         (steps_.size() > 1 && rows() > kMostRowsPerSpan * RowsOf(evidence_))) {
    DoubleSteps();
  }
}

void TotalRanker::Append(Step& step, Step&& next) {
  if (!step.evidence.AddAlike(next.evidence)) {
    PartedEvidence both;
    both.Join(step.evidence, Keeps(), next.evidence);
    step.evidence = std::move(both);
  }
  step.times.Add(next.times);
  step.ages = Sum(step.ages, next.ages);
  step.end = next.end;
  step.epochs += next.epochs;
}

void TotalRanker::DoubleSteps() {
  epochs_per_step_ *= 2;
  std::vector<Step> longer;
  for (Step& step : steps_) {
    if (longer.empty() || longer.back().epochs == epochs_per_step_) {
      longer.push_back(std::move(step));
    } else {
      Append(longer.back(), std::move(step));
    }
  }
  steps_ = std::move(longer);
}

Estimates TotalRanker::Estimate(RankSource source) const {
  return IsEstimated(model_, source) ? EstimateByRate(source, nullptr)
                                     : EstimateByCounts(table(), source);
}

bool TotalRanker::CacheIsRefuted() const {
  return llc_bytes_ && model_ == RankModel::kRate && Estimate(RankSource::kMemory).cache_is_refuted;
}

std::vector<StepEstimates> TotalRanker::EstimateOverTime(RankSource source) const {
  TMPROF_CHECK(IsEstimated(model_, source));
  std::vector<StepEstimates> over_time;
  EstimateByRate(source, &over_time);
  return over_time;
}

Estimates TotalRanker::EstimateByRate(RankSource source,
                                      std::vector<StepEstimates>* over_time) const {
  // Samples alone know no regions.
  if (!evidence_.is_parted() || source == RankSource::kSamples) {
    return EstimateByRate(table(), source, over_time);
  }
  Estimates estimates = EstimateByRate(evidence_.WholeSpans(), source, over_time);
  if (!estimates.relative_sd_of_page.empty()) {
    Scores scores = estimates.score;
    evidence_.ShareOut(SharedBy(source), scores, &estimates.relative_sd_of_page);
  }
  evidence_.ShareOut(SharedBy(source), estimates.score, &estimates.relative_sd);
  if (over_time == nullptr) return estimates;
  // Regions are made to add up in each call, so that a page's steps do not quite add up to it.
  std::vector<double> sums(estimates.score.size());
  for (StepEstimates& step : *over_time) {
    Estimates of_rows{.score = {step.score.begin(), step.score.end()},
                      .relative_sd = {step.relative_sd.begin(), step.relative_sd.end()}};
    evidence_.ShareOut(SharedBy(source), of_rows.score, &of_rows.relative_sd);
    step.score.assign(of_rows.score.begin(), of_rows.score.end());
    step.relative_sd.assign(of_rows.relative_sd.begin(), of_rows.relative_sd.end());
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_rows.score[i];
  }
  for (StepEstimates& step : *over_time) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i] > 0) step.score[i] *= static_cast<float>(estimates.score[i] / sums[i]);
    }
  }
  return estimates;
}

Estimates TotalRanker::EstimateByRate(const EvidenceTable& table, RankSource source,
                                      std::vector<StepEstimates>* over_time) const {
  Estimates estimates = NoEstimates(table.size());
  if (steps_.empty()) return estimates;
  const TargetTimes all = AllTimes();
  std::vector<SharedSpans::Step> times;
  for (const Step& step : steps_) {
    times.push_back({.times = &step.times, .ages = &step.ages, .evidence = &step.evidence});
  }
  SharedSpans shared(table, source, shared_pages_, all, std::move(times));
  RateHistory history(steps_.size());
  const std::vector<std::uint32_t> row_of =
      FillHistory(table, source, nullptr, history, &shared.mappers());
  shared.AddTo(history);

  const auto add = [](auto& score, auto& relative_sd, double more, double relative_sd_of_more) {
    if (more <= 0) return;
    const double before = score > 0 ? score * relative_sd : 0;
    score += static_cast<std::remove_reference_t<decltype(score)>>(more);
    relative_sd = static_cast<std::remove_reference_t<decltype(relative_sd)>>(
        (before + more * relative_sd_of_more) / score);
  };
  if (shared.spans() > 0) estimates.relative_sd_of_page = estimates.relative_sd;
  const auto add_to_row = [&](std::size_t row, double score, double relative_sd, double of_page) {
    if (shared.spans() > 0) {
      double sum = estimates.score[row];
      add(sum, estimates.relative_sd_of_page[row], score, of_page);
    }
    add(estimates.score[row], estimates.relative_sd[row], score, relative_sd);
  };
  bool by_steps = false;
  SpanWeights memory;  // if the source is kMemory
  const auto add_part = [&](RateHistory::PartOfStep part) {
    by_steps = true;
    memory.Weigh(part.span, part.accesses, part.relative_sd);
    if (over_time != nullptr && over_time->empty()) *over_time = EmptySteps(table.size());
    const auto add_to_step = [&](std::size_t row, double score, double relative_sd) {
      if (over_time == nullptr) return;
      StepEstimates& step = (*over_time)[part.step];
      add(step.score[row], step.relative_sd[row], score, relative_sd);
    };
    if (part.span < row_of.size()) {
      const std::uint32_t row = row_of[part.span];
      add_to_step(row, part.accesses * table.span_pages[row], part.relative_sd);
      return;
    }
    shared.ShareOut(part.span - row_of.size(), part.step, part.accesses, part.relative_sd,
                    [&](std::size_t row, double score, double relative_sd, double of_page) {
                      add_to_row(row, score, relative_sd, of_page);
                      add_to_step(row, score, relative_sd);
                    });
  };
  const bool visits = over_time != nullptr || shared.spans() > 0;
  if (source == RankSource::kMemory)
    memory = WeightsOf(
        table, row_of, shared, all, RateHistory(history).Estimate(),
        ScaleOf(scale_, llc_bytes_, PagesLookedAt(evidence_.spans(), [](TargetId) { return true; }),
                most_resident_),
        streams_, /*with_samples=*/!scale_.has_samples_of_time());
  estimates.cache_is_refuted = llc_bytes_ && memory.in_proportion();
  AccessEstimates per_page =
      visits ? std::move(history).Estimate(add_part) : std::move(history).Estimate();
  for (std::size_t span = 0; span < per_page.accesses.size(); ++span)
    memory.Weigh(span, per_page.accesses[span], per_page.relative_sd[span]);
  for (std::size_t r = 0; r < row_of.size(); ++r) {
    add_to_row(row_of[r], per_page.accesses[r] * table.span_pages[row_of[r]],
               per_page.relative_sd[r], per_page.relative_sd[r]);
  }
  for (std::size_t span = 0; !by_steps && span < shared.spans(); ++span) {
    const std::size_t at = row_of.size() + span;
    shared.ShareOutAll(span, per_page.accesses[at], per_page.relative_sd[at], add_to_row);
  }
  if (over_time != nullptr && over_time->empty()) {
    over_time->push_back(
        {.start = steps_.front().start,
         .end = steps_.back().end,
         .times = all,
         .score = {estimates.score.begin(), estimates.score.end()},
         .relative_sd = {estimates.relative_sd.begin(), estimates.relative_sd.end()}});
  }
  return estimates;
}

TargetTimes TotalRanker::AllTimes() const {
  TargetTimes all;
  for (const Step& step : steps_) all.Add(step.times);
  return all;
}

std::vector<std::uint32_t> TotalRanker::FillHistory(const EvidenceTable& table, RankSource source,
                                                    const std::function<void(TargetId)>& begun,
                                                    RateHistory& history,
                                                    const PageMappers* shared) const {
  const RateView view(table, source);
  const TargetTimes all_times = AllTimes();
  std::vector<EvidenceWalk> walks;
  std::vector<EvidenceWalk> pages_apart;
  for (const Step& step : steps_) {
    walks.emplace_back(step.evidence.spans());
    pages_apart.emplace_back(step.evidence.pages());
  }
  std::optional<TargetId> target;
  std::vector<double> watched(steps_.size());
  std::vector<RateEvidence> seen(steps_.size());
  std::vector<std::uint32_t> row_of;
  std::size_t next_shared = 0;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const PageKey key = table.key[i];
    if (target != key.target) {
      target = key.target;
      TargetSteps steps;
      double age = 0;
      for (std::size_t s = 0; s < steps_.size(); ++s) {
        const TargetTime time = all_times.In(steps_[s].times, *target);
        watched[s] = time.watched_seconds;
        steps.cpu_seconds.push_back(time.cpu_seconds);
        const double aged = steps_[s].ages.Of(*target);
        steps.middles.push_back(age + aged / 2);
        age += aged;
      }
      history.BeginTarget(std::move(steps));
      if (begun) begun(*target);
    }
    if (!view.Sees(table.evidence[i]) || (shared != nullptr && shared->IsShared(i, next_shared))) {
      continue;
    }
    const std::uint32_t pages = table.span_pages[i];
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      Evidence evidence;
      for (EvidenceWalk* walk : {&walks[s], &pages_apart[s]}) {
        walk->SkipBefore(key);
        walk->AddWithin(key, pages, evidence);
      }
      seen[s] = view.Of(evidence, pages, watched[s]);
    }
    history.AddSpan(seen);
    row_of.push_back(static_cast<std::uint32_t>(i));
  }
  return row_of;
}

double TotalRanker::CpuSecondsWithin(const Step& step, const TargetTimes& all, TargetId target,
                                     MonotonicTime from, MonotonicTime to) const {
  const auto within = std::min(step.end, to) - std::max(step.start, from);
  if (within.count() <= 0) return 0;
  const double share = Seconds(within) / Seconds(step.end - step.start);
  return share * all.In(step.times, target).cpu_seconds;
}

ChancesOverTime TotalRanker::EstimateChances(
    RankSource source, const RateQuestions& questions,
    const std::function<void(const RowChances&)>& visit) const {
  TMPROF_CHECK(IsEstimated(model_, source));
  ChancesOverTime over_time;
  if (steps_.empty()) return over_time;
  const bool whole_spans = evidence_.is_parted() && source != RankSource::kSamples;
  const EvidenceTable joined = whole_spans ? evidence_.WholeSpans() : EvidenceTable();
  const EvidenceTable& rows = whole_spans ? joined : table();
  const TargetTimes all = AllTimes();
  ChanceQuestions of_steps{.rates = questions.rates};
  const auto begun = [&](TargetId target) {
    std::vector<std::vector<double>> by_age;
    const auto asked = questions.ends.find(target);
    of_steps.is_asked.push_back(asked != questions.ends.end());
    const MonotonicTime end = of_steps.is_asked.back() ? asked->second : steps_.back().end;
    for (const std::chrono::nanoseconds age : questions.ages) {
      std::vector<double> by_step;
      for (const Step& step : steps_) {
        by_step.push_back(CpuSecondsWithin(step, all, target, end - age, end));
      }
      by_age.push_back(std::move(by_step));
    }
    of_steps.idle_cpu_seconds.push_back(std::move(by_age));
  };
  RateHistory history(steps_.size());
  const std::vector<std::uint32_t> row_of = FillHistory(rows, source, begun, history, nullptr);
  over_time.bounds = std::move(history).EstimateChances(
      std::move(of_steps), [&](std::size_t span, const SpanChances& chances) {
        const std::uint32_t row = row_of[span];
        visit({.key = rows.key[row], .pages = rows.span_pages[row], .chances = &chances});
      });
  if (over_time.bounds.is_steady) {
    over_time.steps = {{.start = steps_.front().start, .end = steps_.back().end, .times = all}};
  } else {
    for (const Step& step : steps_) {
      over_time.steps.push_back({.start = step.start, .end = step.end, .times = step.times});
    }
  }
  return over_time;
}

std::vector<StepEstimates> TotalRanker::EmptySteps(std::size_t rows) const {
  std::vector<StepEstimates> empty;
  for (const Step& step : steps_) {
    empty.push_back(
        {.start = step.start,
         .end = step.end,
         .times = step.times,
         .score = std::vector<float>(rows),
         .relative_sd = std::vector<float>(rows, std::numeric_limits<float>::infinity())});
  }
  return empty;
}

}  // namespace tmprof
