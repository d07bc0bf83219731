// SPDX-License-Identifier: Apache-2.0

#include "policy/replay/told_hit_rates.h"

#include <cstdint>
#include <memory>
#include <utility>

#include "base/epoch_stream.h"
#include "rank/hit_rate_teller.h"

namespace tmprof {

bool CanTellHitRates(const Ranker::Options& ranker, RankSource judge) {
  return IsEstimated(ranker.model, judge) && judge != RankSource::kSamples;
}

Result<std::vector<HitRates>> TellHitRates(const OpenTrace& open, const Ranker::Options& ranker,
                                           RankSource judge, std::span<const PageCount> capacities,
                                           const OnChoice& on_choice) {
  auto trace = open();
  if (!trace) return Fail(std::move(trace.error()));
  HitRateTeller teller(ranker, judge, capacities);
  ReadToEnd(**trace, [&](const EpochProfile& epoch) {
    teller.Absorb(epoch);
    if (on_choice) on_choice(epoch, teller.chosen());
  });
  return teller.Tell();
}

}  // namespace tmprof
