// SPDX-License-Identifier: Apache-2.0
// The targets whose pages are placed: those that are alive, with their memory and its policies.

#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/host/procfs.h"
#include "base/tracked_process.h"
#include "base/units.h"
#include "daemon/placement/candidates.h"
#include "daemon/placement/live_targets.h"
#include "mover/live_bindings.h"

namespace tmprof {

class PlacedTargets {
 public:
  // All must outlive this object. `warn` is told once of each target whose policies cannot be read.
  PlacedTargets(LiveTargets& live, const ProcFs& procfs, LiveBindings& bindings,
                std::function<void(const std::string&)> warn);

  // Takes the targets from now on, ascending by id.
  void Follow(std::vector<TrackedProcess> targets);
  // Returns the targets of the last Follow(), whether they are alive or not, ascending.
  std::vector<TargetId> observed() const;
  // Returns those that are alive now. Their bindings stay good until the next call. A process
  // number that has become another's in between gives no figure that is used: moving asks for the
  // process itself.
  std::vector<PlacedTarget> Now();

 private:
  // False: its System V segments are of another IPC namespace than this one, or of an unknown one.
  bool JoinsSegments(const TrackedProcess& target) const;
  // Null: it cannot be read.
  LiveBindings::Shared BindingOf(TargetId target, Pid pid);

  LiveTargets* live_;
  const ProcFs* procfs_;
  LiveBindings* bindings_;
  std::function<void(const std::string&)> warn_;
  std::vector<TrackedProcess> tracked_;
  std::vector<LiveBindings::Shared> referred_;  // bindings that the targets of Now() refer to
  std::set<TargetId> unreadable_;               // whose policies cannot be read, which was reported
};

}  // namespace tmprof
