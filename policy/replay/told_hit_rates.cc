// SPDX-License-Identifier: Apache-2.0

#include "policy/replay/told_hit_rates.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "base/epoch_stream.h"
#include "base/shared_pages.h"
#include "policy/replay/footprint.h"
#include "rank/hit_rate_teller.h"

namespace tmprof {

bool CanTellHitRates(const Ranker::Options& ranker, RankSource judge) {
  return IsEstimated(ranker.model, judge) && judge != RankSource::kSamples;
}

Result<std::vector<HitRates>> TellHitRates(const OpenTrace& open, const Ranker::Options& ranker,
                                           RankSource judge,
                                           std::span<const PageCount> capacities) {
  auto trace = open();
  if (!trace) return Fail(std::move(trace.error()));
  HitRateTeller teller(ranker, judge, capacities);
  SharedPages shared;
  Footprint joined;
  Footprint by_mapper;
  ReadToEnd(**trace, [&](const EpochProfile& epoch) {
    teller.Absorb(epoch);
    shared.Add(epoch.targets);
    joined.Add(epoch.pages, shared);
    by_mapper.Add(epoch.pages);
  });
  const std::uint64_t pages = joined.size().value();
  if (by_mapper.size().value() - pages > pages / 100) return std::vector<HitRates>();
  return teller.Tell();
}

}  // namespace tmprof
