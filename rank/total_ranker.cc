// SPDX-License-Identifier: Apache-2.0

#include "rank/total_ranker.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/check.h"
#include "rank/rate_history.h"
#include "rank/source_view.h"

namespace tmprof {
namespace {

// Steps tell phases apart that last a few of them, and cost time: 32 steps of 131 072 spans take
// some 0.6 s of CPU time to estimate (`report --view hot` of `zipf --footprint 512MiB`).
constexpr std::size_t kMostSteps = 32;
// Rows of all steps, per span of the trace. A scanner that needs n epochs to visit everything fills
// one n-th of a step, so a budget of rows leaves it the steps that its evidence can tell apart.
constexpr std::size_t kMostRowsPerSpan = 12;

std::size_t RowsOf(const PartedEvidence& evidence) {
  return evidence.spans().size() + evidence.pages().size();
}

double SecondsSince(MonotonicTime origin, MonotonicTime time) {
  return std::chrono::duration<double>(time - origin).count();
}

}  // namespace

void TotalRanker::Absorb(const EpochProfile& profile) {
  Step step{.start = profile.start, .end = profile.end, .epochs = 1};
  step.evidence.Take(profile);
  spare_.Join(evidence_, Keeps(), step.evidence);
  spare_.Part();
  std::swap(evidence_, spare_);
  if (model_ != RankModel::kRate) return;
  step.times.Add(profile);
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
  PartedEvidence both;
  both.Join(step.evidence, Keeps(), next.evidence);
  step.evidence = std::move(both);
  step.times.Add(next.times);
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
  return model_ == RankModel::kRate && !IsExact(source) ? EstimateByRate(source, nullptr)
                                                        : EstimateByCounts(table(), source);
}

EstimatesOverTime TotalRanker::EstimateOverTime(RankSource source) const {
  TMPROF_CHECK(model_ == RankModel::kRate && !IsExact(source));
  EstimatesOverTime over_time;
  for (const Step& step : steps_) {
    over_time.steps.push_back(
        {.start = step.start, .end = step.end, .times = step.times, .estimates = {}});
  }
  over_time.all = EstimateByRate(source, &over_time);
  return over_time;
}

Estimates TotalRanker::EstimateByRate(RankSource source, EstimatesOverTime* over_time) const {
  // Samples alone know no regions.
  if (!evidence_.is_parted() || source == RankSource::kSamples) {
    return EstimateByRate(table(), source, over_time);
  }
  Estimates estimates = EstimateByRate(evidence_.WholeSpans(), source, over_time);
  evidence_.ShareOut(SharedBy(source), estimates.score, &estimates.relative_sd);
  if (over_time == nullptr) return estimates;
  // Regions are made to add up in each call, so that a page's steps do not quite add up to it.
  std::vector<double> sums(estimates.score.size());
  for (EstimatesOverTime::Step& step : over_time->steps) {
    evidence_.ShareOut(SharedBy(source), step.estimates.score, &step.estimates.relative_sd);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += step.estimates.score[i];
  }
  for (EstimatesOverTime::Step& step : over_time->steps) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (sums[i] > 0) step.estimates.score[i] *= estimates.score[i] / sums[i];
    }
  }
  return estimates;
}

Estimates TotalRanker::EstimateByRate(const EvidenceTable& table, RankSource source,
                                      EstimatesOverTime* over_time) const {
  Estimates estimates = NoEstimates(table.size());
  if (over_time != nullptr) {
    for (EstimatesOverTime::Step& step : over_time->steps) step.estimates = estimates;
  }
  if (steps_.empty()) return estimates;
  const RateView view(table, source);
  TargetTimes all_times;
  std::vector<double> middles;
  std::vector<EvidenceWalk> walks;
  std::vector<EvidenceWalk> pages_apart;
  for (const Step& step : steps_) {
    middles.push_back((SecondsSince(steps_.front().start, step.start) +
                       SecondsSince(steps_.front().start, step.end)) /
                      2);
    walks.emplace_back(step.evidence.spans());
    pages_apart.emplace_back(step.evidence.pages());
    all_times.Add(step.times);
  }
  RateHistory history(std::move(middles));

  std::optional<TargetId> target;
  std::vector<double> watched(steps_.size());
  std::vector<RateEvidence> seen(steps_.size());
  std::vector<std::uint32_t> row_of;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const PageKey key = table.key[i];
    if (target != key.target) {
      target = key.target;
      std::vector<double> cpu_seconds;
      for (std::size_t s = 0; s < steps_.size(); ++s) {
        // Listed at some time, the target was not there in steps that do not list it.
        const TargetTime time = all_times.Find(*target)
                                    ? steps_[s].times.Find(*target).value_or(TargetTime{})
                                    : steps_[s].times.Of(*target);
        cpu_seconds.push_back(time.cpu_seconds);
        watched[s] = time.watched_seconds;
      }
      history.BeginTarget(std::move(cpu_seconds));
    }
    const std::uint32_t pages = table.span_pages[i];
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      Evidence evidence;
      walks[s].AddWithin(key, pages, evidence);
      pages_apart[s].AddWithin(key, pages, evidence);
      seen[s] = view.Of(evidence, pages, watched[s]);
    }
    if (!view.Sees(table.evidence[i])) continue;
    history.AddSpan(seen);
    row_of.push_back(static_cast<std::uint32_t>(i));
  }

  const AccessEstimates per_page = std::move(history).Estimate(
      over_time != nullptr ? RateHistory::Of::kEachStepToo : RateHistory::Of::kAllSteps);
  const auto put = [&](const auto& of_pages, Estimates& to) {
    for (std::size_t r = 0; r < row_of.size(); ++r) {
      const std::uint32_t row = row_of[r];
      const double score = of_pages.accesses[r] * table.span_pages[row];
      to.score[row] = score;
      if (score > 0) to.relative_sd[row] = of_pages.relative_sd[r];
    }
  };
  put(per_page, estimates);
  for (std::size_t s = 0; s < per_page.steps.size(); ++s) {
    put(per_page.steps[s], over_time->steps[s].estimates);
  }
  return estimates;
}

}  // namespace tmprof
