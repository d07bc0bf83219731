// SPDX-License-Identifier: Apache-2.0
// The hit rates that a ranking's choices really have, where a program tells what it accesses.

#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"
#include "rank/chosen_spans.h"
#include "report/accuracy.h"

namespace tmprof {

// Parts of the truth's accesses.
struct TrueHitRates {
  double best = 0;  // of the heaviest pages, in the last phase
  // Of the pages that were ranked best at the end, in the last phase; nullopt: none were ranked.
  std::optional<double> ranked;
  // Of the pages that were ranked best before each epoch, in that epoch, by its CPU time. Epochs
  // of which the truth has no phase are left out. nullopt: there are no others.
  std::optional<double> history;
};

class TrueHitRateJudge {
 public:
  // Precondition: the truth outlives it, and has a phase.
  explicit TrueHitRateJudge(const Truth& truth) : truth_(&truth) {}

  // `chosen`: after this epoch.
  void Add(const EpochProfile& epoch, const ChosenSpans& chosen);

  TrueHitRates At(PageCount capacity) const;

 private:
  struct Choice {
    PageCount capacity;
    std::vector<PagesOfProcess> pages;  // after the last epoch
    double hit_seconds = 0;
    double seconds = 0;  // of CPU time
  };

  const Truth* truth_;
  std::vector<Choice> choices_;
};

}  // namespace tmprof
