// SPDX-License-Identifier: Apache-2.0
// Finds the pages that processes share since fork(2): those with equal frames.

#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/epoch_profile.h"
#include "base/forked_pages.h"
#include "base/units.h"
#include "profiler/source.h"

namespace tmprof {

// Processes are compared with their parents, children and siblings only, and pages only at the same
// address of private mappings. Most frames come with the looks at accessed bits. Each is as of the
// last look at its page in the epoch: a write after that is seen with a later look.
//
// Relatives without a look at a page in the epoch are asked for its frame, if it would tell
// something new: the page may be the same, or may no longer be. A page that turns out to be so gets
// a record without evidence.
//
// Comparisons take at most 0.5 % of a CPU: epochs in between do not compare. bench/forked_pages
// measures the prices.
class FrameComparison {
 public:
  FrameComparison();
  // `cpu_clock` shows the CPU time of the caller's thread, and must stay.
  explicit FrameComparison(const Clock& cpu_clock) : cpu_clock_(&cpu_clock) {}

  using ParentOf = std::function<std::optional<Pid>(TargetId)>;
  // Returns the present frames of these base pages of a process. nullopt: they are unknown.
  using ReadFrames = std::function<std::vector<std::optional<SeenFrame>>(Pid, VpnRange)>;

  // Sets PageColumns::same_as if there is anything to compare, and it is time to. `frames` are
  // those of the records (BuildEpoch()). `read_frames` may be empty: nobody is asked.
  void Compare(EpochProfile& profile, std::span<const std::optional<SeenFrame>> frames,
               const ParentOf& parent_of, const ReadFrames& read_frames);

 private:
  const Clock* cpu_clock_;
  MonotonicTime next_;
  ForkedPages told_;  // the joined pages, as the profiles so far tell of them
};

// Reads frames from /proc/PID/pagemap. They are unknown without CAP_SYS_ADMIN.
std::vector<std::optional<SeenFrame>> ReadPagemap(Pid pid, VpnRange pages);

}  // namespace tmprof
