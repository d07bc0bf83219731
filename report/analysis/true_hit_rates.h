// SPDX-License-Identifier: Apache-2.0
// The hit rates that a ranking's choices really have, if a program reports its accesses.

#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/epoch_profile.h"
#include "base/units.h"
#include "rank/chosen_spans.h"
#include "report/analysis/accuracy.h"

namespace tmprof {

// Parts of the truth's accesses. The last phase is the last one that an epoch reached into.
struct TrueHitRates {
  // The heaviest pages have this part of the last phase; nullopt: no epoch reached into a phase.
  std::optional<double> best;
  // The pages that were ranked best after the last epoch that reached into a phase have this part
  // of it; nullopt: as above, or nothing was ranked. What a program does after its last phase, such
  // as writing its truth, is not judged.
  std::optional<double> ranked;
  // The pages that were ranked best before each epoch have this part of it, in the mean over CPU
  // time. nullopt: nothing was ranked before an epoch that reached into a phase.
  std::optional<double> history;
};

class TrueHitRateJudge {
 public:
  // Precondition: the truth outlives it.
  explicit TrueHitRateJudge(const Truth& truth) : truth_(&truth) {}

  // `chosen`: after this epoch. A page that several processes share is known by one of them: a
  // truth that names another one's PID does not have it.
  void Add(const EpochProfile& epoch, const ChosenSpans& chosen);

  TrueHitRates At(PageCount capacity) const;

 private:
  struct Choice {
    PageCount capacity;
    std::vector<PagesOfProcess> pages;     // after the last epoch
    std::vector<PagesOfProcess> in_phase;  // after the last one that reached into a phase
    double hit_seconds = 0;
    double seconds = 0;  // CPU time
  };

  const Truth* truth_;
  const TruthPhase* last_ = nullptr;
  std::map<TargetId, Pid> pids_;  // those of processes that ended, too
  bool any_chosen_ = false;
  bool any_in_phase_ = false;
  std::vector<Choice> choices_;
};

}  // namespace tmprof
