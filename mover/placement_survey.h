// SPDX-License-Identifier: Apache-2.0
// Goes through the targets' memory, round and round and a little at a time, to see where it is:
// what nobody accesses is in no profile, and the kernel moves pages, too.

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
  // Of it in memory, shared pages included; nothing: unknown.
  std::optional<PageCount> resident{};
};

class PlacementSurvey {
 public:
  // Takes in where these pages of the target are.
  using Look = std::function<void(const SurveyedTarget& target, VpnRange pages)>;

  // `cpu_clock` is the calling thread's CPU time. It must outlive the survey.
  explicit PlacementSurvey(const Clock& cpu_clock);

  // Looks on from where it was: first at the targets that are new, then round and round at all of
  // them, to the end of a round at most. As an average over calls it uses the budget of CPU time
  // for what is new, and a tenth of it to look again. A target that has grown by a sixteenth since
  // it was looked at is looked at as if it were new. `targets` ascend by id.
  void LookOn(std::span<const SurveyedTarget> targets, std::chrono::nanoseconds budget,
              const Look& look);

  // Whether all targets have been looked at, each with the memory it had then.
  bool complete() const;
  bool IsComplete(TargetId target) const;

 private:
  void FindNewTargets(std::span<const SurveyedTarget> targets);
  void QueueGrown(std::span<const SurveyedTarget> targets);
  void LookAtNewTargets(std::span<const SurveyedTarget> targets, const Look& look);
  void LookAgain(std::span<const SurveyedTarget> targets, const Look& look);
  // From `next` on; true: to its end.
  bool LookAt(const SurveyedTarget& target, Vpn& next, const Look& look);

  const Clock* cpu_clock_;
  std::vector<TargetId> known_;
  std::deque<TargetId> new_;  // and those that have grown, in the order in which they did
  Vpn next_of_new_;           // of the first of them
  std::map<TargetId, std::optional<PageCount>> resident_;  // of the complete, when that began
  std::optional<PageCount> resident_of_new_;               // likewise, of the first of new_
  PageKey next_again_;
  std::chrono::nanoseconds left_{0};  // of the budgets so far; one look may overdraw them
};

}  // namespace tmprof
