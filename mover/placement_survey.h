// SPDX-License-Identifier: Apache-2.0
// Goes through the targets' memory, round and round and a little at a time, to see where it is:
// what nobody accesses is in no profile, and the kernel moves pages, too.

#pragma once

#include <chrono>
#include <deque>
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

  // Looks on from where it was: first at the targets that are new, then round and round at all of
  // them, to the end of a round at most. As an average over calls it uses the budget of CPU time
  // for what is new, and a tenth of it to look again. What cannot be looked at is passed over.
  // `targets` ascend by id.
  void LookOn(std::span<const SurveyedTarget> targets, std::chrono::nanoseconds budget,
              PlacementMap& map);

  // Whether all targets have been looked at, each with the memory it had then.
  bool complete() const { return new_.empty(); }

 private:
  void FindNewTargets(std::span<const SurveyedTarget> targets);
  void LookAtNewTargets(std::span<const SurveyedTarget> targets, PlacementMap& map);
  void LookAgain(std::span<const SurveyedTarget> targets, PlacementMap& map);
  // From `next` on; true: to its end.
  bool LookAt(const SurveyedTarget& target, Vpn& next, PlacementMap& map);

  PageLocator* locator_;
  const Clock* cpu_clock_;
  std::vector<TargetId> known_;
  std::deque<TargetId> new_;  // in the order in which they appeared
  Vpn next_of_new_;           // of the first of them
  PageKey next_again_;
  std::chrono::nanoseconds left_{0};  // of the budgets so far; one look may overdraw them
};

}  // namespace tmprof
