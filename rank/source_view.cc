// SPDX-License-Identifier: Apache-2.0

#include "rank/source_view.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tmprof {
namespace {

double Count(const Evidence& evidence, RankSource source) {
  switch (source) {
    case RankSource::kReferences:
      return evidence.references;
    case RankSource::kSamples:
    case RankSource::kMemory:
      return evidence.samples();
    case RankSource::kCombined:
      return evidence.references + evidence.samples();
    case RankSource::kTruth:
      return evidence.accesses;
    case RankSource::kMisses:
      return evidence.misses;
    case RankSource::kStall:
      return evidence.stall_ns;
  }
  return 0;
}

}  // namespace

void ScoreByCounts(const EvidenceTable& table, RankSource source, Scores& scores) {
  scores.resize(table.size());
  std::ranges::transform(table.evidence, scores.begin(),
                         [source](const Evidence& evidence) { return Count(evidence, source); });
}

void ScoreByCounts(const EpochProfile& profile, RankSource source, Scores& scores) {
  const PageColumns& pages = profile.pages;
  const bool references = source == RankSource::kReferences || source == RankSource::kCombined;
  const bool samples = source == RankSource::kSamples || source == RankSource::kCombined ||
                       source == RankSource::kMemory;
  const bool accesses = source == RankSource::kTruth && pages.accesses.has_value();
  const bool misses =
      source == RankSource::kMisses && pages.accesses && pages.accesses->llc_misses.has_value();
  const bool stalls =
      source == RankSource::kStall && pages.accesses && pages.accesses->stall_ns.has_value();
  scores.resize(pages.size());
  for (std::size_t i = 0; i < pages.size(); ++i) {
    std::uint64_t count = references ? pages.references[i] : 0;
    if (samples) count += std::uint64_t{pages.load_samples[i]} + pages.store_samples[i];
    if (accesses) count += pages.accesses->loads[i] + pages.accesses->stores[i];
    if (misses) count += (*pages.accesses->llc_misses)[i];
    if (stalls) count += (*pages.accesses->stall_ns)[i];
    scores[i] = static_cast<double>(count);
  }
}

Estimates EstimateByCounts(const EvidenceTable& table, RankSource source) {
  Estimates estimates;
  ScoreByCounts(table, source, estimates.score);
  estimates.relative_sd.reserve(table.size());
  for (const double count : estimates.score) {
    // A count's own noise is Poisson; exact counts have none.
    estimates.relative_sd.push_back(count == 0        ? std::numeric_limits<double>::infinity()
                                    : IsExact(source) ? 0
                                                      : 1 / std::sqrt(count));
  }
  return estimates;
}

Estimates NoEstimates(std::size_t rows) {
  return {.score = Scores(rows, 0.0),
          .relative_sd = std::vector<double>(rows, std::numeric_limits<double>::infinity())};
}

RateView::RateView(const EvidenceTable& table, RankSource source)
    : use_bits_(source != RankSource::kSamples),
      sees_samples_(source != RankSource::kReferences),
      rates_by_samples_(source == RankSource::kSamples || source == RankSource::kCombined),
      timed_(std::ranges::any_of(table.evidence, [](const Evidence& evidence) {
        return evidence.all_page_seconds_at_risk() > 0;
      })) {}

}  // namespace tmprof
