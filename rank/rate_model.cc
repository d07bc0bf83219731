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

  std::vector<double> squares = fit.mixture.rates();
  for (double& rate : squares) rate *= rate;
  std::vector<double> mean(kinds.size());
  std::vector<double> relative_sd(kinds.size());
  for (std::uint32_t k = 0; k < kinds.size(); ++k) {
    mean[k] = fit.mixture.Mean(k, fit.mixture.rates());
    const double variance = fit.mixture.Mean(k, squares) - mean[k] * mean[k];
    relative_sd[k] = std::sqrt(std::max(0.0, variance)) / mean[k];
  }
  result.accesses_per_second.reserve(evidence.size());
  result.relative_sd.reserve(evidence.size());
  for (const std::uint32_t kind : kind_of_row) {
    result.accesses_per_second.push_back(mean[kind]);
    result.relative_sd.push_back(relative_sd[kind]);
  }
  return result;
}

}  // namespace tmprof
