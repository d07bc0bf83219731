// SPDX-License-Identifier: Apache-2.0
// Follows a program's epochs and estimates its hit rates with their errors.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"
#include "rank/chosen_spans.h"
#include "rank/hit_rates.h"
#include "rank/judged_history.h"
#include "rank/judged_samples.h"
#include "rank/rank_model.h"

namespace tmprof {

class HitRateTeller {
 public:
  // The hit rates are of accesses to memory if the source is kMemory, else of all accesses.
  // Preconditions: the rate model; a source with accessed bits; fewer than 255 capacities.
  HitRateTeller(const Ranker::Options& options, RankSource source,
                std::span<const PageCount> capacities);

  // Precondition: epochs come oldest first.
  void Absorb(const EpochProfile& profile);

  // Returns the pages that the ranking would put into tier 1 now.
  const ChosenSpans& chosen() const { return chosen_; }

  // Returns one result for each capacity, in the order given. They cover all memory that the
  // programs have, as far as the epochs show it.
  std::vector<HitRates> Tell() const;

 private:
  void Choose();

  RankSource source_;
  std::vector<PageCount> capacities_;  // in the order given
  Ranker ranker_;
  ChosenSpans chosen_;        // best spans known after the last epoch that ranked a page
  JudgedHistory by_bits_;     // used unless the source is kMemory
  JudgedSamples by_samples_;  // used if it is kMemory
};

}  // namespace tmprof
