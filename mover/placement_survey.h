// SPDX-License-Identifier: Apache-2.0
// Looks through the targets' memory in rounds, a little at a time, to see where it is. Memory that
// nobody accesses is in no profile, and the kernel moves pages, too.

#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/page_key.h"
#include "base/units.h"

namespace tmprof {

struct SurveyedTarget {
  TargetId id;
  Pid pid;
  std::vector<VpnRange> mapped;  // ascending, disjoint
  // pages of the target in memory, shared ones included; unset: unknown
  std::optional<PageCount> resident{};
};

class PlacementSurvey {
 public:
  // Finds and stores where these pages of the target are.
  using Look = std::function<void(const SurveyedTarget& target, VpnRange pages)>;

  // `cpu_clock` is the calling thread's CPU time. It must outlive the survey.
  explicit PlacementSurvey(const Clock& cpu_clock);

  // Continues the survey: new targets first, then all of them in rounds, to the end of a round at
  // most. On average over calls it uses the budget of CPU time for new targets, and a tenth of it
  // to look again. A target that has grown by a sixteenth since its last look counts as new.
  // `targets` ascend by ID.
  void LookOn(std::span<const SurveyedTarget> targets, std::chrono::nanoseconds budget,
              const Look& look);

  // True if all targets have been looked at, each with the memory it had then.
  bool complete() const;
  bool IsComplete(TargetId target) const;

 private:
  void FindNewTargets(std::span<const SurveyedTarget> targets);
  void QueueGrown(std::span<const SurveyedTarget> targets);
  void LookAtNewTargets(std::span<const SurveyedTarget> targets, const Look& look);
  void LookAgain(std::span<const SurveyedTarget> targets, const Look& look);
  // Looks from `next` on. True: it reached the end of the target.
  bool LookAt(const SurveyedTarget& target, Vpn& next, const Look& look);

  const Clock* cpu_clock_;
  std::vector<TargetId> known_;
  std::deque<TargetId> new_;  // also targets that have grown, in the order in which they did
  Vpn next_of_new_;           // within the first one of new_
  // For complete targets, when their last look began.
  std::map<TargetId, std::optional<PageCount>> resident_;
  std::optional<PageCount> resident_of_new_;  // pages of the first one of new_, when its look began
  PageKey next_again_;
  std::chrono::nanoseconds left_{0};  // left of the budgets up to now; one look may overdraw them
};

}  // namespace tmprof
