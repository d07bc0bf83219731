// SPDX-License-Identifier: Apache-2.0
// Turns access rates of pages into accesses to memory. Only rank/ uses it.

#pragma once

#include <map>
#include <optional>
#include <random>
#include <span>

#include "base/units.h"
#include "rank/memory_worth.h"

namespace tmprof {

// One page or span, or several that are alike.
struct MemoryRow {
  TargetId target;  // or the name of a file that several processes map
  SampledPages seen;
  // False: no accessed bit of them was read, so that their rate is that of any page. They are there
  // because they were sampled, and tell nothing of what a rate is worth.
  bool looked_at = true;
};

// Learns for each target what its access rates are worth. Targets with too few samples to tell have
// one worth together. If even all samples are too few, each access is taken to be worth the same:
// half a sample more than there are is shared out among all accesses, or, if no sampler was on,
// each access is taken to be one to memory.
class MemoryWeights {
 public:
  // A weight is in units of which a sample stands for `units_per_sample`, such as accesses.
  explicit MemoryWeights(std::span<const MemoryRow> rows, double units_per_sample = 1);

  // False: there are too few samples, even of all targets.
  bool are_told() const { return is_told_; }

  const MemoryWorth& WorthOf(TargetId target) const;

  // Accesses to memory of a base page in a second, and their relative deviation.
  struct Weight {
    double mean = 0;
    double relative_sd = 0;
  };
  Weight Of(const MemoryRow& row) const;

  // Draws worths that are as likely, given the samples. Precondition: are_told().
  MemoryWeights Draw(std::mt19937_64& random) const;

 private:
  MemoryWeights() = default;

  double units_per_sample_ = 1;
  bool is_told_ = false;
  std::map<TargetId, MemoryWorth> of_target_;
  std::optional<MemoryWorth> all_;
};

}  // namespace tmprof
