// SPDX-License-Identifier: Apache-2.0
// Goes through the targets' memory, round and round and a little at a time, to see where it is:
// what nobody accesses is in no profile, and the kernel moves pages, too.

#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/page_key.h"
#include "base/units.h"
#include "mover/page_locator.h"
#include "mover/placement_map.h"

namespace tmprof {

struct SurveyedTarget {
  TargetId id;
  Pid pid;
  std::vector<VpnRange> mapped;  // ascending, disjoint
};

class PlacementSurvey {
 public:
  // `cpu_clock` is the calling thread's CPU time. All must outlive the survey.
  PlacementSurvey(PageLocator& locator, const Clock& cpu_clock);

  // Looks on from where it was, at most to the end of a round, and returns whether it came there.
  // As an average over calls, it uses the budget of CPU time while there is something that was
  // never looked at, and a tenth of it to look again. What cannot be looked at is passed over.
  // `targets` ascend by id.
  bool LookOn(std::span<const SurveyedTarget> targets, std::chrono::nanoseconds budget,
              PlacementMap& map);

  // Whether all has been looked at that the targets had when they appeared.
  bool complete() const { return complete_; }

 private:
  void GoToNewTarget(std::span<const SurveyedTarget> targets);

  PageLocator* locator_;
  const Clock* cpu_clock_;
  std::vector<TargetId> known_;
  PageKey next_;
  bool whole_round_ = true;  // since its start, nothing was passed over to look at a new target
  bool complete_ = false;
  std::chrono::nanoseconds left_{0};  // of the budgets so far; one look may overdraw them
};

}  // namespace tmprof
