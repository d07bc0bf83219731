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

  // Looks on from where it was until so much CPU time is used, or everything has been looked at
  // once more. What cannot be looked at is passed over. `targets` ascend by id. Returns whether it
  // came to the end of a round.
  bool LookOn(std::span<const SurveyedTarget> targets, std::chrono::nanoseconds budget,
              PlacementMap& map);

  // Whether all that is there now has been looked at.
  bool complete() const { return complete_; }

 private:
  PageLocator* locator_;
  const Clock* cpu_clock_;
  PageKey next_;
  bool complete_ = false;
};

}  // namespace tmprof
