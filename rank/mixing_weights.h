// SPDX-License-Identifier: Apache-2.0
// Estimates how much there is of each of some candidates, from observations that support each of
// them more or less. Only rank/ uses it.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tmprof {

// Similar observations, joined. Candidates outside [begin, end) are impossible.
struct LikelihoodRow {
  const double* likelihood;  // one per candidate; up to a factor
  std::size_t begin;
  std::size_t end;
  double observations;
};

// Returns how likely one of the observations is under these weights.
double Mass(const LikelihoodRow& row, std::span<const double> weights);

// Returns weights, adding up to 1, under which all observations are the likeliest, to within a
// factor of e^(1/2) in their likelihood. It stops earlier if that is not reached in far more steps
// than it should take. Preconditions: there is a candidate, and each row has a positive likelihood.
// It uses the constrained Newton method: Wang, "On fast computation of the non-parametric maximum
// likelihood estimate of a mixing distribution", Journal of the Royal Statistical Society B 69,
// 2007. `near`: weights of the first candidates that are likely to be near the result, which saves
// steps; empty: none are known.
std::vector<double> FitMixingWeights(std::span<const LikelihoodRow> rows, std::size_t candidates,
                                     std::span<const double> near = {});

// Removes weights that only explain accidents. Takes away candidates without which the observations
// are less likely by a factor of less than e^5, the lightest first.
std::vector<double> WithoutChance(std::span<const LikelihoodRow> rows, std::vector<double> weights);

}  // namespace tmprof
