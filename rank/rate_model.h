// SPDX-License-Identifier: Apache-2.0
// Access rates from accessed bits and address samples, merged by how well each is known.
// docs/design/estimator.md derives it and gives the figures.

#pragma once

#include <span>
#include <vector>

#include "rank/rate_evidence.h"

namespace tmprof {

// Columns parallel to the evidence given.
struct RateEstimates {
  std::vector<double> accesses_per_second;  // rate of one base page, mean of the posterior
  std::vector<double> relative_sd;          // spread of that posterior: 0.5 is +-50 %
  // If no bits were read at all, the unit of the rates is samples, not accesses.
  SampleResponse response;
};

// Deterministic: depends on the evidence and its order only.
RateEstimates EstimateRates(std::span<const RateEvidence> evidence);

}  // namespace tmprof
