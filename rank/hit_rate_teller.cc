// SPDX-License-Identifier: Apache-2.0

#include "rank/hit_rate_teller.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace tmprof {
namespace {

// History is given if at most one page in this many is unknown.
constexpr std::uint64_t kMostUnknown = 10;

std::vector<PageCount> Ascending(std::span<const PageCount> capacities) {
  std::vector<PageCount> ascending(capacities.begin(), capacities.end());
  std::ranges::sort(ascending);
  const auto repeated = std::ranges::unique(ascending);
  ascending.erase(repeated.begin(), repeated.end());
  return ascending;
}

}  // namespace

HitRateTeller::HitRateTeller(const Ranker::Options& options, RankSource source,
                             std::span<const PageCount> capacities)
    : source_(source),
      capacities_(capacities.begin(), capacities.end()),
      ranker_(options),
      chosen_{.capacities = Ascending(capacities), .key = {}, .span_pages = {}, .first_choice = {}},
      by_bits_(chosen_.capacities.size()),
      by_samples_(chosen_.capacities.size()) {
  TMPROF_CHECK(IsEstimated(options.model, source) && source != RankSource::kSamples &&
               chosen_.capacities.size() < 255);
}

void HitRateTeller::Absorb(const EpochProfile& profile) {
  ranker_.Absorb(profile);
  if (!chosen_.key.empty()) {
    PartedEvidence latest;
    TargetTimes times;
    times.Add(profile);
    if (source_ == RankSource::kMemory) {
      latest.Take(profile);
      latest.Part();
      if (ranker_.SamplesAreOfMemory())
        by_samples_.Add(ranker_.ByPage(latest.table(), times), chosen_);
    } else {
      const Visits visits = VisitsToJudgeBy(profile.pages);
      latest.Take(profile, visits);
      by_bits_.Add(ranker_.ByPage(std::move(latest.spans()), times), visits, times, chosen_);
    }
  }
  Choose();
}

void HitRateTeller::Choose() {
  Ranker::PageScores table = ranker_.ScoreByPage(source_);
  const Scores& scores = table.score;
  std::vector<std::uint32_t> rows;
  for (std::uint32_t row = 0; row < scores.size(); ++row) {
    if (scores[row] > 0) rows.push_back(row);
  }
  if (rows.empty()) return;
  std::ranges::stable_sort(rows, std::greater(),
                           [&](std::uint32_t row) { return scores[row] / table.span_pages[row]; });
  const auto none = static_cast<std::uint8_t>(chosen_.capacities.size());
  chosen_.key = table.key;
  chosen_.span_pages = table.span_pages;
  chosen_.first_choice.assign(table.key.size(), none);
  PageCount used;
  std::uint8_t choice = 0;
  for (const std::uint32_t row : rows) {
    used += PageCount(table.span_pages[row]);
    while (choice < none && used > chosen_.capacities[choice]) ++choice;
    if (choice == none) break;
    chosen_.first_choice[row] = choice;
  }
}

std::vector<HitRates> HitRateTeller::Tell() const {
  const std::vector<UnknownPages> unknown = ranker_.PagesUnknown(source_);
  std::vector<HitRates> told = ranker_.HitRatesAt(source_, capacities_, unknown);
  const bool of_memory = source_ == RankSource::kMemory;
  const std::vector<std::optional<HitRate>> history =
      of_memory ? by_samples_.Estimate() : by_bits_.Estimate(unknown);
  for (HitRates& each : told) {
    const auto at = std::ranges::lower_bound(chosen_.capacities, each.capacity);
    each.history = history[static_cast<std::size_t>(at - chosen_.capacities.begin())];
    // No evidence judges unknown pages.
    const bool is_known = kMostUnknown * each.unknown.value() <= each.pages.value();
    if (each.history && !is_known) each.history = HitRate{.value = each.history->value};
    // The first reads of one epoch judge history, mostly without fast tries. They hide the rates of
    // the pages ranked best, whose share may be as large in history.
    if (!of_memory && each.history && each.attainable) {
      each.history->high = std::max(each.history->high, each.attainable->high);
    }
  }
  return told;
}

}  // namespace tmprof
