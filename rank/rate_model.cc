// SPDX-License-Identifier: Apache-2.0

#include "rank/rate_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "rank/rate_fit.h"

namespace tmprof {

RateEstimates EstimateRates(std::span<const RateEvidence> evidence) {
  RateEstimates result;
  if (evidence.empty()) return result;
  RateKinds sorter;
  std::vector<std::uint32_t> kind_of_row;
  kind_of_row.reserve(evidence.size());
  for (const RateEvidence& row : evidence) kind_of_row.push_back(sorter.Add(row));
  const std::vector<RateKind> kinds = std::move(sorter).Take();
  const RateFit fit = FitRates(kinds);
  result.response = fit.response;

  const std::vector<RateMoments> moments = MomentsOf(fit.mixture, kinds.size());
  result.accesses_per_second.reserve(evidence.size());
  result.relative_sd.reserve(evidence.size());
  for (const std::uint32_t kind : kind_of_row) {
    const RateMoments& rate = moments[kind];
    result.accesses_per_second.push_back(rate.mean);
    result.relative_sd.push_back(std::sqrt(rate.variance) / rate.mean);
  }
  return result;
}

}  // namespace tmprof
