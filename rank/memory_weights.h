// SPDX-License-Identifier: Apache-2.0
// Scores of accesses turned into scores of accesses to memory. Only rank/ uses it.

#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "rank/evidence.h"
#include "rank/memory_worth.h"
#include "rank/rank_model.h"
#include "rank/target_times.h"

namespace tmprof {

// Learns for each target what its access rates are worth. Targets with too few samples to tell have
// one worth together.
class MemoryWeights {
 public:
  // `accesses`: those of each row within the last epoch, by accessed bits. All have to stay.
  MemoryWeights(const EvidenceTable& table, const TargetTimes& times, const Scores& accesses);

  // False: there are too few samples, even of all targets.
  bool are_told() const { return all_.has_value(); }

  // Expected samples within the last epoch; 0 for a row that has no score of accesses.
  // Precondition: are_told().
  struct Weight {
    double score = 0;
    double relative_sd = 0;
  };
  Weight OfRow(std::size_t row) const;
  double OfPages(TargetId target, double pages, double accesses) const;

 private:
  const MemoryWorth& WorthOf(TargetId target) const;

  const EvidenceTable& table_;
  const TargetTimes& times_;
  const Scores& accesses_;
  std::map<TargetId, MemoryWorth> of_target_;
  std::optional<MemoryWorth> all_;
};

}  // namespace tmprof
