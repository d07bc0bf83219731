// SPDX-License-Identifier: Apache-2.0
// The hit rate of pages that were chosen before an epoch, judged by the samples of that epoch
// alone. Only rank/ uses it.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "rank/chosen_spans.h"
#include "rank/evidence.h"
#include "rank/hit_rates.h"

namespace tmprof {

class JudgedSamples {
 public:
  explicit JudgedSamples(std::size_t choices) : hits_(choices) {}

  // `epoch` is the evidence of an epoch alone. `chosen` was chosen before the epoch.
  void Add(const EvidenceTable& epoch, const ChosenSpans& chosen);

  // Returns one rate for each choice; nullopt: no page was sampled after a choice. The intervals
  // are Wilson's for a share of counts (JASA 22, 1927).
  std::vector<std::optional<HitRate>> Estimate() const;

 private:
  std::vector<double> hits_;  // samples of the pages of each choice
  double samples_ = 0;
};

}  // namespace tmprof
